// SPDX-License-Identifier: Apache-2.0
// Where the rows of threads are, and which part of time is in sight. Numbers only; no browser.

export const ROW = 18 // CSS pixels of a depth, with the line between
export const PAD = 8 // between threads
const LEAST = 26 // room for a thread's name
const MOST_ROWS = 4096 // of a thread; deeper calls are reached through their callers
export const SHORTEST = 20 // nanoseconds: no further in

/** @typedef {{thread: import('./types.js').Thread, y: number, height: number, rows: number, folded: boolean}} Track */

/** @param {string} folded */
export const foldedSet = folded => new Set(folded.split(',').filter(Boolean).map(Number))

/** The threads from top to bottom. @param {import('./types.js').Thread[]} threads @param {string} folded
 * @returns {Track[]} */
export function layout (threads, folded) {
  const closed = foldedSet(folded)
  const order = [...threads].sort((a, b) => a.process - b.process || a.start - b.start || a.thread - b.thread)
  let y = PAD / 2
  return order.map(thread => {
    const isFolded = closed.has(thread.thread)
    const rows = Math.max(1, isFolded ? 1 : Math.min(thread.depth, MOST_ROWS))
    const track = { thread, y, height: Math.max(LEAST, rows * ROW), rows, folded: isFolded }
    y += track.height + PAD
    return track
  })
}

/** @param {Track[]} tracks */
export const heightOf = tracks =>
  tracks.length ? tracks[tracks.length - 1].y + tracks[tracks.length - 1].height + PAD : 0

/** The tracks between two heights. @param {Track[]} tracks @param {number} top @param {number} bottom */
export function visible (tracks, top, bottom) {
  let low = 0
  let high = tracks.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (tracks[middle].y + tracks[middle].height <= top) low = middle + 1
    else high = middle
  }
  const found = []
  for (let i = low; i < tracks.length && tracks[i].y < bottom; i++) found.push(tracks[i])
  return found
}

/** @param {{from: number, to: number}} state @param {{start: number, end: number}} info */
export function rangeOf (state, info) {
  if (state.from >= 0 && state.to > state.from && state.from < info.end) return { from: state.from, to: state.to }
  return { from: info.start, to: Math.max(info.end, info.start + SHORTEST) }
}

/** The range cut to the trace, with its length kept where that is possible, in whole nanoseconds.
 * @param {number} from @param {number} to @param {{start: number, end: number}} info */
export function within (from, to, info) {
  const whole = Math.max(info.end - info.start, SHORTEST)
  const span = Math.min(Math.max(Math.round(to - from), SHORTEST), whole)
  const low = Math.min(Math.max(Math.round(from), info.start), info.start + whole - span)
  return span === whole ? { from: -1, to: -1 } : { from: low, to: low + span }
}

/** Zooms around a place of the width, 0 to 1. @param {{from: number, to: number}} range @param {number} at
 * @param {number} factor less than 1 shows less */
export function zoomed ({ from, to }, at, factor) {
  const time = from + (to - from) * at
  const span = Math.max(SHORTEST, (to - from) * factor)
  return { from: time - span * at, to: time + span * (1 - at) }
}
