// SPDX-License-Identifier: Apache-2.0
// What lies on the painted cells: names, losses, windows, marks, signals, the selected range and call; and the ruler.
import { duration, isCrash, step, tick } from './format.js'
import { fitted } from './paint.js'

/** @typedef {CanvasRenderingContext2D} G */
/** @typedef {{from: number, to: number, width: number, height: number, scale: number}} Sight pixels of the canvas */

const FONT = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
const MOST_LABELS = 500

/** Width of a letter for each size of the font. @type {Map<number, number>} */
const letters = new Map()

/** Sets the font of names and returns the width of a letter. @param {G} g @param {number} scale */
export function lettering (g, scale) {
  g.font = `${11 * scale}px ${FONT}`
  let width = letters.get(scale)
  if (width === undefined) {
    width = g.measureText('abcdefghijklmnopqrst').width / 20
    letters.set(scale, width)
  }
  return width
}

const PLAIN = /^[\x20-\x7e…]*$/

/** @param {G} g @param {import('./paint.js').Label[]} labels @param {(fn: number) => string} name
 * @param {string} colour
 * @param {number} scale */
export function drawLabels (g, labels, name, colour, scale) {
  const letter = lettering(g, scale)
  g.fillStyle = colour
  g.textBaseline = 'middle'
  const pad = 4 * scale
  const most =
    labels.length <= MOST_LABELS ? labels : [...labels].sort((a, b) => b.width - a.width).slice(0, MOST_LABELS)
  for (const label of most) {
    const room = label.width - 2 * pad
    const text = fitted(name(label.fn), room, letter)
    if (!text) continue
    const y = label.y + label.height / 2 + scale
    if (PLAIN.test(text)) g.fillText(text, label.x + pad, y)
    else g.fillText(text, label.x + pad, y, room)
  }
}

/** @param {Sight} sight */
export const placer =
  ({ from, to, width }) =>
  (/** @type {number} */ time) =>
    ((time - from) / (to - from)) * width

/** Places where events are missing, in the rows of their thread. @param {G} g @param {Sight} sight
 * @param {import('./types.js').Loss[]} losses @param {Map<number, {y: number, height: number}>} places
 * @param {string} colour */
export function drawLosses (g, sight, losses, places, colour) {
  const x = placer(sight)
  g.fillStyle = colour
  g.strokeStyle = colour
  g.lineWidth = sight.scale
  for (const loss of losses) {
    const place = places.get(loss.thread)
    if (!place || loss.end < sight.from || loss.start > sight.to) continue
    const x0 = Math.max(-1, x(loss.start))
    const x1 = Math.min(sight.width + 1, Math.max(x(loss.end), x0 + 3 * sight.scale))
    g.fillRect(x0, place.y, x1 - x0, place.height)
    if (x1 - x0 < 12 * sight.scale) continue
    g.beginPath()
    const gap = 9 * sight.scale
    for (let at = x0; at < x1; at += gap) {
      const end = Math.min(x1, at + place.height)
      g.moveTo(at, place.y + place.height)
      g.lineTo(end, place.y + place.height - (end - at))
    }
    g.stroke()
  }
}

/** @param {G} g @param {Sight} sight @param {import('./types.js').Info} info @param {import('./colours.js').Palette}
 * p */
export function drawMoments (g, sight, info, p) {
  const x = placer(sight)
  const inside = (/** @type {number} */ time) => time >= sight.from && time <= sight.to
  g.fillStyle = p.window
  for (const one of info.windows) {
    if (one.end < sight.from || one.start > sight.to) continue
    const left = Math.max(0, x(one.start))
    g.fillRect(left, 0, Math.max(sight.scale, Math.min(sight.width, x(one.end)) - left), sight.height)
  }
  g.fillStyle = p.mark
  for (const one of info.marks) if (inside(one.time)) g.fillRect(x(one.time), 0, sight.scale, sight.height)
  g.fillStyle = p.bad
  for (const one of info.signals) {
    if (inside(one.time)) g.fillRect(x(one.time) - sight.scale, 0, (isCrash(one) ? 2 : 1) * sight.scale, sight.height)
  }
}

/** @param {G} g @param {Sight} sight @param {number} a @param {number} b @param {import('./colours.js').Palette} p */
export function drawSelection (g, sight, a, b, p) {
  if (a < 0) return
  const x = placer(sight)
  const left = Math.max(-2, x(a))
  const right = Math.min(sight.width + 2, x(b))
  if (right < 0 || left > sight.width) return
  g.fillStyle = p.soft
  g.fillRect(left, 0, right - left, sight.height)
  g.fillStyle = p.accent
  g.fillRect(left, 0, sight.scale, sight.height)
  g.fillRect(right - sight.scale, 0, sight.scale, sight.height)
}

/** The frame around one call. @param {G} g @param {Sight} sight @param {{start: number, end: number}} call
 * @param {{y: number, height: number}} place @param {string} colour @param {number} thick */
export function drawFrame (g, sight, call, place, colour, thick) {
  const x = placer(sight)
  const left = Math.max(-4, x(call.start))
  const right = Math.min(sight.width + 4, Math.max(x(call.end), left + 2 * sight.scale))
  if (right < 0 || left > sight.width) return
  g.strokeStyle = colour
  g.lineWidth = thick * sight.scale
  const inset = (thick * sight.scale) / 2
  g.strokeRect(left + inset, place.y + inset, Math.max(1, right - left - 2 * inset), place.height - 2 * inset)
}

/** Times above the rows, the length of what is in sight, and names of marks and signals.
 * @param {G} g @param {{from: number, to: number, width: number, height: number}} sight in CSS pixels
 * @param {import('./types.js').Info} info @param {{a: number, b: number}} state
 * @param {import('./colours.js').Palette} p */
export function drawRuler (g, sight, info, state, p) {
  const { from, to, width, height } = sight
  const x = placer({ ...sight, scale: 1 })
  g.fillStyle = p.background
  g.fillRect(0, 0, width, height)
  g.font = '11px system-ui, "DejaVu Sans", sans-serif'
  g.textBaseline = 'middle'
  const by = step((to - from) / Math.max(2, width / 110))
  for (let time = Math.ceil(from / by) * by; time <= to; time += by) {
    g.fillStyle = p.line
    g.fillRect(Math.round(x(time)), height - 7, 1, 7)
    g.fillStyle = p.muted
    g.fillText(tick(time, by), x(time) + 4, height - 9)
  }
  drawSelection(g, { ...sight, scale: 1 }, state.a, state.b, p)
  if (state.a >= 0) {
    const text = duration(state.b - state.a)
    const middle = (Math.max(0, x(state.a)) + Math.min(width, x(state.b))) / 2
    const wide = g.measureText(text).width
    g.fillStyle = p.accent
    g.fillRect(middle - wide / 2 - 6, 1, wide + 12, 16)
    g.fillStyle = p.background
    g.fillText(text, middle - wide / 2, 9.5)
  }
  drawNames(g, x, sight, info, p)
}

/** @param {G} g @param {(time: number) => number} x @param {{from: number, to: number, width: number}} sight
 * @param {import('./types.js').Info} info @param {import('./colours.js').Palette} p */
function drawNames (g, x, { from, to, width }, info, p) {
  let free = -Infinity
  const flags = [
    ...info.marks.map(one => ({ time: one.time, text: one.label || one.reason || 'mark', colour: p.mark })),
    ...info.signals.map(one => ({ time: one.time, text: one.signal, colour: p.bad }))
  ]
  for (const { time, text, colour } of flags.sort((a, b) => a.time - b.time)) {
    if (time < from || time > to || x(time) < free) continue
    const name = fitted(text, 150, 6.5)
    const wide = g.measureText(name).width + 10
    const left = Math.min(x(time), width - wide)
    g.fillStyle = colour
    g.fillRect(left, 1, wide, 15)
    g.fillStyle = p.background
    g.fillText(name, left + 5, 9)
    free = x(time) + wide + 4
  }
}
