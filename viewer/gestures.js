// SPDX-License-Identifier: Apache-2.0
// What hands do on the timeline: drag, pinch, wheel, click, hover, and keys that are held. It knows no trace; it tells
// its target in parts of the width.

/**
 * @typedef {object} Target
 * @property {(at: number, factor: number) => void} zoom around a place, 0 to 1
 * @property {(part: number, pixels: number) => void} pan by a part of the width, and by pixels downwards
 * @property {(a: number, b: number, done: boolean) => void} select between two places
 * @property {(x: number, y: number) => void} hover in pixels; -1: nowhere
 * @property {(x: number, y: number, twice: boolean) => void} click
 * @property {() => boolean} scrolls whether there is more than the height shows
 */

const SLACK = 4 // pixels that a hand moves while it clicks

export class Gestures {
  /** @param {HTMLElement} place @param {Target} target @param {boolean} selects dragging selects, as on the ruler */
  constructor (place, target, selects) {
    this.place = place
    this.target = target
    this.selects = selects
    /** @type {Map<number, {x: number, y: number}>} */
    this.down = new Map()
    this.mode = ''
    this.start = { x: 0, y: 0 }
    for (const name of ['pointerdown', 'pointermove', 'pointerup', 'pointercancel', 'pointerleave']) {
      place.addEventListener(name, event => this.pointer(/** @type {PointerEvent} */ (event)))
    }
    place.addEventListener('wheel', event => this.wheel(event), { passive: false })
    place.addEventListener('dblclick', event => {
      const { x, y } = this.where(event)
      target.click(x, y, true)
    })
  }

  /** @param {MouseEvent} event */
  where (event) {
    const box = this.place.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top, width: Math.max(1, box.width) }
  }

  /** @param {PointerEvent} event */
  pointer (event) {
    const here = this.where(event)
    if (event.type === 'pointerdown') this.begin(event, here)
    else if (event.type === 'pointermove') this.move(event, here)
    else if (event.type === 'pointerleave') this.target.hover(-1, -1)
    else this.finish(event, here)
  }

  /** @param {PointerEvent} event @param {{x: number, y: number, width: number}} here */
  begin (event, here) {
    if (event.button > 1) return
    this.place.setPointerCapture(event.pointerId)
    this.down.set(event.pointerId, here)
    if (this.down.size > 1) {
      this.mode = 'pinch'
      return
    }
    this.start = here
    this.mode = this.selects || event.shiftKey ? 'wait select' : 'wait pan'
  }

  /** @param {PointerEvent} event @param {{x: number, y: number, width: number}} here */
  move (event, here) {
    const before = this.down.get(event.pointerId)
    if (!before) {
      this.target.hover(here.x, here.y)
      return
    }
    if (this.mode.startsWith('wait') && Math.hypot(here.x - this.start.x, here.y - this.start.y) > SLACK) {
      this.mode = this.mode.slice(5)
      this.target.hover(-1, -1)
    }
    if (this.mode === 'pinch') this.pinch(event.pointerId, before, here)
    if (this.mode === 'pan') this.target.pan((before.x - here.x) / here.width, before.y - here.y)
    if (this.mode === 'select') this.target.select(this.start.x / here.width, here.x / here.width, false)
    if (!this.mode.startsWith('wait')) this.down.set(event.pointerId, here)
  }

  /** @param {number} pointer @param {{x: number, y: number}} before @param {{x: number, y: number, width: number}}
   * here */
  pinch (pointer, before, here) {
    const other = [...this.down].find(([id]) => id !== pointer)?.[1]
    if (!other) return
    const was = Math.max(20, Math.abs(before.x - other.x))
    const is = Math.max(20, Math.abs(here.x - other.x))
    this.target.zoom((here.x + other.x) / 2 / here.width, was / is)
    this.target.pan((before.x - here.x) / 2 / here.width, (before.y - here.y) / 2)
  }

  /** @param {PointerEvent} event @param {{x: number, y: number, width: number}} here */
  finish (event, here) {
    if (!this.down.delete(event.pointerId)) return
    if (event.type === 'pointerup' && this.mode === 'wait pan') this.target.click(here.x, here.y, false)
    if (this.mode === 'select') this.target.select(this.start.x / here.width, here.x / here.width, true)
    this.mode = this.down.size ? 'pinched' : ''
  }

  /** @param {WheelEvent} event */
  wheel (event) {
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1
    const { x, width } = this.where(event)
    const dx = (event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX) * unit
    const dy = event.deltaY * unit
    if (
      event.ctrlKey ||
      event.metaKey ||
      (!event.shiftKey && Math.abs(dy) >= Math.abs(dx) && !this.target.scrolls())
    ) {
      const turn = Math.max(-240, Math.min(240, dy))
      this.target.zoom(x / width, Math.exp(turn * (event.ctrlKey ? 0.005 : 0.002)))
    } else if (Math.abs(dx) > Math.abs(dy) || event.shiftKey) this.target.pan(dx / width, 0)
    else return // the page scrolls
    event.preventDefault()
  }
}

/** Keys that move for as long as they are held: parts of the width, or of its zoom, in a second. */
const SPEEDS = /** @type {Record<string, [zoom: number, pan: number]>} */ ({
  w: [-2.4, 0],
  s: [2.4, 0],
  a: [0, -0.9],
  d: [0, 0.9]
})

export class Held {
  /** @param {(zoom: number, pan: number) => void} move */
  constructor (move) {
    this.move = move
    /** @type {Set<string>} */
    this.keys = new Set()
    this.last = 0
    this.release = this.release.bind(this)
    this.blur = () => this.keys.clear()
    window.addEventListener('keyup', this.release)
    window.addEventListener('blur', this.blur)
  }

  /** @param {string} key */
  press (key) {
    if (!(key in SPEEDS)) return false
    if (this.keys.has(key)) return true
    this.keys.add(key)
    this.step(key, 0.06) // a short press moves as well
    if (this.keys.size === 1) {
      this.last = performance.now()
      requestAnimationFrame(now => this.frame(now))
    }
    return true
  }

  /** @param {KeyboardEvent} event */
  release (event) {
    this.keys.delete(event.key.toLowerCase())
  }

  /** @param {string} key @param {number} seconds */
  step (key, seconds) {
    const [zoom, pan] = SPEEDS[key]
    this.move(Math.exp(zoom * seconds), pan * seconds)
  }

  /** @param {number} now */
  frame (now) {
    if (!this.keys.size) return
    const seconds = Math.min(0.05, Math.max(0, (now - this.last) / 1000))
    this.last = now
    for (const key of this.keys) this.step(key, seconds)
    requestAnimationFrame(next => this.frame(next))
  }

  end () {
    this.keys.clear()
    window.removeEventListener('keyup', this.release)
    window.removeEventListener('blur', this.blur)
  }
}
