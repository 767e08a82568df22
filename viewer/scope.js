// SPDX-License-Identifier: Apache-2.0
// What part of the trace a view is about: a range, a thread, a function. Each part can be taken back.
import { button, el, fill } from './dom.js'
import { duration, moment } from './format.js'

/** The words of a question that tell the part. @param {import('./store.js').State} state */
export const scopeOf = state => ({
  trace: state.trace,
  from: state.a >= 0 ? state.a : undefined,
  to: state.a >= 0 ? state.b : undefined,
  thread: state.thread >= 0 ? state.thread : undefined
})

const MOST_THREADS = 1000

/** Chooses the thread that counts, or all. @param {import('./types.js').Context} context */
export function threadChoice ({ info, store }) {
  const choose = el(
    'select',
    { 'aria-label': 'Thread', change: () => store.set({ thread: Number(choose.value) }, { step: true }) },
    el('option', { value: -1 }, 'all threads'),
    ...info()
      .threads.slice(0, MOST_THREADS)
      .map(one =>
        el(
          'option',
          { value: one.thread, selected: one.thread === store.state.thread },
          `${one.name || 'thread'} ${one.tid}`
        )
      )
  )
  return choose
}

export class Scope {
  /** @param {import('./types.js').Context} context @param {boolean} withFunction */
  constructor (context, withFunction) {
    this.context = context
    this.withFunction = withFunction
    this.root = el('div', { class: 'scope', role: 'group', 'aria-label': 'Part of the trace' })
    this.drawn = ''
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const { info, store, names } = this.context
    const { threads } = info()
    const name = names.get(state.fn)?.[1] ?? `function ${state.fn}`
    const drawn = [state.a, state.b, state.thread, this.withFunction ? state.fn : 0, name, threads.length].join('/')
    if (drawn === this.drawn) return
    this.drawn = drawn
    const chip = (/** @type {string} */ text, /** @type {Partial<import('./store.js').State>} */ patch) =>
      el(
        'span',
        { class: 'chip' },
        text,
        button('×', () => store.set(patch, { step: true }), { 'aria-label': `Without ${text}` })
      )
    fill(
      this.root,
      threadChoice(this.context),
      state.a >= 0
        ? chip(`${duration(state.b - state.a)} from ${moment(state.a)}`, { a: -1, b: -1 })
        : el('span', { class: 'muted' }, 'whole trace'),
      this.withFunction && state.fn >= 0 && chip(name.slice(0, 80), { fn: -1 })
    )
  }
}
