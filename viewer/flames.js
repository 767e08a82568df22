// SPDX-License-Identifier: Apache-2.0
// Painting flame graphs: from rows of an answer and a viewport to boxes. Nothing here knows a browser.

export const ROW = 20
export const UNKNOWN = '(not recorded)' // a caller
const LEAST = 0.5 // pixels: narrower boxes are not painted

/**
 * [depth, x, width, function, ...]: x and width in the units of the total.
 * @typedef {number[]} Box
 * @typedef {{x: number, y: number, width: number, height: number, row: Box, index: number}} Painted
 */

/** @param {Box[]} rows @param {{from: number, to: number, width: number, top: number, height: number}} view
 * @returns {Painted[]} */
export function boxes (rows, view) {
  const scale = view.width / Math.max(1e-9, view.to - view.from)
  /** @type {Painted[]} */
  const found = []
  rows.forEach((row, index) => {
    const [depth, start, wide] = row
    const y = depth * ROW - view.top
    if (y + ROW <= 0 || y >= view.height) return
    const x0 = Math.max(0, (start - view.from) * scale)
    const x1 = Math.min(view.width, (start + wide - view.from) * scale)
    if (x1 - x0 < LEAST) return
    found.push({ x: x0, y, width: x1 - x0, height: ROW - 1, row, index })
  })
  return found
}

/** The box at a place, or null. @param {Painted[]} painted @param {number} x @param {number} y */
export const boxAt = (painted, x, y) =>
  painted.find(box => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height) ?? null

/** The box that is next in a direction. @param {Box[]} rows @param {number} index @param {string} key name of an arrow
 * @returns {number} its index, or the same */
export function neighbour (rows, index, key) {
  const [depth, x, wide] = rows[index]
  let best = index
  let distance = Infinity
  rows.forEach((row, other) => {
    const [d, ox, owide] = row
    let far = Infinity
    if (key === 'ArrowUp' && d === depth - 1 && ox <= x && ox + owide >= x + wide / 2) far = 0
    if (key === 'ArrowDown' && d === depth + 1 && ox >= x && ox < x + wide) far = ox - x
    if (key === 'ArrowRight' && d === depth && ox > x) far = ox - x
    if (key === 'ArrowLeft' && d === depth && ox < x) far = x - ox
    if (far < distance) {
      distance = far
      best = other
    }
  })
  return best
}
