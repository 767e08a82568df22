// SPDX-License-Identifier: Apache-2.0
// The flame graph of the whole trace, a thread, a range or a function: merged or by time, callees or callers.
import { cancelled } from './api.js'
import { colourOf } from './colours.js'
import { button, el, fill, sized } from './dom.js'
import { duration, percent, plural } from './format.js'
import { boxAt, boxes, neighbour, ROW, UNKNOWN } from './flames.js'
import { lettering } from './overlay.js'
import { fitted } from './paint.js'
import { Scope, scopeOf } from './scope.js'
import { differs } from './store.js'

const MODES = /** @type {[string, string][]} */ ([
  ['callees', 'callees'],
  ['callers', 'callers'],
  ['time', 'by time']
])

/** @typedef {{total: number, rows: number[][], functions: Record<string, import('./types.js').Name>, progress?:
 * number}} Answer */

export class Flame {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.canvas = el('canvas', {
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'flame graph',
      'aria-label': 'Flame graph. Arrow keys go from box to box, Enter shows one as wide as the window.'
    })
    this.scroller = el(
      'div',
      { class: 'scroller' },
      el('div', { class: 'spacer' }, el('div', { class: 'sticky' }, this.canvas))
    )
    this.line = el('p', { class: 'line', role: 'status' })
    this.modes = el('div', { class: 'modes', role: 'group', 'aria-label': 'Kind of flame graph' })
    this.scope = new Scope(context, true)
    this.root = el(
      'section',
      { class: 'flame', 'aria-label': 'Flame graph' },
      el('div', { class: 'bar' }, this.modes, this.scope.root),
      this.line,
      this.scroller
    )
    /** @type {Answer | null} */
    this.answer = null
    /** @type {import('./flames.js').Painted[]} */
    this.painted = []
    this.from = this.to = 0
    this.chosen = -1
    this.hovered = -1
    this.frame = 0
    /** @type {import('./store.js').State | null} */
    this.shown = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
    this.scroller.addEventListener('scroll', () => this.dirty())
    this.canvas.addEventListener('pointermove', event => this.hover(event))
    this.canvas.addEventListener('pointerleave', () => this.tell(this.chosen))
    this.canvas.addEventListener('click', event => this.click(event))
    this.observer = new ResizeObserver(() => this.resize())
    this.observer.observe(this.scroller)
  }

  unmount () {
    this.observer?.disconnect()
    cancelAnimationFrame(this.frame)
    this.context.api.cancel('flame')
    this.root.remove()
  }

  resize () {
    this.dirty()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    this.scope.show(state)
    if (differs(state, before, 'trace', 'thread', 'a', 'b', 'fn', 'mode')) {
      this.paintModes(state.mode)
      this.ask()
    }
  }

  /** @param {string} mode */
  paintModes (mode) {
    fill(
      this.modes,
      ...MODES.map(([name, text]) =>
        button(text, () => this.context.store.set({ mode: name }, { step: true }), {
          'aria-pressed': String(mode === name)
        })
      )
    )
  }

  async ask () {
    const {
      api,
      info,
      store: { state }
    } = this.context
    if (state.mode === 'time' && state.thread < 0 && info().threads.length) {
      const busiest = info().threads.reduce((most, one) => (one.calls > most.calls ? one : most))
      this.context.store.set({ thread: busiest.thread }) // in order of time is one thread
      return
    }
    this.line.textContent = 'The flame graph is made …'
    try {
      const answer = /** @type {Answer} */ (
        await api.get('flame', 'flame', {
          ...scopeOf(state),
          function: state.fn >= 0 ? state.fn : undefined,
          mode: state.mode
        })
      )
      this.take(answer)
    } catch (error) {
      if (!cancelled(error)) this.line.textContent = String(/** @type {Error} */ (error).message)
    }
  }

  /** @param {Answer} answer */
  take (answer) {
    this.answer = answer
    for (const [id, name] of Object.entries(answer.functions)) this.context.names.set(Number(id), name)
    this.scope.show(this.context.store.state)
    this.from = 0
    this.to = Math.max(1, answer.total)
    this.chosen = this.hovered = -1
    const deepest = answer.rows.reduce((most, row) => Math.max(most, row[0]), 0)
    const spacer = /** @type {HTMLElement} */ (this.scroller.firstElementChild)
    spacer.style.height = `${(deepest + 1) * ROW + 8}px`
    this.tell(-1)
    this.dirty()
  }

  dirty () {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0
        this.draw()
      })
    }
  }

  draw () {
    const { palette, names } = this.context
    const colours = palette()
    const width = Math.max(50, this.scroller.clientWidth)
    const height = Math.max(50, this.scroller.clientHeight)
    const { context: g } = sized(this.canvas, width, height)
    g.fillStyle = colours.background
    g.fillRect(0, 0, width, height)
    if (!this.answer) return
    const view = { from: this.from, to: this.to, width, height, top: this.scroller.scrollTop }
    this.painted = boxes(this.answer.rows, view)
    const letter = lettering(g, 1)
    g.textBaseline = 'middle'
    for (const box of this.painted) {
      const name = names.get(box.row[3])
      g.fillStyle = name ? colours.css[colourOf(name[0], name[2])] : colours.line
      g.fillRect(box.x, box.y, Math.max(0.5, box.width - (box.width > 4 ? 1 : 0)), box.height)
      if (box.index === this.chosen || box.index === this.hovered) {
        g.strokeStyle = colours.accent
        g.lineWidth = box.index === this.chosen ? 2 : 1
        g.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.width - 3), box.height - 2)
      }
      if (box.width < 30) continue
      g.fillStyle = colours.onCell
      g.fillText(
        fitted(name?.[1] ?? UNKNOWN, box.width - 8, letter),
        box.x + 4,
        box.y + box.height / 2 + 1,
        box.width - 6
      )
    }
  }

  /** @param {number} index */
  tell (index) {
    this.hovered = index
    const { answer } = this
    if (!answer) return
    const row = answer.rows[index]
    if (!row)
      this.line.textContent = answer.rows.length
        ? `${duration(answer.total)} in all`
        : 'There is no call in this part.'
    else {
      const [, , wide, fn, self, calls] = row
      this.line.textContent =
        `${(this.context.names.get(fn)?.[0] ?? UNKNOWN).slice(0, 300)} – ${duration(wide)}, ` +
        `${percent(wide, answer.total)}, self ${duration(self)}, ${plural(calls, 'call')}`
    }
    this.dirty()
  }

  /** @param {MouseEvent} event */
  at (event) {
    const box = this.canvas.getBoundingClientRect()
    return boxAt(this.painted, event.clientX - box.left, event.clientY - box.top)?.index ?? -1
  }

  /** @param {MouseEvent} event */
  hover (event) {
    const index = this.at(event)
    if (index !== this.hovered) this.tell(index)
  }

  /** @param {MouseEvent} event */
  click (event) {
    this.zoom(this.at(event))
  }

  /** Shows a box as wide as the window; none: everything. @param {number} index */
  zoom (index) {
    const row = this.answer?.rows[index]
    this.chosen = row ? index : -1
    this.from = row ? row[1] : 0
    this.to = row ? row[1] + Math.max(1e-6, row[2]) : Math.max(1, this.answer?.total ?? 1)
    this.tell(this.chosen)
  }

  /** @param {KeyboardEvent} event */
  key (event) {
    if (document.activeElement !== this.canvas || !this.answer?.rows.length) return false
    if (event.key.startsWith('Arrow')) {
      this.chosen = this.chosen < 0 ? 0 : neighbour(this.answer.rows, this.chosen, event.key)
      this.reveal()
      this.tell(this.chosen)
    } else if (event.key === 'Enter') this.zoom(this.chosen)
    else if (event.key === 'Escape' || event.key === 'f') this.zoom(-1)
    else return false
    return true
  }

  reveal () {
    const row = this.answer?.rows[this.chosen]
    if (!row) return
    const y = row[0] * ROW
    if (y < this.scroller.scrollTop) this.scroller.scrollTop = y
    if (y + ROW > this.scroller.scrollTop + this.scroller.clientHeight)
      this.scroller.scrollTop = y + ROW - this.scroller.clientHeight
    if (row[1] + row[2] <= this.from || row[1] >= this.to) {
      this.from = 0
      this.to = Math.max(1, this.answer?.total ?? 1)
    }
  }
}
