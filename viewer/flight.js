// SPDX-License-Identifier: Apache-2.0
// From one sight of the timeline to another, at once or in a few frames.
import { rangeOf, within } from './tracks.js'

const DURATION = 160 // milliseconds

export class Flight {
  /** @param {import('./types.js').Context} context @param {() => {from: number, to: number}} range what is in sight */
  constructor (context, range) {
    this.context = context
    this.range = range
    this.frame = 0
  }

  end () {
    cancelAnimationFrame(this.frame)
  }

  /** @param {number} from @param {number} to */
  go (from, to) {
    this.end()
    this.context.store.set({ ...within(from, to, this.context.info()), follow: 0 })
  }

  /** Goes to another sight in a few frames. @param {number} from @param {number} to */
  fly (from, to) {
    const aim = within(from, to, this.context.info())
    const goal = rangeOf(aim, this.context.info())
    const begin = this.range()
    const start = performance.now()
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches
    const frame = (/** @type {number} */ now) => {
      const part = still ? 1 : Math.min(1, (now - start) / DURATION)
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
      this.frame = requestAnimationFrame(frame)
    }
    this.end()
    this.frame = requestAnimationFrame(frame)
  }
}
