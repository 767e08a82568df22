// SPDX-License-Identifier: Apache-2.0
// The map of the whole trace: how many calls, what is lost, windows, marks, signals, hits of the search, and the part
// that the timeline shows. Drag on it to show another part.
import { el, sized } from './dom.js'
import { isCrash } from './format.js'
import { rangeOf, within } from './tracks.js'
import { differs } from './store.js'

const HEIGHT = 58
const RETRY = 400 // milliseconds until the map is asked for again while it is prepared; then more
const SLOWEST = 3 // times as many

/** Heights of the bars, 0 to 1: the root makes rare calls visible beside many. @param {number[]} calls */
export function bars (calls) {
  const most = calls.reduce((a, b) => Math.max(a, b), 0)
  return calls.map(number => (number > 0 ? Math.max(0.06, Math.sqrt(number / most)) : 0))
}

export class Overview {
  /** @param {import('./types.js').Context} context @param {(part: number) => void} progress is told how much of a
   * large trace is ready to be seen */
  constructor (context, progress) {
    this.context = context
    this.progress = progress
    this.canvas = el('canvas', { class: 'map', role: 'img', 'aria-label': 'Map of the whole trace' })
    /** @type {import('./types.js').MapAnswer | null} */
    this.answer = null
    /** @type {number[]} */
    this.hits = []
    this.width = 0
    this.asked = ''
    this.tries = 0
    this.timer = /** @type {any} */ (0)
    this.listen()
  }

  listen () {
    let start = -1
    const at = (/** @type {PointerEvent} */ event) => {
      const box = this.canvas.getBoundingClientRect()
      return Math.min(1, Math.max(0, (event.clientX - box.left) / Math.max(1, box.width)))
    }
    this.canvas.addEventListener('pointerdown', event => {
      start = at(event)
      this.canvas.setPointerCapture(event.pointerId)
    })
    this.canvas.addEventListener('pointermove', event => {
      if (start >= 0) this.choose(start, at(event))
    })
    this.canvas.addEventListener('pointerup', event => {
      if (start >= 0 && Math.abs(at(event) - start) < 0.004) this.centre(start)
      start = -1
    })
    this.canvas.addEventListener('pointercancel', () => {
      start = -1
    })
  }

  /** @param {number} a @param {number} b */
  choose (a, b) {
    if (Math.abs(a - b) < 0.004) return
    const { start, end } = this.context.info()
    const [low, high] = [Math.min(a, b), Math.max(a, b)]
    const part = within(start + (end - start) * low, start + (end - start) * high, { start, end })
    this.context.store.set({ ...part, follow: 0 })
  }

  /** @param {number} at */
  centre (at) {
    const info = this.context.info()
    const { from, to } = rangeOf(this.context.store.state, info)
    const time = info.start + (info.end - info.start) * at
    this.context.store.set({ ...within(time - (to - from) / 2, time + (to - from) / 2, info), follow: 0 })
  }

  /** @param {import('./store.js').State} state @param {import('./store.js').State | null} before */
  show (state, before) {
    if (differs(state, before, 'fn', 'trace')) this.askHits()
    if (differs(state, before, 'from', 'to', 'fn', 'a', 'b', 'trace')) this.draw()
  }

  /** @param {number} width */
  resize (width) {
    this.width = width
    this.ask()
    this.draw()
  }

  /** Asks for the map, when something that it depends on has changed. */
  ask () {
    const { store, api, info } = this.context
    const width = Math.min(2000, Math.floor(this.width))
    const wanted = `${store.state.trace}/${width}/${info().end}`
    if (width < 1 || wanted === this.asked) return
    this.asked = wanted
    clearTimeout(this.timer)
    api.get('map', 'map', { trace: store.state.trace, width }).then(
      answer => {
        this.answer = answer
        this.progress(answer.progress)
        this.draw()
        if (answer.progress < 1) {
          this.asked = ''
          this.timer = setTimeout(() => this.ask(), RETRY * Math.min(++this.tries, SLOWEST))
        }
        if (store.state.fn >= 0) this.askHits()
      },
      () => {
        this.asked = ''
      }
    )
  }

  async askHits () {
    const {
      store: { state },
      api,
      info
    } = this.context
    this.hits = []
    if (state.fn < 0 || this.width < 1) return
    try {
      const { start, end } = info()
      const width = Math.min(2000, Math.floor(this.width))
      const words = { trace: state.trace, function: state.fn, width, from: start, to: end }
      this.hits = (await api.get('hits', 'hits', words)).columns ?? []
      this.draw()
    } catch {
      /* the list of the search says why */
    }
  }

  draw () {
    if (this.width < 1) return
    const { palette, info, store } = this.context
    const { context: g } = sized(this.canvas, this.width, HEIGHT)
    const colours = palette()
    g.fillStyle = colours.row
    g.fillRect(0, 0, this.width, HEIGHT)
    this.drawDensity(g, colours)
    this.drawFlags(g, colours)
    const { start, end } = info()
    const { from, to } = rangeOf(store.state, info())
    const x = (/** @type {number} */ time) => ((time - start) / Math.max(1, end - start)) * this.width
    g.fillStyle = colours.dark ? 'rgb(0 0 0 / 0.45)' : 'rgb(90 100 115 / 0.22)'
    g.fillRect(0, 0, x(from), HEIGHT)
    g.fillRect(x(to), 0, this.width - x(to), HEIGHT)
    g.strokeStyle = colours.accent
    g.lineWidth = 1.5
    g.strokeRect(Math.min(x(from), this.width - 3) + 0.75, 0.75, Math.max(2, x(to) - x(from) - 1.5), HEIGHT - 1.5)
  }

  /** @param {CanvasRenderingContext2D} g @param {import('./colours.js').Palette} colours */
  drawDensity (g, colours) {
    if (!this.answer) return
    const { calls, lost } = this.answer
    const wide = this.width / Math.max(1, calls.length)
    g.fillStyle = colours.dark ? '#4a6ea8' : '#9db8e6'
    bars(calls).forEach((tall, i) => {
      if (tall > 0) g.fillRect(i * wide, HEIGHT - 8 - tall * (HEIGHT - 22), Math.max(wide, 1), tall * (HEIGHT - 22))
    })
    g.fillStyle = colours.loss
    lost.forEach((part, i) => {
      if (part > 0) g.fillRect(i * wide, 0, Math.max(wide, 1), HEIGHT - 8)
    })
    g.fillStyle = colours.hit
    const each = this.width / Math.max(1, this.hits.length)
    this.hits.forEach((number, i) => {
      if (number > 0) g.fillRect(i * each, HEIGHT - 6, Math.max(each, 1.5), 5)
    })
  }

  /** Marks, windows and signals. @param {CanvasRenderingContext2D} g @param {import('./colours.js').Palette} colours */
  drawFlags (g, colours) {
    const { start, end, marks, windows, signals } = this.context.info()
    const x = (/** @type {number} */ time) => ((time - start) / Math.max(1, end - start)) * this.width
    g.fillStyle = colours.window
    for (const one of windows) g.fillRect(x(one.start), 0, Math.max(1.5, x(one.end) - x(one.start)), HEIGHT - 8)
    const flag = (/** @type {number} */ time, /** @type {string} */ colour, /** @type {number} */ size) => {
      const at = Math.min(this.width - 1.5, x(time))
      g.fillStyle = colour
      g.fillRect(at, 0, 1.5, HEIGHT - 8)
      g.beginPath()
      g.moveTo(at, 0)
      g.lineTo(at > this.width - size - 2 ? at - size : at + size, size / 2)
      g.lineTo(at, size)
      g.fill()
    }
    for (const one of marks) flag(one.time, colours.mark, 9)
    for (const one of signals) flag(one.time, colours.bad, isCrash(one) ? 14 : 7)
  }

  unmount () {
    clearTimeout(this.timer)
    this.context.api.cancel('map')
    this.context.api.cancel('hits')
  }
}
