// SPDX-License-Identifier: Apache-2.0
// How long the calls of one function took, over time: a heat map, from which a click goes to calls.
import { cancelled } from './api.js'
import { button, el, fill, sized } from './dom.js'
import { duration, moment, plural, tick, step, whole } from './format.js'
import { bucketRange, cropped, heatAt, heatBoxes, steps } from './heat.js'
import { Scope, scopeOf } from './scope.js'
import { differs } from './store.js'

const LEFT = 64
const BOTTOM = 24
const WIDTH = 200 // columns and buckets that are asked for
const HEIGHT = 40

export class Latency {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.canvas = el('canvas', {
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'heat map',
      'aria-label': 'Durations over time. Arrow keys move, Enter lists the calls.'
    })
    this.place = el('div', { class: 'heat' }, this.canvas)
    this.line = el('p', { class: 'line', role: 'status' })
    this.list = el('div', { class: 'list' })
    this.scope = new Scope(context, true)
    this.root = el(
      'section',
      { class: 'latency', 'aria-label': 'Latency' },
      el('div', { class: 'bar' }, this.scope.root),
      this.line,
      this.place,
      this.list
    )
    /** @type {ReturnType<typeof cropped> | null} */
    this.heat = null
    /** @type {import('./store.js').State | null} */
    this.shown = null
    /** @type {{column: number, bucket: number} | null} */
    this.at = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
    this.canvas.addEventListener('pointermove', event => {
      const here = this.where(event)
      if (here) this.tell(here)
    })
    this.canvas.addEventListener('click', event => {
      const here = this.where(event)
      if (here) this.choose(here)
    })
    this.observer = new ResizeObserver(() => this.resize())
    this.observer.observe(this.place)
  }

  unmount () {
    this.observer?.disconnect()
    this.context.api.cancel('latency')
    this.context.api.cancel('slow')
    this.root.remove()
  }

  resize () {
    this.draw()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    this.scope.show(state)
    if (differs(state, before, 'trace', 'thread', 'a', 'b', 'fn')) this.ask()
  }

  async ask () {
    const {
      api,
      store: { state }
    } = this.context
    this.heat = this.at = null
    fill(this.list)
    this.draw()
    if (state.fn < 0) {
      this.line.textContent = 'Search a function, or choose one in the table of functions.'
      return
    }
    this.line.textContent = 'The calls are read …'
    try {
      const words = { ...scopeOf(state), function: state.fn, width: WIDTH, height: HEIGHT }
      const answer = await api.get('latency', 'latency', words)
      for (const [id, name] of Object.entries(answer.functions)) this.context.names.set(Number(id), name)
      this.context.store.set({ name: this.context.names.get(state.fn)?.[0] ?? '' })
      this.heat = cropped(answer)
      const calls = this.heat.columns.flat().reduce((a, b) => a + b, 0) ?? 0
      this.line.textContent =
        `${(this.context.names.get(state.fn)?.[0] ?? '').slice(0, 200)}: ${plural(calls, 'call')}` +
        (answer.sampled ? ', in the parts of the range that were read: it is long. Select a shorter one.' : '')
      this.draw()
    } catch (error) {
      if (!cancelled(error)) this.line.textContent = String(/** @type {Error} */ (error).message)
    }
  }

  draw () {
    const { palette } = this.context
    const colours = palette()
    const width = Math.max(100, this.place.clientWidth)
    const height = Math.max(100, this.place.clientHeight)
    const { context: g } = sized(this.canvas, width, height)
    g.fillStyle = colours.background
    g.fillRect(0, 0, width, height)
    const { heat } = this
    if (!heat) return
    const [w, h] = [width - LEFT, height - BOTTOM]
    this.drawAxes(g, heat, w, h, colours)
    g.fillStyle = colours.accent
    for (const box of heatBoxes(heat, w, h)) {
      g.globalAlpha = box.strength
      g.fillRect(LEFT + box.x, box.y, Math.max(1, box.width - 0.5), Math.max(1, box.height - 0.5))
    }
    g.globalAlpha = 1
    if (!this.at) return
    const [wide, tall] = [w / heat.columns.length, h / Math.max(1, ...heat.columns.map(one => one.length))]
    g.strokeStyle = colours.text
    g.lineWidth = 1.5
    g.strokeRect(LEFT + this.at.column * wide - 1, h - (this.at.bucket + 1) * tall - 1, wide + 2, tall + 2)
  }

  /** @param {CanvasRenderingContext2D} g @param {import('./heat.js').Heat} heat @param {number} w @param {number} h
   * @param {import('./colours.js').Palette} colours */
  drawAxes (g, heat, w, h, colours) {
    g.font = '11px system-ui, "DejaVu Sans", sans-serif'
    g.textBaseline = 'middle'
    for (const ns of steps(heat, h / 24)) {
      const y = h - ((Math.log2(ns) - heat.low) / Math.max(1e-9, heat.high - heat.low)) * h
      g.fillStyle = colours.line
      g.fillRect(LEFT, Math.round(y), w, 1)
      g.fillStyle = colours.muted
      g.fillText(whole(ns), 4, Math.min(h - 6, Math.max(7, y)))
    }
    const by = step((heat.to - heat.from) / Math.max(2, w / 120))
    for (let time = Math.ceil(heat.from / by) * by; time <= heat.to; time += by) {
      const x = LEFT + ((time - heat.from) / Math.max(1, heat.to - heat.from)) * w
      g.fillStyle = colours.line
      g.fillRect(Math.round(x), h, 1, 6)
      g.fillStyle = colours.muted
      g.fillText(tick(time, by), x + 3, h + 13)
    }
  }

  /** @param {MouseEvent} event */
  where (event) {
    if (!this.heat) return null
    const box = this.canvas.getBoundingClientRect()
    const x = (event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT)
    const y = (event.clientY - box.top) / Math.max(1, box.height - BOTTOM)
    return x < 0 || y > 1 ? null : heatAt(this.heat, x, y)
  }

  /** @param {{column: number, bucket: number}} here */
  tell ({ column, bucket }) {
    const { heat } = this
    if (!heat) return
    this.at = { column, bucket }
    const calls = heat.columns[column]?.[bucket] ?? 0
    const { from, to } = bucketRange(heat, bucket)
    const time = heat.from + ((heat.to - heat.from) * column) / heat.columns.length
    this.line.textContent = `${plural(calls, 'call')} of ${duration(from)} to ${duration(to)}, at ${moment(time)}`
    this.draw()
  }

  /** Lists the calls of a box. @param {{column: number, bucket: number}} here */
  async choose (here) {
    this.tell(here)
    if (!this.heat) return
    const { api, store } = this.context
    const { state } = store
    try {
      const answer = await api.get('slow', 'latency', {
        ...scopeOf(state),
        function: state.fn,
        width: WIDTH,
        height: HEIGHT,
        column: here.column,
        bucket: here.bucket + this.heat.first
      })
      const found = /** @type {{id: number, start: number, duration: number, thread: number}[]} */ (
        answer.calls ?? []
      )
      fill(
        this.list,
        el('h3', {}, found.length ? plural(found.length, 'call') : 'There is no call here.'),
        el(
          'ul',
          {},
          ...found.map(one =>
            el(
              'li',
              {},
              button(duration(one.duration), () => store.set({ call: one.id }, { step: true }), { class: 'link' }),
              el('span', { class: 'muted' }, ` at ${moment(one.start)} `),
              button('in the timeline', () => this.visit(one), { class: 'link' })
            )
          )
        )
      )
      if (found.length) store.set({ call: found[0].id })
    } catch (error) {
      if (!cancelled(error)) this.line.textContent = String(/** @type {Error} */ (error).message)
    }
  }

  /** @param {{id: number, start: number, duration: number}} call */
  visit (call) {
    const margin = Math.max(20, call.duration)
    this.context.store.set(
      {
        view: 'timeline',
        call: call.id,
        from: Math.max(0, Math.floor(call.start - margin)),
        to: Math.ceil(call.start + call.duration + margin),
        follow: 0
      },
      { step: true }
    )
  }

  /** @param {KeyboardEvent} event */
  key (event) {
    if (document.activeElement !== this.canvas || !this.heat) return false
    const buckets = Math.max(1, ...this.heat.columns.map(one => one.length))
    const at = this.at ?? { column: 0, bucket: 0 }
    const moves = /** @type {Record<string, [number, number]>} */ ({
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, 1],
      ArrowDown: [0, -1]
    })
    if (event.key === 'Enter') this.choose(at)
    else if (event.key in moves) {
      const [dx, dy] = moves[event.key]
      this.tell({
        column: Math.min(this.heat.columns.length - 1, Math.max(0, at.column + dx)),
        bucket: Math.min(buckets - 1, Math.max(0, at.bucket + dy))
      })
    } else return false
    return true
  }
}
