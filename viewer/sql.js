// SPDX-License-Identifier: Apache-2.0
// Questions in SQL: the same tables as contrail query, with a chart where the answer suits one.
import { cancelled } from './api.js'
import { chartFor, line } from './charts.js'
import { button, el, fill, svg } from './dom.js'
import { count, plural } from './format.js'
import { differs } from './store.js'

const LIMIT = 1000
const TABLES =
  "SELECT l.name AS 'table', group_concat(c.name, ', ') AS columns FROM pragma_table_list l, " +
  "pragma_table_info(l.name) c WHERE l.type = 'virtual' GROUP BY l.name"
const EXAMPLES = /** @type {[string, string][]} */ ([
  [
    'Functions with the most time of their own',
    'SELECT function, calls, self FROM functions ORDER BY self DESC LIMIT 20'
  ],
  ['Longest calls', 'SELECT id, function, start, duration FROM calls ORDER BY duration DESC LIMIT 20'],
  ['Calls of each thread', 'SELECT name, tid, calls FROM threads ORDER BY calls DESC'],
  ['Who calls whom', 'SELECT callee, caller, calls FROM edges ORDER BY calls DESC LIMIT 20'],
  ['What is missing', 'SELECT * FROM losses'],
  ['Tables and their columns', TABLES]
])
const WIDE = 720
const TALL = 220
const BARS = 24

/** @typedef {{columns: string[], rows: unknown[][], truncated?: boolean, error?: string, counters?: unknown}} Answer */

/** @param {unknown} value */
export const cell = value =>
  value === null ? '' : typeof value === 'number' && Number.isInteger(value) ? String(value) : String(value)

export class Sql {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.input = el('textarea', { rows: 4, spellcheck: 'false', 'aria-label': 'SQL', autocapitalize: 'off' })
    this.line = el('span', { class: 'muted', role: 'status' })
    this.error = el('p', { class: 'bad', role: 'alert' })
    this.chart = el('div', { class: 'chart' })
    this.kind = el('select', {
      'aria-label': 'Chart',
      hidden: true,
      change: () => this.context.store.set({ chart: this.kind.value }, { step: true })
    })
    this.result = el('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Rows' })
    const choose = el(
      'select',
      {
        'aria-label': 'Examples',
        change: () => {
          if (choose.value) this.input.value = choose.value
          choose.value = ''
          this.run()
        }
      },
      el('option', { value: '' }, 'Examples'),
      ...EXAMPLES.map(([title, sql]) => el('option', { value: sql }, title))
    )
    this.root = el(
      'section',
      { class: 'sql', 'aria-label': 'SQL' },
      this.input,
      el(
        'div',
        { class: 'bar' },
        button('Run', () => this.run(), { class: 'first', title: 'Ctrl Enter' }),
        choose,
        this.kind,
        this.line
      ),
      this.error,
      this.chart,
      this.result
    )
    /** @type {Answer | null} */
    this.answer = null
    /** @type {import('./store.js').State | null} */
    this.shown = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
    this.input.addEventListener('keydown', event => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault()
        this.run()
      }
    })
  }

  resize() {}

  unmount () {
    this.context.api.cancel('sql')
    this.root.remove()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    if (before && differs(state, before, 'chart') && this.answer) this.paintChart(this.answer)
    if (!differs(state, before, 'sql', 'trace')) return
    if (this.input.value !== state.sql || !before) this.input.value = state.sql || EXAMPLES[0][1]
    if (state.sql) this.ask(state.sql)
  }

  /** The address gets the statement, so that it can be sent; showing it runs it. */
  run () {
    const sql = this.input.value.trim()
    if (!sql) return
    if (sql === this.context.store.state.sql || sql.length > 3900) this.ask(sql)
    else this.context.store.set({ sql }, { step: true })
  }

  /** @param {string} sql */
  async ask (sql) {
    const { api, store } = this.context
    this.line.textContent = 'running …'
    this.error.textContent = ''
    try {
      const answer = /** @type {Answer} */ (
        await api.post('sql', 'sql', { trace: store.state.trace, sql, limit: LIMIT })
      )
      if (answer.error) throw new Error(answer.error)
      this.line.textContent =
        plural(answer.rows.length, 'row') + (answer.truncated ? `, the first ${count(LIMIT)}` : '')
      this.answer = answer
      this.paint(answer)
    } catch (error) {
      if (cancelled(error)) return
      this.line.textContent = ''
      this.error.textContent = String(/** @type {Error} */ (error).message)
    }
  }

  /** @param {Answer} answer */
  paint ({ columns, rows }) {
    const id = columns.indexOf('id')
    const numbers = columns.map((_, i) => rows.some(row => typeof row[i] === 'number'))
    fill(
      this.result,
      el(
        'table',
        { class: 'wide' },
        el('caption', { class: 'spoken' }, 'Rows'),
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            ...columns.map((name, i) => el('th', { scope: 'col', class: numbers[i] ? 'number' : '' }, name))
          )
        ),
        el(
          'tbody',
          {},
          ...rows.map(row =>
            el(
              'tr',
              {},
              ...row.map((value, i) =>
                el(
                  'td',
                  { class: numbers[i] ? 'number' : '' },
                  i === id && typeof value === 'number'
                    ? button(cell(value), () => this.context.store.set({ call: value }, { step: true }), {
                        class: 'link'
                      })
                    : cell(value)
                )
              )
            )
          )
        )
      )
    )
    this.paintChart({ columns, rows })
  }

  /** The chart, and what else could be one. @param {Answer} answer */
  paintChart ({ columns, rows }) {
    const { state } = this.context.store
    const any = chartFor(columns, rows)
    const chart = chartFor(columns, rows, state.chart)
    const numbers = columns.filter((_, i) => i !== any?.label && rows.some(row => typeof row[i] === 'number'))
    this.kind.hidden = !any
    fill(
      this.kind,
      el('option', { value: '' }, 'Chart: what suits'),
      ...numbers.map(name => el('option', { value: name }, `Chart: ${name}`)),
      el('option', { value: 'none' }, 'No chart')
    )
    this.kind.value = [...numbers, 'none'].includes(state.chart) ? state.chart : ''
    fill(
      this.chart,
      chart && (chart.kind === 'bars' ? barChart(columns, rows, chart) : lineChart(columns, rows, chart))
    )
  }
}

/** @param {string[]} columns @param {unknown[][]} rows @param {import('./charts.js').Chart} chart */
function barChart (columns, rows, { label, values: [value] }) {
  const shown = rows.slice(0, BARS)
  const most = shown.reduce((a, row) => Math.max(a, Math.abs(Number(row[value]))), 0) || 1
  const picture = svg('svg', {
    class: 'bars',
    viewBox: `0 -18 ${WIDE} ${shown.length * 18 + 18}`,
    role: 'img',
    'aria-label': `Bars: ${columns[value]} for each ${columns[label]}`
  })
  picture.append(svg('text', { x: 220, y: -5, class: 'muted' }, columns[value]))
  shown.forEach((row, i) => {
    const wide = (Math.abs(Number(row[value])) / most) * (WIDE - 330)
    picture.append(
      svg('text', { x: 212, y: i * 18 + 13, 'text-anchor': 'end' }, cell(row[label]).slice(0, 28)),
      svg('rect', { x: 220, y: i * 18 + 2, width: Math.max(1, wide).toFixed(1), height: 14 }),
      svg('text', { x: 226 + wide, y: i * 18 + 13, class: 'muted' }, count(Number(row[value])))
    )
  })
  return picture
}

/** @param {string[]} columns @param {unknown[][]} rows @param {import('./charts.js').Chart} chart */
function lineChart (columns, rows, { label, values }) {
  const sorted = [...rows].sort((a, b) => Number(a[label]) - Number(b[label]))
  const xs = sorted.map(row => Number(row[label]))
  const picture = svg('svg', {
    class: 'lines',
    viewBox: `-4 -8 ${WIDE} ${TALL + 30}`,
    role: 'img',
    'aria-label': `Lines: ${values.map(i => columns[i]).join(', ')} by ${columns[label]}`
  })
  values.forEach((value, i) => {
    const points = line(
      xs,
      sorted.map(row => Number(row[value] ?? 0)),
      WIDE - 8,
      TALL
    )
    picture.append(
      svg('polyline', {
        class: `line${i}`,
        points: points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ')
      }),
      svg('text', { x: 8 + i * 160, y: 8, class: `line${i}` }, columns[value])
    )
  })
  picture.append(
    svg('text', { x: 0, y: TALL + 16, class: 'muted' }, cell(xs[0])),
    svg('text', { x: WIDE - 8, y: TALL + 16, 'text-anchor': 'end', class: 'muted' }, cell(xs[xs.length - 1]))
  )
  return picture
}
