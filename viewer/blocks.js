// SPDX-License-Identifier: Apache-2.0
// Blocks of code that followed threads have executed: how often, in which functions and lines.
import { cancelled } from './api.js'
import { button, el, facts, fill } from './dom.js'
import { base, count, percent, plural } from './format.js'
import { differs } from './store.js'

const PAGE = 200

/** @typedef {{process: number, address: number | string, name: string, module: string, module_id: number, into: number,
 *   size: number, instructions: number, count: number, executed: number, line?: string}} Block */
/** @typedef {{instructions: {address: number, bytes: string, text: string, line: string | null}[], count: number,
 *   problem: string | null}} Code */

/** The name of a block in the address of the page. @param {Block} block */
export const placeOf = block => [block.process, block.module_id, block.address, block.size].join(':')

/** @param {Block} block */
const nameOf = block => (block.name ? `${block.name}+${hex(block.into)}` : hex(block.address))

/** @param {number | string} number */
const hex = number => `0x${Number(number).toString(16)}`

/** What the rows of a listing say; a source line is named where it changes. @param {Code} code */
export const listed = code =>
  code.instructions.map((one, i) => [
    count(code.count),
    hex(one.address),
    one.bytes,
    one.text,
    one.line && one.line !== code.instructions[i - 1]?.line ? base(one.line) : ''
  ])

/** @param {Code} code */
function listing (code) {
  const names = ['entered', 'offset', 'bytes', 'instruction', 'source']
  const kind = (/** @type {number} */ i) => (i ? (i === 3 ? undefined : 'muted') : 'number')
  return el(
    'table',
    { class: 'wide' },
    el('caption', { class: 'spoken' }, 'Instructions'),
    el('thead', {}, el('tr', {}, ...names.map((name, i) => el('th', { scope: 'col', class: kind(i) }, name)))),
    el(
      'tbody',
      {},
      ...listed(code).map((row, at) => {
        const whole = (/** @type {number} */ i) => (i === 4 ? (code.instructions[at].line ?? undefined) : undefined)
        return el('tr', {}, ...row.map((text, i) => el('td', { class: kind(i), title: whole(i) }, text)))
      })
    )
  )
}

export class Blocks {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.table = el('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Blocks' })
    this.code = el('div', { class: 'scroller code', tabindex: 0, role: 'region', 'aria-label': 'Block' })
    this.instructions = el('div', { class: 'instructions' })
    this.line = el('p', { class: 'line', role: 'status' })
    this.pages = el('div', { class: 'pages' })
    this.root = el(
      'section',
      { class: 'blocks', 'aria-label': 'Blocks' },
      el('div', { class: 'bar' }, this.line, this.pages),
      el('div', { class: 'columns' }, this.table, this.code)
    )
    this.offset = 0
    /** @type {Block[]} */
    this.rows = []
    /** @type {import('./store.js').State | null} */
    this.shown = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
  }

  resize() {}

  unmount () {
    this.context.api.cancel('blocks')
    this.context.api.cancel('block')
    this.root.remove()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    if (differs(state, before, 'trace', 'thread')) this.ask()
    if (differs(state, before, 'address', 'trace')) this.paintBlock(state.address)
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
      this.rows = answer.blocks
      this.paint(this.rows)
      this.paintPages(answer.total)
      if (!state.address && this.rows[0]) this.context.store.set({ address: placeOf(this.rows[0]) })
      else this.paintBlock(state.address)
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
            el('th', { scope: 'col' }, 'function'),
            el('th', { scope: 'col', class: 'number' }, 'at'),
            el('th', { scope: 'col', class: 'number' }, 'executed'),
            el('th', { scope: 'col', class: 'number' }, 'length'),
            el('th', { scope: 'col' }, 'module'),
            el('th', { scope: 'col' }, 'source')
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
                button(row.name || hex(row.address), () => this.choose(row), { class: 'link', title: nameOf(row) })
              ),
              el('td', { class: 'number muted' }, row.name ? `+${hex(row.into)}` : ''),
              el('td', { class: 'number self' }, bar, count(row.count)),
              el('td', { class: 'number', title: 'instructions' }, count(row.instructions)),
              el('td', { class: 'module' }, row.module),
              el('td', { class: 'module', title: row.line }, row.line && base(row.line))
            )
          })
        )
      )
    )
  }

  /** @param {Block} block */
  choose (block) {
    this.context.store.set({ address: placeOf(block) }, { step: true })
  }

  /** What is known of the chosen block. @param {string} place */
  paintBlock (place) {
    const block = this.rows.find(one => placeOf(one) === place)
    if (!block) {
      fill(this.code)
      return
    }
    const own = this.rows.filter(one => one.name === block.name && one.module_id === block.module_id)
    const executed = own.reduce((sum, one) => sum + one.executed, 0)
    fill(
      this.code,
      el('h2', {}, nameOf(block)),
      facts([
        ['module', block.module],
        ['source', block.line],
        ['offset', hex(block.address)],
        ['size', `${plural(block.size, 'byte')}, ${plural(block.instructions, 'instruction')}`],
        ['executed', plural(block.count, 'time')],
        [
          'instructions',
          `${count(block.executed)}, ${percent(block.executed, executed)} of this function's on this page`
        ]
      ]),
      this.instructions,
      el('h3', {}, 'Blocks of this function'),
      el('ul', { class: 'plain' }, ...[...own].sort((a, b) => a.into - b.into).map(one => this.item(one, block)))
    )
    this.askCode(block)
  }

  /** Fills in the instructions of the chosen block. @param {Block} block */
  async askCode (block) {
    const { api, store } = this.context
    fill(this.instructions)
    try {
      const code = await api.get('block', 'block', {
        trace: store.state.trace,
        process: block.process,
        module: block.module_id,
        address: block.address,
        size: block.size
      })
      fill(
        this.instructions,
        code.instructions.length > 0 && listing(code),
        code.problem && el('p', { class: 'muted' }, code.problem)
      )
    } catch (error) {
      const { message } = /** @type {Error} */ (error)
      if (!cancelled(error)) fill(this.instructions, el('p', { class: 'muted' }, message))
    }
  }

  /** @param {Block} one @param {Block} chosen */
  item (one, chosen) {
    const current = one === chosen ? 'true' : undefined
    return el(
      'li',
      {},
      button(nameOf(one), () => this.choose(one), { class: 'link', 'aria-current': current }),
      el('span', { class: 'muted', title: one.line }, ` ${count(one.count)}  ${base(one.line ?? '')}`)
    )
  }
}
