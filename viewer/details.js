// SPDX-License-Identifier: Apache-2.0
// The panel beside a view: the selected call, or what the selected range was made of.
import { cancelled } from './api.js'
import { colourOf } from './colours.js'
import { button, el, facts, fill } from './dom.js'
import { count, duration, moment, percent, plural } from './format.js'
import { lossesTitle, momentsOf, shortened, unlisted } from './moments.js'
import { scopeOf, threadChoice } from './scope.js'
import { differs } from './store.js'
import { rangeOf, within } from './tracks.js'

const MOST = 200 // rows of a list
const TRIES = 4

/** "same function: median 12 µs, this 8 ms" @param {import('./types.js').Call} call */
export function comparison (call) {
  const { same } = call
  if (!same || same.calls < 2) return same ? 'The only call of this function.' : ''
  const times = same.median > 0 ? call.duration / same.median : 0
  const factor = times >= 2 ? `, ${times >= 100 ? count(times) : times.toFixed(1)} times as long` : ''
  return `Same function: median ${duration(same.median)}, this ${duration(call.duration)}${factor}.`
}

/** Where this call is among its like: a line from the median to the longest, on a logarithmic scale, 0 to 1.
 * @param {import('./types.js').Call} call */
export function placeAmong ({ duration: time, same }) {
  if (!same || same.longest <= 0) return 0
  const top = Math.log2(same.longest + 1)
  return top > 0 ? Math.min(1, Math.log2(time + 1) / top) : 0
}

export class Details {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.root = el('aside', { class: 'details', 'aria-label': 'Details', tabindex: -1 })
    /** @type {import('./store.js').State | null} */
    this.shown = null
    /** @type {import('./types.js').Info | null} what was known when the trace was shown */
    this.info = null
    this.timer = /** @type {any} */ (0)
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
  }

  resize() {}

  unmount () {
    clearTimeout(this.timer)
    this.context.api.cancel('select')
    this.root.remove()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    const info = this.context.info()
    const grown = info !== this.info && state.call < 0 && state.a < 0
    this.info = info
    const open = state.call >= 0 || state.a >= 0
    this.root.hidden = !open && state.view !== 'timeline' // tables and flames need the room
    if (!grown && !differs(state, before, 'call', 'a', 'b', 'thread', 'trace')) return
    clearTimeout(this.timer)
    this.root.classList.toggle('open', open)
    if (state.call >= 0) this.showCall(state.call)
    else if (state.a >= 0) this.timer = setTimeout(() => this.showRange(state), 120)
    else this.showNothing()
  }

  showNothing () {
    const { info } = this.context
    const { command, host, arch, wall, start, end, calls, events, lost, damage, threads, processes } = info()
    fill(
      this.root,
      el('h2', {}, 'Trace'),
      facts([
        ['command', command],
        ['machine', [host, arch].filter(Boolean).join(', ')],
        ['recorded', wall?.replace('T', ' ').replace(/\.\d+/, ' ')],
        ['length', duration(end - start)],
        ['calls', count(calls)],
        ['events', count(events)],
        ['threads', `${count(threads.length)} in ${plural(processes.length, 'process', 'processes')}`],
        ['lost', lost > 0 ? plural(lost, 'event') : 'nothing']
      ]),
      damage.length > 0 && el('ul', { class: 'bad' }, ...damage.slice(0, MOST).map(text => el('li', {}, text))),
      this.moments(),
      el('p', { class: 'muted' }, 'Click a call to see it. Drag on the ruler to select a range.')
    )
  }

  /** The flags of the timeline, as a list from which one goes there. */
  moments () {
    const { info } = this.context
    const { others, losses } = shortened(momentsOf(info()))
    const item = (/** @type {import('./moments.js').Moment} */ one) =>
      el(
        'li',
        {},
        button(one.text, () => this.visit(one), { class: `link ${one.bad ? 'bad' : ''}`, title: one.text }),
        el('span', { class: 'muted number' }, duration(one.time))
      )
    const list = (/** @type {string} */ title, /** @type {import('./moments.js').Moment[]} */ all) =>
      all.length > 0 &&
      el(
        'div',
        {},
        el('h3', {}, title),
        el('ul', { class: 'plain moments' }, ...all.slice(0, MOST).map(item)),
        all.length > MOST && el('p', { class: 'muted' }, `The first ${count(MOST)} are listed.`)
      )
    const rest = unlisted(info())
    return el(
      'div',
      {},
      list('Moments', others),
      list(lossesTitle(info(), losses.length), losses),
      rest && el('p', { class: 'muted' }, rest)
    )
  }

  /** Shows a moment in the middle, with as much around it as there was in sight, but not everything.
   * @param {import('./moments.js').Moment} moment */
  visit ({ time, end }) {
    const { store, info } = this.context
    const { from, to } = rangeOf(store.state, info())
    const whole = info().end - info().start
    const half = Math.max(Math.min(to - from, whole / 8), (end - time) * 1.4) / 2
    const middle = (time + end) / 2
    store.set({ ...within(middle - half, middle + half, info()), view: 'timeline', follow: 0 }, { step: true })
  }

  close () {
    this.context.store.set({ call: -1, a: -1, b: -1 })
  }

  /** @param {string} title */
  heading (title) {
    return el(
      'div',
      { class: 'title' },
      el('h2', {}, title),
      button('×', () => this.close(), { 'aria-label': 'Close', class: 'quiet' })
    )
  }

  /** @param {unknown} error */
  failed (error) {
    if (!cancelled(error)) {
      fill(
        this.root,
        this.heading('Details'),
        el('p', { class: 'bad' }, String(/** @type {Error} */ (error).message))
      )
    }
  }

  // ---- a call ----

  /** @param {number} id @param {number} [tries] the server may still count the calls of the same function */
  async showCall (id, tries = 0) {
    try {
      const call = await this.context.call(id)
      if (this.context.store.state.call !== id) return
      if (tries === 0 || call.same) this.paintCall(call)
      if (!call.same && tries < TRIES) this.timer = setTimeout(() => this.showCall(id, tries + 1), 1000 * 2 ** tries)
    } catch (error) {
      this.failed(error)
    }
  }

  /** @param {import('./types.js').Call} call */
  paintCall (call) {
    const { store, info, palette } = this.context
    const thread = info().threads.find(one => one.thread === call.thread)
    const swatch = el('span', { class: 'swatch', 'aria-hidden': 'true' })
    swatch.style.background = palette().css[colourOf(call.name, call.module)]
    const place = call.file ? `${call.file}${call.line ? `:${call.line}` : ''}` : ''
    fill(
      this.root,
      this.heading('Call'),
      el('h3', { class: 'function' }, swatch, call.name),
      facts([
        ['module', call.module],
        ['source', place],
        ['thread', thread ? `${thread.name || 'thread'} ${thread.tid}` : String(call.thread)],
        ['start', moment(call.start)],
        ['duration', call.open ? `${duration(call.duration)}, still open` : duration(call.duration)],
        ['self', `${duration(call.self)} ${percent(call.self, call.duration)}`],
        ['depth', String(call.depth)],
        ['ended', call.ended === 'returned' ? '' : call.ended],
        ['id', String(call.id)]
      ]),
      this.among(call),
      this.values(call),
      el(
        'div',
        { class: 'row' },
        button('Latency', () => store.set({ view: 'latency', fn: call.function }, { step: true })),
        button('Flame graph', () => store.set({ view: 'flame', fn: call.function }, { step: true })),
        button('All calls on the map', () => store.set({ view: 'timeline', fn: call.function }, { step: true }))
      ),
      this.callers(call),
      this.stack(call)
    )
    this.context.say(`${call.name}, ${duration(call.duration)}, depth ${call.depth}`)
  }

  /** @param {import('./types.js').Call} call */
  among (call) {
    if (!call.same) return null
    const meter = el('div', { class: 'among', 'aria-hidden': 'true' }, el('i', {}), el('b', {}))
    const [median, own] = /** @type {HTMLElement[]} */ ([...meter.children])
    median.style.left = `${100 * placeAmong({ ...call, duration: call.same.median })}%`
    own.style.left = `${100 * placeAmong(call)}%`
    return el(
      'div',
      {},
      el('p', { class: 'same' }, comparison(call)),
      call.same.calls > 1 && meter,
      call.same.calls > 1 &&
        el(
          'p',
          { class: 'muted' },
          `${plural(call.same.calls, 'call')}, 99 % within ` +
            `${duration(call.same.p99)}, longest ${duration(call.same.longest)}`
        )
    )
  }

  /** @param {import('./types.js').Call} call */
  values (call) {
    const rows = /** @type {[string, string][]} */ (
      (call.arguments ?? []).slice(0, MOST).map((one, i) => [one.name || `argument ${i + 1}`, one.value])
    )
    if (call.result !== undefined && call.result !== null) rows.push(['result', String(call.result)])
    if (call.error) rows.push(['errno', String(call.error)])
    return (
      rows.length > 0 && el('div', {}, el('h3', {}, 'Arguments and result'), facts(rows, { class: 'facts code' }))
    )
  }

  /** @param {import('./types.js').Call} call */
  callers (call) {
    const list = call.callers ?? []
    if (!list.length) return null
    return el(
      'div',
      {},
      el('h3', {}, 'Called by'),
      el(
        'ol',
        { class: 'callers' },
        ...list.slice(0, MOST).map(one =>
          el(
            'li',
            {},
            button(one.name, () => this.context.store.set({ call: one.id }, { step: true }), {
              class: 'link',
              title: one.name.slice(0, 500)
            }),
            el(
              'span',
              { class: 'number' },
              one.duration === undefined || one.duration < 0 ? '' : duration(one.duration)
            )
          )
        )
      )
    )
  }

  /** @param {import('./types.js').Call} call */
  stack (call) {
    if (!call.stack?.length) return null
    return el(
      'details',
      {},
      el('summary', {}, 'Bytes of the stack'),
      el(
        'pre',
        { class: 'hex', tabindex: 0, 'aria-label': 'Bytes of the stack' },
        call.stack.slice(0, MOST).join('\n')
      )
    )
  }

  // ---- a range ----

  /** @param {import('./store.js').State} state */
  async showRange (state) {
    try {
      this.paintRange(state.a, state.b, await this.context.api.get('select', 'select', scopeOf(state)))
    } catch (error) {
      this.failed(error)
    }
  }

  /** @param {number} a @param {number} b
   * @param {{functions: {function: number, name: string, module?: string, self: number, share: number,
   *   calls: number}[]}} answer */
  paintRange (a, b, answer) {
    const { store } = this.context
    const rows = answer.functions.slice(0, MOST).map(one => {
      const bar = el('i', { class: 'bar' })
      bar.style.width = `${Math.min(100, 100 * one.share)}%`
      return el(
        'tr',
        {},
        el(
          'td',
          {},
          bar,
          button(one.name, () => store.set({ fn: one.function }, { step: true }), {
            class: 'link',
            title: one.name.slice(0, 500)
          })
        ),
        el('td', { class: 'number' }, duration(one.self)),
        el('td', { class: 'number' }, count(one.calls))
      )
    })
    fill(
      this.root,
      this.heading('Range'),
      facts([
        ['from', moment(a)],
        ['to', moment(b)],
        ['length', duration(b - a)],
        ['threads', threadChoice(this.context)]
      ]),
      el(
        'div',
        { class: 'row' },
        button('Show', () => store.set({ from: a, to: b, view: 'timeline', follow: 0 }, { step: true })),
        button('Flame graph', () => store.set({ view: 'flame' }, { step: true })),
        button('Functions', () => store.set({ view: 'functions' }, { step: true }))
      ),
      rows.length
        ? el(
            'table',
            { class: 'made' },
            el('caption', {}, 'What it was made of'),
            el(
              'thead',
              {},
              el(
                'tr',
                {},
                el('th', { scope: 'col' }, 'function'),
                el('th', { scope: 'col', class: 'number' }, 'self'),
                el('th', { scope: 'col', class: 'number' }, 'calls')
              )
            ),
            el('tbody', {}, ...rows)
          )
        : el('p', {}, 'No call is in this range.')
    )
    this.context.say(`Range of ${duration(b - a)}, mostly ${answer.functions[0]?.name ?? 'nothing'}`)
  }
}
