// SPDX-License-Identifier: Apache-2.0
// Two traces beside each other: a flame graph, red where the second takes longer and blue where it is faster; a table.
import { cancelled } from './api.js'
import { el, fill, sized } from './dom.js'
import { count, duration, plural, traceLabel } from './format.js'
import { boxAt, boxes, neighbour, ROW } from './flames.js'
import { lettering } from './overlay.js'
import { fitted } from './paint.js'
import { differs } from './store.js'

/** @typedef {{calls: number, self: number}} Side */
/** @typedef {{name: string, module: string, before: Side | null, after: Side | null, ratio: number | null, noise:
 * boolean}} Row */

const MOST = 500

/** From blue (-1: half as long or less) to red (1: twice as long or more). @param {number} before @param {number}
 * after */
export function change (before, after) {
  if (before <= 0 && after <= 0) return 0
  if (before <= 0) return 1
  if (after <= 0) return -1
  return Math.max(-1, Math.min(1, Math.log2(after / before)))
}

/** @param {number} part @param {boolean} dark */
export function shade (part, dark) {
  const strong = Math.abs(part)
  if (strong < 0.05) return dark ? 'rgb(60 66 76)' : 'rgb(228 231 236)'
  const hue = part > 0 ? 12 : 222
  return dark
    ? `hsl(${hue} ${30 + 35 * strong}% ${30 + 8 * strong}%)`
    : `hsl(${hue} ${45 + 35 * strong}% ${90 - 18 * strong}%)`
}

/** @param {Row} row */
export function verdict (row) {
  if (!row.before?.calls) return 'new'
  if (!row.after?.calls) return 'gone'
  if (row.ratio === null || !(row.ratio >= 0) || !Number.isFinite(row.ratio)) return ''
  const text = row.ratio >= 10 ? count(row.ratio) : row.ratio.toFixed(2)
  return row.noise ? `${text} (noise)` : text
}

export class Compare {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.choose = el('select', { 'aria-label': 'The trace after' })
    this.before = el('strong', {})
    this.line = el('p', { class: 'line', role: 'status' })
    this.canvas = el('canvas', {
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'flame graph',
      'aria-label':
        'Flame graph of both traces: red took longer, blue was faster. The table says the same. ' +
        'Arrow keys go from box to box, Enter shows one as wide as the window.'
    })
    this.place = el(
      'div',
      { class: 'scroller both', role: 'region', 'aria-label': 'Flame graph of both' },
      el('div', { class: 'spacer' }, el('div', { class: 'sticky' }, this.canvas))
    )
    this.table = el('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Table of both' })
    this.bar = el(
      'div',
      { class: 'bar' },
      el('span', {}, 'before: ', this.before),
      el('label', {}, 'after: ', this.choose),
      el('span', { class: 'key' }, el('i', { class: 'faster' }), 'faster', el('i', { class: 'slower' }), 'slower')
    )
    this.root = el(
      'section',
      { class: 'compare', 'aria-label': 'Compare' },
      this.bar,
      this.line,
      this.place,
      this.table
    )
    /** @type {{rows: number[][], total: number} | null} */
    this.flame = null
    /** @type {import('./flames.js').Painted[]} */
    this.painted = []
    this.from = 0
    this.to = 1
    this.chosen = -1
    /** @type {import('./store.js').State | null} */
    this.shown = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
    this.choose.addEventListener('change', () =>
      this.context.store.set({ with: Number(this.choose.value) }, { step: true })
    )
    this.canvas.addEventListener('pointermove', event => this.tell(this.at(event)))
    this.canvas.addEventListener('click', event => {
      const row = this.at(event)
      this.chosen = row && this.flame ? this.flame.rows.indexOf(row) : -1
      this.zoom(row)
    })
    this.place.addEventListener('scroll', () => this.draw())
    this.observer = new ResizeObserver(() => this.draw())
    this.observer.observe(this.place)
  }

  unmount () {
    this.observer?.disconnect()
    for (const slot of ['compare', 'both']) this.context.api.cancel(slot)
    this.root.remove()
  }

  resize () {
    this.draw()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    if (!differs(state, before, 'trace', 'with')) return
    const all = this.context.traces()
    const others = all.filter(one => one.trace !== state.trace)
    fill(
      this.choose,
      ...others.map(one => el('option', { value: one.trace, selected: one.trace === state.with }, traceLabel(one, all)))
    )
    this.before.textContent = traceLabel(
      all.find(one => one.trace === state.trace),
      all
    )
    this.bar.hidden = this.place.hidden = this.table.hidden = !others.length
    if (!others.length) {
      this.line.textContent = 'Open two traces: contrail view BEFORE AFTER.'
      return
    }
    const other = others.find(one => one.trace === state.with) ?? others[0]
    this.choose.value = String(other.trace)
    this.ask(state.trace, other.trace)
  }

  /** @param {number} trace @param {number} other */
  async ask (trace, other) {
    const { api } = this.context
    this.line.textContent = 'The traces are compared …'
    try {
      const [table, flame] = await Promise.all([
        api.get('compare', 'compare', { trace, with: other }),
        api.get('both', 'compare/flame', { trace, with: other })
      ])
      this.paint(table.rows)
      this.take(flame)
    } catch (error) {
      if (!cancelled(error)) this.line.textContent = String(/** @type {Error} */ (error).message)
    }
  }

  /** @param {{rows: number[][], total: number}} flame */
  take (flame) {
    this.flame = flame
    this.chosen = -1
    this.from = 0
    this.to = Math.max(1e-9, flame.total)
    const spacer = /** @type {HTMLElement} */ (this.place.firstElementChild)
    const deepest = flame.rows.reduce((most, row) => Math.max(most, row[0]), 0)
    spacer.style.height = `${(deepest + 1) * ROW + 4}px`
    this.draw()
  }

  /** @param {Row[]} rows */
  paint (rows) {
    const side = (/** @type {Side | null} */ one) => [
      el('td', { class: 'number' }, one ? count(one.calls) : ''),
      el('td', { class: 'number' }, one ? duration(one.self) : '')
    ]
    const { dark } = this.context.palette()
    this.line.textContent = plural(rows.length, 'function')
    fill(
      this.table,
      el(
        'table',
        { class: 'wide' },
        el('caption', { class: 'spoken' }, 'Functions of both traces'),
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            ...['function', 'module', 'calls before', 'self before', 'calls after', 'self after', 'ratio'].map(
              (title, i) => el('th', { scope: 'col', class: i > 1 ? 'number' : '' }, title)
            )
          )
        ),
        el(
          'tbody',
          {},
          ...rows.slice(0, MOST).map(row => {
            const title = row.noise ? 'The calls of one trace differ as much among each other' : undefined
            const ratio = el('td', { class: row.noise ? 'number muted' : 'number ratio', title }, verdict(row))
            if (!row.noise) ratio.style.background = shade(change(row.before?.self ?? 0, row.after?.self ?? 0), dark)
            return el(
              'tr',
              {},
              el('th', { scope: 'row' }, row.name),
              el('td', { class: 'module' }, row.module),
              ...side(row.before),
              ...side(row.after),
              ratio
            )
          })
        )
      )
    )
  }

  draw () {
    const colours = this.context.palette()
    const width = Math.max(50, this.place.clientWidth)
    const height = Math.max(50, this.place.clientHeight)
    const { context: g } = sized(this.canvas, width, height)
    g.fillStyle = colours.background
    g.fillRect(0, 0, width, height)
    if (!this.flame) return
    this.painted = boxes(this.flame.rows, { from: this.from, to: this.to, width, height, top: this.place.scrollTop })
    const letter = lettering(g, 1)
    g.textBaseline = 'middle'
    for (const box of this.painted) {
      const [, , , name, before, after] = /** @type {any[]} */ (box.row)
      g.fillStyle = shade(change(before, after), colours.dark)
      g.fillRect(box.x, box.y, Math.max(0.5, box.width - (box.width > 4 ? 1 : 0)), box.height)
      if (box.index === this.chosen) {
        g.strokeStyle = colours.accent
        g.lineWidth = 2
        g.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.width - 3), box.height - 2)
      }
      if (box.width < 30) continue
      g.fillStyle = colours.onCell
      g.fillText(fitted(String(name), box.width - 8, letter), box.x + 4, box.y + box.height / 2 + 1, box.width - 6)
    }
  }

  /** @param {MouseEvent} event */
  at (event) {
    const box = this.canvas.getBoundingClientRect()
    return boxAt(this.painted, event.clientX - box.left, event.clientY - box.top)?.row ?? null
  }

  /** @param {number[] | null} row */
  tell (row) {
    if (!row) return
    const [, , , name, before, after] = /** @type {any[]} */ (row)
    const ratio = before > 0 && after > 0 ? `, ratio ${(after / before).toFixed(2)}` : ''
    this.line.textContent =
      `${String(name).slice(0, 300)} – before ${duration(before)}, after ${duration(after)}${ratio}`
  }

  /** @param {number[] | null} row */
  zoom (row) {
    this.from = row ? row[1] : 0
    this.to = row ? row[1] + Math.max(1e-9, row[2]) : Math.max(1e-9, this.flame?.total ?? 1)
    this.draw()
  }

  /** @param {KeyboardEvent} event */
  key (event) {
    const rows = this.flame?.rows ?? []
    if (document.activeElement !== this.canvas || !rows.length) return false
    if (event.key.startsWith('Arrow')) {
      this.chosen = this.chosen < 0 ? 0 : neighbour(rows, this.chosen, event.key)
      this.reveal(rows[this.chosen])
      this.tell(rows[this.chosen])
    } else if (event.key === 'Enter') this.zoom(rows[this.chosen] ?? null)
    else if (event.key === 'Escape' || event.key === 'f') this.zoom(null)
    else return false
    return true
  }

  /** @param {number[]} row */
  reveal ([depth, x, wide]) {
    const { place } = this
    if (depth * ROW < place.scrollTop) place.scrollTop = depth * ROW
    if ((depth + 1) * ROW > place.scrollTop + place.clientHeight)
      place.scrollTop = (depth + 1) * ROW - place.clientHeight
    if (x + wide <= this.from || x >= this.to) this.zoom(null)
    else this.draw()
  }
}
