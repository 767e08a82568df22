// SPDX-License-Identifier: Apache-2.0
// Names of threads beside their rows. Only those in sight are elements of the page.
import { button, el } from './dom.js'
import { plural, short } from './format.js'
import { foldedSet } from './tracks.js'

/** @typedef {import('./tracks.js').Track} Track */

export class Gutter {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.root = el('div', { class: 'gutter', role: 'group', 'aria-label': 'Threads' })
    this.drawn = ''
  }

  /** @param {Track[]} tracks those in sight @param {number} top pixels above the first that is in sight
   * @param {string} known changes with the threads */
  show (tracks, top, known) {
    const drawn = `${Math.round(top)}/${known}/${tracks[0]?.y}/${tracks.length}`
    if (drawn === this.drawn) return
    this.drawn = drawn
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.thread
    this.root.replaceChildren(...tracks.map(track => this.label(track, Math.round(top))))
    for (const item of /** @type {Iterable<HTMLElement>} */ (this.root.children)) {
      if (focused && item.dataset.thread === focused) item.focus()
    }
  }

  /** @param {Track} track @param {number} top */
  label (track, top) {
    const { thread } = track
    const { processes } = this.context.info()
    const process = processes.length > 1 ? processes.find(one => one.process === thread.process) : undefined
    const name = thread.name || 'thread'
    const item = button('', () => this.fold(thread.thread), {
      class: 'thread',
      'data-thread': thread.thread,
      'aria-expanded': String(!track.folded),
      title: `${name}, tid ${thread.tid}: ${plural(thread.calls, 'call')}`
    })
    item.append(
      el('span', { class: 'fold', 'aria-hidden': 'true' }, track.folded ? '▸' : '▾'),
      el('span', { class: 'name' }, name),
      el('span', { class: 'number' }, process ? `${process.pid}/${thread.tid}` : thread.tid)
    )
    if (thread.lost > 0) item.append(el('span', { class: 'lost' }, `${short(thread.lost)} lost`))
    item.style.top = `${track.y - top}px`
    item.style.height = `${Math.min(track.height, 44)}px`
    return item
  }

  /** Shows one row of each thread; or, when it is so already, all rows. */
  foldAll () {
    const { store, info } = this.context
    const all = info().threads.map(one => one.thread)
    const closed = foldedSet(store.state.folded).size === all.length
    store.set({ folded: closed ? '' : all.join(',') })
  }

  /** Shows one row of a thread, or all. @param {number} thread */
  fold (thread) {
    const { store } = this.context
    const closed = foldedSet(store.state.folded)
    if (!closed.delete(thread)) closed.add(thread)
    store.set({ folded: [...closed].sort((a, b) => a - b).join(',') })
  }
}
