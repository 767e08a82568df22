// SPDX-License-Identifier: Apache-2.0
// How a process died: the signal, registers, stacks of its threads, and the last calls.
import { cancelled } from './api.js'
import { button, el, facts, fill } from './dom.js'
import { base, count, moment, plural } from './format.js'
import { differs } from './store.js'

/**
 * @typedef {{name: string, module?: string, offset?: number | string, file?: string, line?: number}} StackFrame
 * @typedef {{id: number, name: string, start: number, duration: number, depth: number, ended?: string, result?: string,
 *   arguments?: string}} Last
 * @typedef {{process: number, pid?: number, thread: number, signal: string, code?: number, address?: number | string,
 *   time: number,
 *   registers?: [string, string][], threads?: {thread: number, name?: string, tid?: number, frames: StackFrame[]}[],
 *   last?: Last[]}} Death
 */

const MOST = 400
const SAME = 1000 // nanoseconds between what the kernel and the recorder say of the same moment

/** @param {StackFrame} frame */
export const source = frame => (frame.file ? `${frame.file}${frame.line ? `:${frame.line}` : ''}` : '')

/** @param {Last} last */
export const wording = last =>
  `${last.name}(${last.arguments ?? ''})` + (last.result !== undefined ? ` = ${last.result}` : '')

/** An address as people write it. @param {number | string | undefined} address */
export const hex = address => (typeof address === 'number' ? `0x${address.toString(16)}` : address)

export class Crash {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.root = el('section', { class: 'crash scroller', tabindex: 0, 'aria-label': 'Crash' })
    /** @type {import('./store.js').State | null} */
    this.shown = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
  }

  resize() {}

  unmount () {
    this.context.api.cancel('crash')
    this.root.remove()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    if (differs(state, before, 'trace')) this.ask(state.trace)
  }

  /** @param {number} trace */
  async ask (trace) {
    try {
      const { crashes } = await this.context.api.get('crash', 'crash', { trace })
      fill(
        this.root,
        ...(crashes.length
          ? crashes.map((/** @type {Death} */ one) => this.paint(one))
          : [el('p', { class: 'line' }, 'No process of this trace has crashed.')])
      )
    } catch (error) {
      if (!cancelled(error)) fill(this.root, el('p', { class: 'bad' }, String(/** @type {Error} */ (error).message)))
    }
  }

  /** @param {Death} death */
  paint (death) {
    const { info } = this.context
    const process = info().processes.find(one => one.process === death.process)
    return el(
      'article',
      {},
      el('h2', { class: 'bad' }, death.signal),
      facts([
        ['process', process ? `${process.pid} ${process.command}` : String(death.process)],
        ['thread', this.threadName(death.thread)],
        ['reason', this.reason(death)],
        ['address', hex(death.address)],
        ['time', button(moment(death.time), () => this.visit(death), { class: 'link' })]
      ]),
      el(
        'div',
        { class: 'columns' },
        el('div', {}, ...this.stacks(death)),
        el('div', {}, this.last(death), this.registers(death))
      )
    )
  }

  /** What the kernel says of the signal. @param {Death} death */
  reason (death) {
    return this.context
      .info()
      .signals.find(one => Math.abs(one.time - death.time) < SAME && one.signal === death.signal)?.text
  }

  /** @param {number} thread */
  threadName (thread) {
    const found = this.context.info().threads.find(one => one.thread === thread)
    return found ? `${found.name || 'thread'} ${found.tid}` : `thread ${thread}`
  }

  /** @param {Death} death */
  visit (death) {
    const { start, end } = this.context.info()
    const margin = Math.max(1000, (end - start) / 100)
    this.context.store.set(
      {
        view: 'timeline',
        from: Math.floor(Math.max(start, death.time - margin)),
        to: Math.ceil(Math.min(end, death.time + margin / 4) + 1),
        follow: 0
      },
      { step: true }
    )
  }

  /** @param {Death} death */
  stacks (death) {
    const threads = [...(death.threads ?? [])].sort(
      (a, b) => Number(b.thread === death.thread) - Number(a.thread === death.thread)
    )
    return threads.slice(0, MOST).map(one => {
      const list = el(
        'ol',
        { class: 'frames', start: 0 },
        ...one.frames
          .slice(0, MOST)
          .map(frame =>
            el(
              'li',
              {},
              el('code', {}, frame.name || '?'),
              el('span', { class: 'muted' }, [base(frame.module ?? ''), source(frame)].filter(Boolean).join('  '))
            )
          )
      )
      if (one.thread === death.thread)
        return el('div', {}, el('h3', {}, `Stack of ${this.threadName(one.thread)}`), list)
      return el(
        'details',
        {},
        el('summary', {}, `${this.threadName(one.thread)}: ${one.frames[0]?.name ?? 'no stack'}`),
        list
      )
    })
  }

  /** @param {Death} death */
  registers (death) {
    if (!death.registers?.length) return null
    return el(
      'div',
      {},
      el('h3', {}, 'Registers'),
      el(
        'dl',
        { class: 'registers' },
        ...death.registers.slice(0, MOST).flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])
      )
    )
  }

  /** @param {Death} death */
  last (death) {
    const calls = (death.last ?? []).slice(-MOST)
    if (!calls.length) return null
    const least = Math.min(...calls.map(one => one.depth))
    const list = el('ol', { class: 'last' }, ...calls.map(one => this.call(death, one, one.depth - least)))
    requestAnimationFrame(() => {
      list.scrollTop = list.scrollHeight // the last one is what matters
    })
    return el('div', {}, el('h3', {}, `The last ${plural(calls.length, 'call')}`), list)
  }

  /** @param {Death} death @param {Last} one @param {number} depth */
  call (death, one, depth) {
    const visit = () =>
      this.context.store.set({ view: 'timeline', call: one.id, ...around(one.start, death.time) }, { step: true })
    const text = button(wording(one), visit, { class: 'link code', title: wording(one) })
    text.style.marginLeft = `${Math.min(depth, 30) * 0.9}em`
    const open = one.ended === 'open' || one.duration < 0
    return el(
      'li',
      {},
      el('span', { class: 'muted number' }, before(death.time - one.start)),
      text,
      open && el('span', { class: 'bad' }, 'open')
    )
  }
}

/** How long before the crash, exactly where it is short: neighbours differ by nanoseconds. @param {number} ns */
export const before = ns => `−${ns < 1e9 ? `${count(ns)} ns` : moment(ns)}`

/** The range from a call to the crash, with a margin. @param {number} start @param {number} end */
function around (start, end) {
  const margin = Math.max(50, (end - start) / 8)
  return { from: Math.max(0, Math.floor(start - margin)), to: Math.ceil(end + margin), follow: 0 }
}
