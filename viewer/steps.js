// SPDX-License-Identifier: Apache-2.0
// From call to call in the timeline: which one a place or an arrow key selects.
import { levelOf } from './cells.js'
import { cancelled } from './api.js'
import { cellAt, STRIDE } from './paint.js'
import { visible } from './tracks.js'

export class Steps {
  /** @param {import('./timeline.js').Timeline} timeline */
  constructor (timeline) {
    this.timeline = timeline
  }

  /** Selects the call of a cell, or the one that is open in it at a time. @param {number} thread @param {number} depth
   * @param {import('./paint.js').Cell} cell @param {number} time */
  async choose (thread, depth, cell, time) {
    if (cell.call >= 0) this.timeline.context.store.set({ call: cell.call }, { step: true })
    else await this.pick(thread, Math.round(Math.min(Math.max(time, cell.start), cell.end - 1)), depth)
  }

  /** Selects the call that is open in a thread at a time. @param {number} thread @param {number} time
   * @param {number} depth */
  async pick (thread, time, depth) {
    const { api, store } = this.timeline.context
    try {
      const call = await api.get('at', 'at', { trace: store.state.trace, thread, time, depth })
      if (call?.id >= 0) store.set({ call: call.id }, { step: true })
    } catch (error) {
      if (!cancelled(error)) this.timeline.context.say(String(/** @type {Error} */ (error).message))
    }
  }

  /** From call to call: up and down by depth, left and right in a row. @param {string} key */
  async walk (key) {
    const { call } = this.timeline
    const { from, to } = this.timeline.range()
    if (!call) {
      const first = visible(this.timeline.tracks, this.timeline.top, this.timeline.top + this.timeline.height)[0]
      const { thread } = first?.thread ?? { thread: -1 }
      const pieces = this.timeline.pieces(thread, 0, levelOf(from, to, this.timeline.canvas.width), { from, to })
      const cell = cellAt(pieces, (from + to) / 2, (to - from) / 2)
      if (cell) await this.choose(thread, 0, cell, (from + to) / 2)
      return
    }
    const end = call.start + call.duration
    if (key === 'ArrowUp' && call.callers?.length) this.timeline.context.store.set({ call: call.callers[0].id })
    if (key === 'ArrowDown') await this.nearest(call.thread, call.depth + 1, call.start, 1, end)
    if (key === 'ArrowRight') await this.nearest(call.thread, call.depth, end, 1)
    if (key === 'ArrowLeft') await this.nearest(call.thread, call.depth, call.start - 1, -1)
  }

  /** Selects the next call of a row in a direction, as far as the picture knows. @param {number} thread
   * @param {number} depth @param {number} time @param {number} way @param {number} [limit] */
  async nearest (thread, depth, time, way, limit = Infinity) {
    const { from, to } = this.timeline.range()
    const level = levelOf(from, to, this.timeline.canvas.width)
    let best = null
    for (const { cells } of this.timeline.pieces(thread, depth, level, { from, to })) {
      for (let i = 0; i < cells.length; i += STRIDE) {
        const start = cells[i]
        const later = start >= time && start < limit && (!best || start < best.start)
        const earlier = start <= time && (!best || start > best.start)
        if (way > 0 ? later : earlier) best = { start, call: cells[i + 5] }
      }
    }
    if (!best) this.timeline.context.say('There is no further call in sight.')
    else if (best.call >= 0) this.timeline.context.store.set({ call: best.call })
    else await this.pick(thread, best.start, depth)
  }
}
