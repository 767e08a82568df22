// SPDX-License-Identifier: Apache-2.0
// The table of functions: calls, times, when they ran and how long they took.
import { cancelled } from './api.js'
import { filled, spark } from './charts.js'
import { colourOf } from './colours.js'
import { button, el, fill } from './dom.js'
import { count, duration, plural } from './format.js'
import { Scope, scopeOf } from './scope.js'
import { differs } from './store.js'

const PAGE = 100
const COLUMNS = /** @type {[string, string][]} */ ([
  ['name', 'function'],
  ['module', 'module'],
  ['calls', 'calls'],
  ['total', 'total'],
  ['self', 'self'],
  ['median', 'median'],
  ['p99', '99 %'],
  ['longest', 'longest']
])

/** @typedef {{function: number, name: string, module: string, calls: number, total: number, self: number,
 *   median: number, p99: number, longest: number, spark: number[], histogram: [number, number][]}} Row */

/** What the histogram says in words. @param {Row} row */
export function spread (row) {
  const { low, counts } = filled(row.histogram ?? [])
  if (!counts.length) return 'no durations'
  return `from ${duration(2 ** low)} to ${duration(2 ** (low + counts.length))}`
}

export class Functions {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.scope = new Scope(context, false)
    this.filter = el('input', {
      type: 'search',
      placeholder: 'Name or module',
      'aria-label': 'Only functions with this text'
    })
    this.line = el('span', { class: 'muted', role: 'status' })
    this.body = el('tbody', {})
    this.head = el('tr', {})
    this.pages = el('div', { class: 'pages' })
    this.root = el(
      'section',
      { class: 'functions', 'aria-label': 'Functions' },
      el('div', { class: 'bar' }, this.filter, this.scope.root, this.line, this.pages),
      el(
        'div',
        { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Table of functions' },
        el(
          'table',
          { class: 'wide' },
          el('caption', { class: 'spoken' }, 'Functions'),
          el('thead', {}, this.head),
          this.body
        )
      )
    )
    this.offset = 0
    this.estimated = false // when calls begin is known by parts of the trace only
    /** @type {import('./store.js').State | null} */
    this.shown = null
    this.timer = /** @type {any} */ (0)
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
    this.filter.value = this.context.store.state.text
    this.filter.addEventListener('input', () => {
      clearTimeout(this.timer)
      this.timer = setTimeout(() => this.context.store.set({ text: this.filter.value }), 150)
    })
  }

  unmount () {
    clearTimeout(this.timer)
    this.context.api.cancel('functions')
    this.root.remove()
  }

  resize () {
    if (this.rows) this.paint(this.rows)
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    this.scope.show(state)
    if (!differs(state, before, 'trace', 'thread', 'a', 'b', 'text', 'sort', 'order')) return
    this.offset = 0
    this.paintHead(state)
    this.ask()
  }

  /** A click sorts by a column, another one turns it round. @param {import('./store.js').State} state */
  paintHead ({ sort, order }) {
    const turned = order === 'up'
    fill(
      this.head,
      ...COLUMNS.map(([name, title], i) => {
        const falls = i > 1 !== turned // names begin with a, numbers with the largest
        const go = () =>
          this.context.store.set({ sort: name, order: sort === name && !turned ? 'up' : '' }, { step: true })
        return el(
          'th',
          {
            scope: 'col',
            class: i > 1 ? 'number' : '',
            'aria-sort': sort === name ? (falls ? 'descending' : 'ascending') : undefined
          },
          name === 'module'
            ? title
            : button(title + (sort === name ? (falls ? ' ↓' : ' ↑') : ''), go, { class: 'link' })
        )
      }),
      el('th', { scope: 'col' }, 'over time'),
      el('th', { scope: 'col' }, 'durations')
    )
  }

  async ask () {
    const {
      api,
      store: { state }
    } = this.context
    this.line.textContent = 'counting …'
    try {
      const answer = await api.get('functions', 'functions', {
        ...scopeOf(state),
        text: state.text || undefined,
        sort: state.sort,
        order: state.order || undefined,
        offset: this.offset,
        limit: PAGE
      })
      this.rows = /** @type {Row[]} */ (answer.rows)
      this.estimated = answer.estimated === true
      this.line.textContent = plural(answer.total, 'function')
      this.paint(this.rows)
      this.paintPages(answer.total)
    } catch (error) {
      if (!cancelled(error)) this.line.textContent = String(/** @type {Error} */ (error).message)
    }
  }

  /** @param {number} total */
  paintPages (total) {
    const go = (/** @type {number} */ by) => {
      this.offset = Math.max(0, this.offset + by)
      this.ask()
    }
    fill(
      this.pages,
      total > PAGE && button('‹', () => go(-PAGE), { 'aria-label': 'Page before', disabled: this.offset === 0 }),
      total > PAGE && el('span', {}, `${count(this.offset + 1)} to ${count(Math.min(total, this.offset + PAGE))}`),
      total > PAGE &&
        button('›', () => go(PAGE), { 'aria-label': 'Next page', disabled: this.offset + PAGE >= total })
    )
  }

  /** @param {Row[]} rows */
  paint (rows) {
    const { store, palette, names } = this.context
    const most = rows.reduce((a, row) => Math.max(a, row.self), 1)
    const about = this.estimated ? ' (estimated: the trace is large)' : ''
    fill(
      this.body,
      ...rows.map(row => {
        names.set(row.function, names.get(row.function) ?? [row.name, row.name, row.module])
        const swatch = el('span', { class: 'swatch', 'aria-hidden': 'true' })
        swatch.style.background = palette().css[colourOf(row.name, row.module)]
        const bar = el('i', { class: 'bar' })
        bar.style.width = `${(100 * row.self) / most}%`
        const go = () => store.set({ view: 'latency', fn: row.function }, { step: true })
        return el(
          'tr',
          {},
          el('th', { scope: 'row' }, swatch, button(row.name, go, { class: 'link', title: row.name.slice(0, 500) })),
          el('td', { class: 'module' }, row.module),
          el('td', { class: 'number' }, count(row.calls)),
          el('td', { class: 'number' }, duration(row.total)),
          el('td', { class: 'number self' }, bar, duration(row.self)),
          el('td', { class: 'number' }, duration(row.median)),
          el('td', { class: 'number' }, duration(row.p99)),
          el('td', { class: 'number' }, duration(row.longest)),
          el('td', { title: about }, spark(row.spark ?? [], `Calls over time, ${count(row.calls)} in all${about}`)),
          el('td', {}, spark(filled(row.histogram ?? []).counts, `Durations ${spread(row)}`))
        )
      })
    )
  }
}
