// SPDX-License-Identifier: Apache-2.0
// What is under the pointer, in a few words beside it.
import { el, fill } from './dom.js'
import { count, duration, moment, plural } from './format.js'

/** @typedef {import('./paint.js').Cell} Cell */

/** @param {Cell} cell */
export const wording = cell =>
  cell.call >= 0
    ? `${cell.cut ? 'at least ' : ''}${duration(cell.end - cell.start)} from ${moment(cell.start)}`
    : `${plural(cell.calls, 'call')} in ${duration(cell.end - cell.start)}, most of it here`

const MOST = 6 // flags that are told at once

export class Tip {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.root = el('div', { class: 'tip', hidden: true })
  }

  /** @param {Cell | null | undefined} cell @param {{x: number, y: number} | null} pointer in the canvas
   * @param {HTMLElement} canvas @param {HTMLElement} around what it must not leave */
  show (cell, pointer, canvas, around) {
    this.root.hidden = !cell || !pointer
    if (!cell || !pointer) return
    const name = this.context.names.get(cell.fn)
    fill(
      this.root,
      el('strong', {}, (name?.[0] ?? '?').slice(0, 160)),
      el('span', {}, wording(cell)),
      el('span', { class: 'muted' }, name?.[2] ?? '')
    )
    this.put(pointer, canvas, around)
  }

  /** What flags stand for. @param {import('./moments.js').Moment[]} moments @param {{x: number, y: number}} pointer
   * @param {HTMLElement} canvas @param {HTMLElement} around */
  tell (moments, pointer, canvas, around) {
    this.root.hidden = !moments.length
    if (!moments.length) return
    const rest = moments.length - MOST
    fill(
      this.root,
      ...moments.slice(0, MOST).map(one => el('span', {}, `${one.text.slice(0, 300)} at ${moment(one.time)}`)),
      rest > 0 && el('span', { class: 'muted' }, `and ${count(rest)} more`)
    )
    this.put(pointer, canvas, around)
  }

  /** @param {{x: number, y: number}} pointer @param {HTMLElement} canvas @param {HTMLElement} around */
  put (pointer, canvas, around) {
    const box = canvas.getBoundingClientRect()
    const room = around.getBoundingClientRect()
    const left = Math.min(box.left - room.left + pointer.x + 14, room.width - this.root.offsetWidth - 8)
    const below = box.top - room.top + pointer.y + 16
    const fits = below + this.root.offsetHeight < room.height
    this.root.style.left = `${Math.max(0, left)}px`
    this.root.style.top = `${fits ? below : below - this.root.offsetHeight - 28}px`
  }
}
