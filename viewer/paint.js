// SPDX-License-Identifier: Apache-2.0
// Painting the timeline: from cells and a viewport to draw calls, which are numbers and texts, and from these to
// pixels. Nothing here knows a browser. The work follows the pixels, never the trace.
import { LEVELS } from './colours.js'

export const STRIDE = 6 // numbers of a cell: start, end, function, share of 255, calls, call or -1

/**
 * Cells of a row between two times; merged cells count only between these.
 * @typedef {{from: number, to: number, cells: Float64Array}} Piece
 * @typedef {{y: number, height: number, pieces: Piece[]}} Row
 * @typedef {{from: number, to: number, width: number}} Viewport width in pixels of the canvas
 * @typedef {{x: number, y: number, width: number, height: number, fn: number}} Label
 * @typedef {{y: number, height: number, spans: number[]}} Line spans: begin, end, colour
 * @typedef {{lines: Line[], labels: Label[]}} Frame
 */

/** The first cell that ends after `time`. @param {Float64Array} cells @param {number} time */
export function firstAfter (cells, time) {
  let low = 0
  let high = cells.length / STRIDE
  while (low < high) {
    const middle = (low + high) >> 1
    if (cells[middle * STRIDE + 1] > time) high = middle
    else low = middle + 1
  }
  return low
}

const GAP_FROM = 5 // pixels of width from which on neighbours are kept apart

/** The span at `at` goes on to `x1`, and its name has more room.
 * @param {number[]} spans @param {number} at @param {number} x1 @param {number} label @param {Label[]} labels
 * @param {Row} row @param {number} fn */
function lengthen (spans, at, x1, label, labels, row, fn) {
  const x0 = spans[at]
  spans[at + 1] = x1 - x0 >= GAP_FROM ? x1 - 1 : x1
  const last = labels[labels.length - 1]
  if (last && last.x === x0 && last.y === row.y) last.width = x1 - x0
  else if (x1 - x0 >= label) labels.push({ x: x0, y: row.y, width: x1 - x0, height: row.height, fn })
}

/**
 * The cell that was painted last.
 * @typedef {{call: number, fn: number, whole: boolean, end: number}} Tail
 */

/** Whether a cell is what was painted last, which ended there only because a piece or a level of the server ends.
 * @param {Tail} tail @param {Float64Array} cells @param {number} i @param {number} low */
function goesOn (tail, cells, i, low) {
  const [start, , fn, share, calls, call] = cells.subarray(i, i + STRIDE)
  if (call >= 0 && tail.call >= 0) return call === tail.call
  if (fn !== tail.fn || !tail.whole || tail.end < low) return false
  if (call >= 0 && start < low) return true
  return start <= Math.max(low, tail.end) && share === 255 && calls === 0
}

/** Paints the cells of one row into `spans` and `labels`.
 * @param {Row} row @param {Viewport} view @param {(fn: number) => number} colour @param {number} label
 * @param {Label[]} labels @returns {number[]} */
function paintRow (row, view, colour, label, labels) {
  const { from, to, width } = view
  const scale = width / (to - from)
  const spans = []
  let painted = 0 // pixels to the left of this are done
  let tail = { call: -1, fn: -1, whole: false, end: -1 }
  for (const { from: low, to: high, cells } of row.pieces) {
    const end = Math.min(to, high)
    for (let i = firstAfter(cells, Math.max(from, low)) * STRIDE; i < cells.length && cells[i] < end; i += STRIDE) {
      const call = cells[i + 5]
      const begins = call >= 0 ? cells[i] : Math.max(cells[i], low)
      const ends = call >= 0 ? cells[i + 1] : Math.min(cells[i + 1], high)
      const left = Math.round((begins - from) * scale)
      const x0 = Math.max(painted, left)
      // At least a pixel, its own: of cells that share one the first is seen, and none is moved to the right.
      const x1 = Math.min(width, Math.max(Math.round((ends - from) * scale), left + (ends > begins ? 1 : 0)))
      if (x1 <= x0 || x0 >= width) continue
      const more = goesOn(tail, cells, i, low)
      tail = { call, fn: cells[i + 2], whole: call >= 0 || cells[i + 3] === 255, end: ends }
      painted = x1
      if (more) {
        const before = spans.length - 3
        lengthen(spans, before, x1, label, labels, row, cells[i + 2])
        continue
      }
      const level = call >= 0 ? LEVELS - 1 : Math.min(LEVELS - 1, cells[i + 3] >> 5)
      spans.push(x0, x1 - x0 >= GAP_FROM ? x1 - 1 : x1, colour(cells[i + 2]) * LEVELS + level)
      if (x1 - x0 >= label) labels.push({ x: x0, y: row.y, width: x1 - x0, height: row.height, fn: cells[i + 2] })
    }
  }
  return spans
}

/** What is to be drawn. `label`: pixels of width from which on a cell is named.
 * @param {Row[]} rows @param {Viewport} view
 * @param {(fn: number) => number} colour @param {number} label @returns {Frame} */
export function paint (rows, view, colour, label) {
  /** @type {Label[]} */
  const labels = []
  const lines = rows.map(row => ({ y: row.y, height: row.height, spans: paintRow(row, view, colour, label, labels) }))
  return { lines, labels }
}

/** Draws the lines into pixels: each row once, then copied as often as it is high.
 * @param {Frame} frame @param {Uint32Array} pixels @param {number} width @param {number} height
 * @param {{pixels: Uint32Array, blank: number}} palette */
export function raster (frame, pixels, width, height, palette) {
  pixels.fill(palette.blank)
  for (const { y, height: tall, spans } of frame.lines) {
    const top = Math.max(0, y)
    const bottom = Math.min(height, y + tall)
    if (bottom <= top) continue
    const start = top * width
    for (let i = 0; i < spans.length; i += 3) {
      const value = palette.pixels[spans[i + 2]]
      if (spans[i + 1] - spans[i] === 1) pixels[start + spans[i]] = value
      else pixels.fill(value, start + spans[i], start + spans[i + 1])
    }
    for (let line = top + 1; line < bottom; line++) pixels.copyWithin(line * width, start, start + width)
  }
}

/** @typedef {{start: number, end: number, fn: number, share: number, calls: number, call: number, cut: boolean}} Cell
 * cut: it may go on after the last piece */

/** The cell at a time, or null. @param {Piece[]} pieces @param {number} time @param {number} [tolerance] time at both
 * sides in which a cell that is too narrow to be met is found as well @returns {Cell | null} */
export function cellAt (pieces, time, tolerance = 0) {
  let best = null
  let distance = Infinity
  for (const { from, to, cells } of pieces) {
    if (time + tolerance < from || time - tolerance >= to) continue
    for (let i = firstAfter(cells, time - tolerance) * STRIDE; i < cells.length; i += STRIDE) {
      if (cells[i] > time + tolerance) break
      const far = cells[i] > time ? cells[i] - time : cells[i + 1] <= time ? time - cells[i + 1] : -1
      if (far >= distance) continue
      distance = far
      const [start, end, fn, share, calls, call] = cells.subarray(i, i + STRIDE)
      best = { start, end, fn, share, calls, call, cut: false }
    }
  }
  return best && best.call >= 0 ? whole(pieces, best) : best
}

/** The call with what later pieces tell of it. @param {Piece[]} pieces @param {Cell} cell @returns {Cell} */
function whole (pieces, cell) {
  let { end } = cell
  for (const { cells } of pieces) {
    const i = firstAfter(cells, cell.start) * STRIDE
    if (i < cells.length && cells[i + 5] === cell.call) end = Math.max(end, cells[i + 1])
  }
  const last = pieces[pieces.length - 1]
  return { ...cell, end, cut: last !== undefined && end >= last.to }
}

/** As much of a name as fits. @param {string} text @param {number} width @param {number} letter width of a letter */
export function fitted (text, width, letter) {
  const room = Math.floor(width / letter)
  if (text.length <= room) return text
  return room < 3 ? '' : text.slice(0, room - 1) + '…'
}
