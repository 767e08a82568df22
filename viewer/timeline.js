// SPDX-License-Identifier: Apache-2.0
// The timeline: the map, the ruler, and the calls of every thread by depth. A frame costs what is in sight.
import { Cells, CHUNK, levelOf, tileSpan } from './cells.js'
import { cancelled } from './api.js'
import { colourOf } from './colours.js'
import { button, el, fill, sized } from './dom.js'
import { Flight } from './flight.js'
import { duration, short } from './format.js'
import { Gestures, Held } from './gestures.js'
import { Gutter } from './gutter.js'
import { momentsOf, near } from './moments.js'
import { Overview } from './overview.js'
import { drawFrame, drawLabels, drawLosses, drawMoments, drawRuler, drawSelection } from './overlay.js'
import { cellAt, paint, raster } from './paint.js'
import { Steps } from './steps.js'
import { differs } from './store.js'
import { Tip } from './tip.js'
import { heightOf, layout, rangeOf, ROW, visible, zoomed } from './tracks.js'

const RULER = 30
const NAMED = 30 // CSS pixels from which on a call is named
const ASK_EVERY = 50 // milliseconds
const REACH = 5 // pixels beside a flag that belong to it
const TALLEST = 8e6 // pixels that a browser can scroll

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
    this.steps = new Steps(this)
    this.flight = new Flight(context, () => this.range())
    this.spacer = el('div', { class: 'spacer' }, el('div', { class: 'sticky' }, this.gutter.root, this.canvas))
    this.scroller = el('div', { class: 'scroller' }, this.spacer)
    this.head = el('div', { class: 'head' })
    this.reading = el('span', {
      class: 'reading',
      hidden: true,
      title: 'Wide pictures are being prepared: until then they show some places, and the rest is empty'
    })
    this.overview = new Overview(context, part => {
      this.reading.hidden = part >= 1
      this.reading.textContent = `preparing: ${Math.floor(part * 100)} %`
    })
    const foldAll = button('', () => this.gutter.foldAll(), { class: 'link' })
    this.foldAll = foldAll
    this.root = el(
      'section',
      { class: 'timeline', 'aria-label': 'Timeline' },
      el('div', { class: 'band' }, this.head, this.overview.canvas),
      el('div', { class: 'band' }, el('div', { class: 'head span' }, foldAll), this.ruler),
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
    this.frame = this.lastAsked = 0
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
    const flags = (/** @type {number} */ x, /** @type {number} */ y) => this.tellFlags(this.ruler, x, y, this.range())
    this.gestures = [
      new Gestures(this.canvas, target, false),
      new Gestures(this.ruler, { ...target, hover: flags }, true)
    ]
    this.overview.canvas.addEventListener('pointermove', event =>
      this.tellFlags(this.overview.canvas, event.offsetX, event.offsetY, this.context.info())
    )
    this.overview.canvas.addEventListener('pointerleave', () => this.tellFlags(this.overview.canvas, -1, -1))
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
    this.flight.end()
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
        el('span', {}, `${short(this.context.info().calls)} calls`),
        this.reading
      )
      this.foldAll.hidden = threads.length < 2
      this.foldAll.textContent = this.tracks.every(one => one.folded) ? '▸ unfold all' : '▾ fold all'
    }
    if (before?.top !== state.top && Math.abs(this.scroller.scrollTop - state.top) > 1)
      this.scroller.scrollTop = state.top
    if (differs(state, before, 'call')) this.select(state.call, before !== null)
    this.overview.show(state, before)
    this.dirty()
  }

  resize () {
    const head = this.gutter.root.getBoundingClientRect().width
    this.width = Math.max(50, Math.floor(this.scroller.clientWidth - head))
    this.overview.resize(this.width)
    sized(this.ruler, this.width, RULER) // the rows have what map and ruler leave
    this.height = Math.max(50, Math.floor(this.scroller.getBoundingClientRect().height))
    this.gutter.root.style.height = `${this.height}px`
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
    const put = (/** @type {{from: number, to: number}} */ range) => this.flight.go(range.from, range.to)
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

  /** What the flags under the pointer stand for. @param {HTMLElement} canvas @param {number} x -1: nowhere
   * @param {number} y @param {{start?: number, end?: number, from?: number, to?: number}} [range] of the canvas */
  tellFlags (canvas, x, y, { start = 0, end = 0, from = start, to = end } = {}) {
    const pixel = (to - from) / Math.max(1, this.width)
    const found = x < 0 ? [] : near(momentsOf(this.context.info()), from + x * pixel, REACH * pixel)
    this.tip.tell(found, { x, y }, canvas, this.root)
  }

  /** @param {number} zoom @param {number} pan */
  move (zoom, pan) {
    const range = zoom === 1 ? this.range() : zoomed(this.range(), this.centre(), zoom)
    const by = (range.to - range.from) * pan
    this.flight.go(range.from + by, range.to + by)
  }

  /** Where keys zoom: at the pointer, or in the middle. */
  centre () {
    return this.pointer ? Math.min(1, Math.max(0, this.pointer.x / Math.max(1, this.width))) : 0.5
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
    await this.steps.choose(found.track.thread.thread, found.depth, found.cell, found.time)
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
      this.flight.fly(call.start - margin, call.start + call.duration + margin)
      this.reveal(call)
    } else if (state.a >= 0) this.flight.fly(state.a, state.b)
    else this.flight.fly(info().start, info().end)
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
      this.flight.fly(call.start + call.duration / 2 - half, call.start + call.duration / 2 + half)
    }
  }

  /** @param {KeyboardEvent} event */
  key (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    if (this.held?.press(key)) return true
    if (key === 'f') this.fit()
    else if (key === 'm') this.measure()
    else if (key.startsWith('Arrow') && document.activeElement === this.canvas) this.steps.walk(key)
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
}
