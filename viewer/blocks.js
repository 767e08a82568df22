// SPDX-License-Identifier: Apache-2.0
// Blocks of code that followed threads have executed: how often, and the instructions of one beside its source.
import { cancelled } from './api.js'
import { button, el, fill } from './dom.js'
import { count, plural } from './format.js'
import { differs } from './store.js'

const PAGE = 200

/** @typedef {{process: number, address: number | string, name: string, module: string, into: number, size: number,
 *   instructions: number, count: number, executed: number, line?: string}} Block */
/** @typedef {{address: string, bytes?: string, text: string, count: number, file?: string, line?: number, source?:
 * string}} Instruction */

/** The name of a block in the address of the page. @param {Block} block */
export const placeOf = block => `${block.process}:${block.address}`

/** @param {string} place */
function parts (place) {
  const [process, address] = place.split(':')
  return { process, address }
}

/** @param {Block} block */
const nameOf = block => (block.name ? `${block.name}+0x${Number(block.into).toString(16)}` : String(block.address))

export class Blocks {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.table = el('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Blocks' })
    this.code = el('div', { class: 'scroller code', tabindex: 0, role: 'region', 'aria-label': 'Instructions' })
    this.line = el('p', { class: 'line', role: 'status' })
    this.pages = el('div', { class: 'pages' })
    this.root = el(
      'section',
      { class: 'blocks', 'aria-label': 'Blocks' },
      el('div', { class: 'bar' }, this.line, this.pages),
      el('div', { class: 'columns' }, this.table, this.code)
    )
    this.offset = 0
    /** @type {import('./store.js').State | null} */
    this.shown = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
  }

  resize() {}

  unmount () {
    for (const slot of ['blocks', 'block']) this.context.api.cancel(slot)
    this.root.remove()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    if (differs(state, before, 'trace', 'thread')) this.ask()
    if (differs(state, before, 'address', 'trace')) this.askCode(state.address)
  }

  async ask () {
    const {
      api,
      store: { state },
      info
    } = this.context
    if (!info().blocks) {
      this.line.textContent = 'This trace has no blocks: contrail stalk --events block records them.'
      return
    }
    try {
      const answer = await api.get('blocks', 'blocks', {
        trace: state.trace,
        offset: this.offset,
        limit: PAGE,
        thread: state.thread >= 0 ? state.thread : undefined
      })
      this.line.textContent = plural(answer.total, 'block')
      this.paint(answer.blocks)
      this.paintPages(answer.total)
      if (!state.address && answer.blocks[0]) this.context.store.set({ address: placeOf(answer.blocks[0]) })
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
      total > PAGE &&
        button('›', () => go(PAGE), { 'aria-label': 'Next page', disabled: this.offset + PAGE >= total })
    )
  }

  /** @param {Block[]} rows */
  paint (rows) {
    const most = rows.reduce((a, row) => Math.max(a, row.count), 1)
    fill(
      this.table,
      el(
        'table',
        { class: 'wide' },
        el('caption', { class: 'spoken' }, 'Blocks by executions'),
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            el('th', { scope: 'col' }, 'block'),
            el('th', { scope: 'col' }, 'module'),
            el('th', { scope: 'col' }, 'source'),
            el('th', { scope: 'col', class: 'number' }, 'instructions'),
            el('th', { scope: 'col', class: 'number' }, 'executed')
          )
        ),
        el(
          'tbody',
          {},
          ...rows.map(row => {
            const bar = el('i', { class: 'bar' })
            bar.style.width = `${(100 * row.count) / most}%`
            return el(
              'tr',
              {},
              el(
                'th',
                { scope: 'row' },
                button(nameOf(row), () => this.context.store.set({ address: placeOf(row) }, { step: true }), {
                  class: 'link',
                  title: String(row.address)
                })
              ),
              el('td', { class: 'module' }, row.module),
              el('td', { class: 'module' }, row.line),
              el('td', { class: 'number' }, count(row.instructions)),
              el('td', { class: 'number self' }, bar, count(row.count))
            )
          })
        )
      )
    )
  }

  /** @param {string} address */
  async askCode (address) {
    fill(this.code)
    if (!address) return
    try {
      const { api, store } = this.context
      this.paintCode(await api.get('block', 'block', { trace: store.state.trace, ...parts(address) }))
    } catch (error) {
      if (!cancelled(error)) fill(this.code, el('p', { class: 'bad' }, String(/** @type {Error} */ (error).message)))
    }
  }

  /** @param {{name: string, lines: Instruction[]}} block */
  paintCode (block) {
    const most = block.lines.reduce((a, line) => Math.max(a, line.count), 1)
    let source = ''
    const rows = block.lines.slice(0, 5000).flatMap(line => {
      const heat = el('td', { class: 'number heat' }, count(line.count))
      heat.style.background = `color-mix(in srgb, var(--accent) ${Math.round((30 * line.count) / most)}%, transparent)`
      const row = el(
        'tr',
        {},
        heat,
        el('td', { class: 'address' }, line.address),
        el('td', {}, el('code', {}, line.text))
      )
      const place = line.file ? `${line.file}:${line.line ?? 0}` : ''
      if (!place || place === source) return [row]
      source = place
      return [
        el('tr', { class: 'source' }, el('td', {}), el('td', { colspan: 2 }, `${place}  ${line.source ?? ''}`)),
        row
      ]
    })
    fill(
      this.code,
      el('h3', {}, block.name),
      el(
        'table',
        {},
        el('caption', { class: 'spoken' }, 'Instructions'),
        el(
          'thead',
          {},
          el('tr', {}, ...['executed', 'address', 'instruction'].map(title => el('th', { scope: 'col' }, title)))
        ),
        el('tbody', {}, ...rows)
      )
    )
  }
}
