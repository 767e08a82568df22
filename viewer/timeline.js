// SPDX-License-Identifier: Apache-2.0
// The timeline: the map, the ruler, and the calls of every thread by depth. A frame costs what is in sight.
import { Cells, CHUNK, levelOf, tileSpan } from './cells.js'
import { cancelled } from './api.js'
import { colourOf } from './colours.js'
import { el, fill, sized } from './dom.js'
import { duration, short } from './format.js'
import { Gestures, Held } from './gestures.js'
import { Gutter } from './gutter.js'
import { Overview } from './overview.js'
import { drawFrame, drawLabels, drawLosses, drawMoments, drawRuler, drawSelection } from './overlay.js'
import { cellAt, paint, raster, STRIDE } from './paint.js'
import { differs } from './store.js'
import { Tip } from './tip.js'
import { heightOf, layout, rangeOf, ROW, visible, within, zoomed } from './tracks.js'

const RULER = 30
const NAMED = 30 // CSS pixels from which on a call is named
const ASK_EVERY = 50 // milliseconds
const TALLEST = 8e6 // pixels that a browser can scroll
const FLIGHT = 160 // milliseconds from one sight to the next

/** @typedef {import('./types.js').Context} Context */
/** @typedef {import('./tracks.js').Track} Track */

export class Timeline {
  /** @param {Context} context */
  constructor (context) {
    this.context = context
    this.canvas = el('canvas', {
      class: 'cells',
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'timeline',
      'aria-label':
        'Calls of threads by time. Arrow keys go from call to call; w and s zoom, a and d move, question mark for help.'
    })
    this.ruler = el('canvas', { class: 'ruler', role: 'img', 'aria-label': 'Ruler: drag to select a range of time' })
    this.gutter = new Gutter(context)
    this.tip = new Tip(context)
    this.spacer = el('div', { class: 'spacer' }, el('div', { class: 'sticky' }, this.gutter.root, this.canvas))
    this.scroller = el('div', { class: 'scroller' }, this.spacer)
    this.head = el('div', { class: 'head' })
    this.overview = new Overview(context)
    this.root = el(
      'section',
      { class: 'timeline', 'aria-label': 'Timeline' },
      el('div', { class: 'band' }, this.head, this.overview.canvas),
      el('div', { class: 'band' }, el('div', { class: 'head span', 'aria-hidden': 'true' }), this.ruler),
      this.scroller,
      this.tip.root
    )
    /** @type {Track[]} */
    this.tracks = []
    this.pixels = new Uint32Array(0)
    /** @type {ImageData | null} */
    this.image = null
    this.width = this.height = 0
    /** @type {{x: number, y: number} | null} */
    this.pointer = null
    /** @type {import('./types.js').Call | null} */
    this.call = null
    /** @type {Map<number, number>} */
    this.colours = new Map()
    this.frame = this.flight = this.lastAsked = 0
    this.later = /** @type {any} */ (0)
    this.known = ''
    /** @type {import('./store.js').State | null} */
    this.shown = null
  }

  /** @param {HTMLElement} place */
  mount (place) {
    const { api, store } = this.context
    place.append(this.root)
    this.cells = new Cells(
      api,
      store.state.trace,
      answer => this.arrived(answer),
      error => {
        if (!cancelled(error)) fill(this.head, String(/** @type {Error} */ (error).message))
      }
    )
    this.held = new Held((zoom, pan) => this.move(zoom, pan))
    const target = this.target()
    this.gestures = [new Gestures(this.canvas, target, false), new Gestures(this.ruler, target, true)]
    this.scroller.addEventListener('scroll', () => {
      store.set({ top: Math.round(this.scroller.scrollTop) })
      this.dirty()
    })
    this.observer = new ResizeObserver(() => this.resize())
    this.observer.observe(this.scroller)
  }

  unmount () {
    this.observer?.disconnect()
    this.held?.end()
    this.overview.unmount()
    cancelAnimationFrame(this.frame)
    cancelAnimationFrame(this.flight)
    clearTimeout(this.later)
    this.cells?.want(0, 0, 0, [])
    this.root.remove()
  }

  // ---- what changes ----

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    const { threads, end } = this.context.info()
    const known = `${state.folded}/${threads.length}/${end}/${threads.reduce((sum, one) => sum + one.depth, 0)}`
    if (known !== this.known) {
      this.known = known
      this.tracks = layout(threads, state.folded)
      this.spacer.style.height = `${Math.min(TALLEST, heightOf(this.tracks) + 4)}px`
      this.cells?.grow(end)
      this.overview.ask()
      this.head.replaceChildren(
        el('strong', {}, duration(end - this.context.info().start)),
        el('span', {}, `${short(this.context.info().calls)} calls`)
      )
    }
    if (before?.top !== state.top && Math.abs(this.scroller.scrollTop - state.top) > 1)
      this.scroller.scrollTop = state.top
    if (differs(state, before, 'call')) this.select(state.call, before !== null)
    this.overview.show(state, before)
    this.dirty()
  }

  resize () {
    const box = this.scroller.getBoundingClientRect()
    const head = this.gutter.root.getBoundingClientRect().width
    this.width = Math.max(50, Math.floor(this.scroller.clientWidth - head))
    this.height = Math.max(50, Math.floor(box.height))
    this.gutter.root.style.height = `${this.height}px`
    this.overview.resize(this.width)
    this.dirty()
  }

  /** @param {number} id @param {boolean} reveal */
  async select (id, reveal) {
    this.call = null
    if (id < 0) return
    try {
      const call = await this.context.call(id)
      if (this.context.store.state.call !== id) return
      this.call = call
      if (reveal) this.reveal(call)
      this.dirty()
    } catch {
      /* the details say why */
    }
  }

  /** @param {import('./types.js').CellsAnswer} answer */
  arrived (answer) {
    for (const [id, name] of Object.entries(answer.functions)) this.context.names.set(Number(id), name)
    this.dirty()
  }

  dirty () {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0
        this.draw()
      })
    }
  }

  // ---- painting ----

  range () {
    return rangeOf(this.context.store.state, this.context.info())
  }

  get top () {
    return this.scroller.scrollTop
  }

  /** @param {number} fn */
  colour (fn) {
    let colour = this.colours.get(fn)
    if (colour === undefined) {
      const name = this.context.names.get(fn)
      if (!name) return 0
      colour = colourOf(name[0], name[2])
      this.colours.set(fn, colour)
    }
    return colour
  }

  /** The cells of a row between two times. @param {number} thread @param {number} depth @param {number} level
   * @param {{from: number, to: number}} range */
  pieces (thread, depth, level, { from, to }) {
    const span = tileSpan(level)
    const chunk = Math.floor(depth / CHUNK)
    /** @type {import('./paint.js').Piece[]} */
    const pieces = []
    for (let index = Math.max(0, Math.floor(from / span)); index * span < to; index++) {
      pieces.push(...(this.cells?.pieces({ level, index, chunk, thread }, depth) ?? []))
    }
    return pieces
  }

  /** The rows in sight, in pixels of the canvas, and the parts of threads that they need. @param {Track[]} tracks
   * @param {number} level @param {{from: number, to: number}} range @param {number} scale */
  rows (tracks, level, range, scale) {
    const rows = []
    const parts = []
    for (const track of tracks) {
      const first = Math.max(0, Math.floor((this.top - track.y) / ROW))
      const last = Math.min(track.rows - 1, Math.floor((this.top + this.height - track.y) / ROW))
      const thread = track.thread.thread
      for (let chunk = Math.floor(first / CHUNK); chunk <= Math.floor(last / CHUNK); chunk++)
        parts.push({ thread, chunk })
      for (let depth = first; depth <= last; depth++) {
        const pieces = this.pieces(thread, depth, level, range)
        const y = Math.round((track.y + depth * ROW - this.top) * scale)
        rows.push({ y, height: Math.round((ROW - 1) * scale), pieces })
      }
    }
    return { rows, parts }
  }

  draw () {
    if (this.width < 1 || !this.cells) return
    const {
      palette,
      store: { state },
      info
    } = this.context
    const { context: g, scale, w, h } = sized(this.canvas, this.width, this.height)
    const colours = palette()
    const range = this.range()
    const level = levelOf(range.from, range.to, w)
    const tracks = visible(this.tracks, this.top, this.top + this.height)
    const { rows, parts } = this.rows(tracks, level, range, scale)
    if (!this.image || this.image.width !== w || this.image.height !== h) {
      this.image = new ImageData(w, h)
      this.pixels = new Uint32Array(this.image.data.buffer)
    }
    const frame = paint(rows, { ...range, width: w }, fn => this.colour(fn), NAMED * scale)
    raster(frame, this.pixels, w, h, colours)
    g.putImageData(this.image, 0, 0)
    g.setTransform(1, 0, 0, 1, 0, 0)
    const sight = { ...range, width: w, height: h, scale }
    drawLabels(g, frame.labels, fn => this.context.names.get(fn)?.[1] ?? '', colours.onCell, scale)
    drawLosses(g, sight, info().losses, this.places(tracks, scale), colours.loss)
    drawMoments(g, sight, info(), colours)
    drawSelection(g, sight, state.a, state.b, colours)
    this.drawCalls(g, sight, colours)
    const ruler = sized(this.ruler, this.width, RULER)
    drawRuler(ruler.context, { ...range, width: this.width, height: RULER }, info(), state, colours)
    this.gutter.show(tracks, this.top, `${this.known}/${this.height}`)
    this.ask(range, level, parts)
  }

  /** @param {Track[]} tracks @param {number} scale */
  places (tracks, scale) {
    return new Map(
      tracks.map(track => [
        track.thread.thread,
        { y: Math.round((track.y - this.top) * scale), height: Math.round(track.rows * ROW * scale) }
      ])
    )
  }

  /** The frames around the selected call and the one under the pointer. @param {CanvasRenderingContext2D} g
   * @param {import('./overlay.js').Sight} sight @param {import('./colours.js').Palette} colours */
  drawCalls (g, sight, colours) {
    const put = (
      /** @type {number} */ thread,
      /** @type {number} */ depth,
      /** @type {{start: number, end: number}} */ call,
      /** @type {number} */ thick
    ) => {
      const track = this.tracks.find(one => one.thread.thread === thread)
      if (!track || depth >= track.rows) return
      const y = Math.round((track.y + depth * ROW - this.top) * sight.scale)
      drawFrame(g, sight, call, { y, height: Math.round((ROW - 1) * sight.scale) }, colours.accent, thick)
    }
    const { call } = this
    if (call) put(call.thread, call.depth, { start: call.start, end: call.start + call.duration }, 2)
    const found = this.pointer && this.under(this.pointer.x, this.pointer.y)
    if (found?.cell) put(found.track.thread.thread, found.depth, found.cell, 1)
    this.tip.show(found?.cell, this.pointer, this.canvas, this.root)
  }

  /** Asks for what is missing, not at every frame. @param {{from: number, to: number}} range @param {number} level
   * @param {{thread: number, chunk: number}[]} parts */
  ask (range, level, parts) {
    clearTimeout(this.later)
    const wait = ASK_EVERY - (performance.now() - this.lastAsked)
    const go = () => {
      this.lastAsked = performance.now()
      this.cells?.want(range.from, range.to, level, parts)
      if (this.cells?.waiting(range.from, range.to, level, parts)) this.later = setTimeout(() => this.dirty(), 400)
    }
    if (wait <= 0) go()
    else this.later = setTimeout(go, wait)
  }

  // ---- hands ----

  /** @returns {import('./gestures.js').Target} */
  target () {
    const { store } = this.context
    const put = (/** @type {{from: number, to: number}} */ range) => this.go(range.from, range.to)
    return {
      zoom: (at, factor) => put(zoomed(this.range(), at, factor)),
      pan: (part, pixels) => {
        const { from, to } = this.range()
        if (pixels) this.scroller.scrollTop += pixels
        if (part) put({ from: from + (to - from) * part, to: to + (to - from) * part })
      },
      select: (a, b) => {
        const { from, to } = this.range()
        const [low, high] = [Math.min(a, b), Math.max(a, b)].map(
          at => from + (to - from) * Math.min(1, Math.max(0, at))
        )
        if (high - low >= 1) store.set({ a: Math.floor(low), b: Math.ceil(high) })
      },
      hover: (x, y) => {
        this.pointer = x < 0 ? null : { x, y }
        this.dirty()
      },
      click: (x, y, twice) => this.click(x, y, twice),
      scrolls: () => heightOf(this.tracks) > this.height + 4
    }
  }

  /** @param {number} from @param {number} to */
  go (from, to) {
    cancelAnimationFrame(this.flight)
    this.context.store.set({ ...within(from, to, this.context.info()), follow: 0 })
  }

  /** @param {number} zoom @param {number} pan */
  move (zoom, pan) {
    const range = zoom === 1 ? this.range() : zoomed(this.range(), this.centre(), zoom)
    const by = (range.to - range.from) * pan
    this.go(range.from + by, range.to + by)
  }

  /** Where keys zoom: at the pointer, or in the middle. */
  centre () {
    return this.pointer ? Math.min(1, Math.max(0, this.pointer.x / Math.max(1, this.width))) : 0.5
  }

  /** Goes to another sight in a few frames. @param {number} from @param {number} to */
  fly (from, to) {
    const aim = within(from, to, this.context.info())
    const goal = rangeOf(aim, this.context.info())
    const begin = this.range()
    const start = performance.now()
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches
    const frame = (/** @type {number} */ now) => {
      const part = still ? 1 : Math.min(1, (now - start) / FLIGHT)
      const eased = 1 - (1 - part) ** 3
      if (part >= 1) {
        this.context.store.set({ ...aim, follow: 0 })
        return
      }
      const at = (/** @type {number} */ a, /** @type {number} */ b) => a + (b - a) * eased
      this.context.store.set({
        ...within(at(begin.from, goal.from), at(begin.to, goal.to), this.context.info()),
        follow: 0
      })
      this.flight = requestAnimationFrame(frame)
    }
    cancelAnimationFrame(this.flight)
    this.flight = requestAnimationFrame(frame)
  }

  /** What is at a place of the canvas. @param {number} x @param {number} y */
  under (x, y) {
    const height = y + this.top
    const track = this.tracks.length ? visible(this.tracks, height, height + 1)[0] : undefined
    if (!track || height < track.y) return null
    const depth = Math.floor((height - track.y) / ROW)
    if (depth < 0 || depth >= track.rows) return null
    const { from, to } = this.range()
    const time = from + ((to - from) * x) / this.width
    const level = levelOf(from, to, this.canvas.width)
    const pieces = this.pieces(track.thread.thread, depth, level, { from, to })
    const cell = cellAt(pieces, time, ((to - from) / this.width) * 2)
    return { track, depth, time, cell }
  }

  /** @param {number} x @param {number} y @param {boolean} twice */
  async click (x, y, twice) {
    this.canvas.focus({ preventScroll: true })
    const found = this.under(x, y)
    if (twice) {
      this.fit()
      return
    }
    if (!found?.cell) {
      this.context.store.set({ call: -1 })
      return
    }
    await this.choose(found.track.thread.thread, found.depth, found.cell, found.time)
  }

  /** Selects the call of a cell, or the one that is open in it at a time. @param {number} thread @param {number} depth
   * @param {import('./paint.js').Cell} cell @param {number} time */
  async choose (thread, depth, cell, time) {
    if (cell.call >= 0) this.context.store.set({ call: cell.call }, { step: true })
    else await this.pick(thread, Math.round(Math.min(Math.max(time, cell.start), cell.end - 1)), depth)
  }

  /** Selects the call that is open in a thread at a time. @param {number} thread @param {number} time
   * @param {number} depth */
  async pick (thread, time, depth) {
    const { api, store } = this.context
    try {
      const call = await api.get('at', 'at', { trace: store.state.trace, thread, time, depth })
      if (call?.id >= 0) store.set({ call: call.id }, { step: true })
    } catch (error) {
      if (!cancelled(error)) this.context.say(String(/** @type {Error} */ (error).message))
    }
  }

  // ---- keys ----

  /** Shows the selected call, or the range, or everything. */
  fit () {
    const {
      store: { state },
      info
    } = this.context
    const { call } = this
    if (call) {
      const margin = Math.max(4, call.duration * 0.15)
      this.fly(call.start - margin, call.start + call.duration + margin)
      this.reveal(call)
    } else if (state.a >= 0) this.fly(state.a, state.b)
    else this.fly(info().start, info().end)
  }

  /** Scrolls to a call's row, and to its time when that is not in sight. @param {import('./types.js').Call} call */
  reveal (call) {
    const track = this.tracks.find(one => one.thread.thread === call.thread)
    if (!track) return
    if (track.folded) this.gutter.fold(call.thread)
    const y = track.y + call.depth * ROW
    if (y < this.top || y + ROW > this.top + this.height) this.scroller.scrollTop = y - this.height / 2
    const { from, to } = this.range()
    const end = call.start + call.duration
    if (end < from || call.start > to) {
      const half = Math.max((to - from) / 2, call.duration)
      this.fly(call.start + call.duration / 2 - half, call.start + call.duration / 2 + half)
    }
  }

  /** @param {KeyboardEvent} event */
  key (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    if (this.held?.press(key)) return true
    if (key === 'f') this.fit()
    else if (key === 'm') this.measure()
    else if (key.startsWith('Arrow') && document.activeElement === this.canvas) this.walk(key)
    else return false
    return true
  }

  /** The selected call, or what is in sight, becomes the selected range; again: none. */
  measure () {
    const { store } = this.context
    const range = this.call ? { a: this.call.start, b: this.call.start + Math.max(1, this.call.duration) } : null
    const { from, to } = this.range()
    const aim = range ?? { a: from, b: to }
    const same = store.state.a === aim.a && store.state.b === aim.b
    store.set(same ? { a: -1, b: -1 } : aim)
    this.context.say(same ? 'No range is selected.' : `The range is ${duration(aim.b - aim.a)} long.`)
  }

  /** From call to call: up and down by depth, left and right in a row. @param {string} key */
  async walk (key) {
    const { call } = this
    const { from, to } = this.range()
    if (!call) {
      const first = visible(this.tracks, this.top, this.top + this.height)[0]
      const { thread } = first?.thread ?? { thread: -1 }
      const pieces = this.pieces(thread, 0, levelOf(from, to, this.canvas.width), { from, to })
      const cell = cellAt(pieces, (from + to) / 2, (to - from) / 2)
      if (cell) await this.choose(thread, 0, cell, (from + to) / 2)
      return
    }
    const end = call.start + call.duration
    if (key === 'ArrowUp' && call.callers?.length) this.context.store.set({ call: call.callers[0].id })
    if (key === 'ArrowDown') await this.nearest(call.thread, call.depth + 1, call.start, 1, end)
    if (key === 'ArrowRight') await this.nearest(call.thread, call.depth, end, 1)
    if (key === 'ArrowLeft') await this.nearest(call.thread, call.depth, call.start - 1, -1)
  }

  /** Selects the next call of a row in a direction, as far as the picture knows. @param {number} thread
   * @param {number} depth @param {number} time @param {number} way @param {number} [limit] */
  async nearest (thread, depth, time, way, limit = Infinity) {
    const { from, to } = this.range()
    const level = levelOf(from, to, this.canvas.width)
    let best = null
    for (const { cells } of this.pieces(thread, depth, level, { from, to })) {
      for (let i = 0; i < cells.length; i += STRIDE) {
        const start = cells[i]
        const later = start >= time && start < limit && (!best || start < best.start)
        const earlier = start <= time && (!best || start > best.start)
        if (way > 0 ? later : earlier) best = { start, call: cells[i + 5] }
      }
    }
    if (!best) this.context.say('There is no further call in sight.')
    else if (best.call >= 0) this.context.store.set({ call: best.call })
    else await this.pick(thread, best.start, depth)
  }
}
