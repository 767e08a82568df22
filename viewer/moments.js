// SPDX-License-Identifier: Apache-2.0
// What flags and shades of the timeline stand for, in words: marks, windows of detail, signals, lost events.
import { duration, plural } from './format.js'

const MOST_LOSSES = 12 // in a list

/** @typedef {{time: number, end: number, thread: number, bad: boolean, text: string, lost?: number}} Moment thread: -1,
 * of all */

/** The moments of a trace, by time. @param {import('./types.js').Info} info @returns {Moment[]} */
export function momentsOf (info) {
  const whose = (/** @type {number} */ thread) => {
    const found = info.threads.find(one => one.thread === thread)
    return found ? ` in ${found.name || 'thread'} ${found.tid}` : ''
  }
  return [
    ...info.marks.map(one => ({
      time: one.time,
      end: one.time,
      thread: -1,
      bad: false,
      text: `mark ${one.label || one.reason || ''}`.trim()
    })),
    ...info.windows.map(one => ({
      time: one.start,
      end: one.end,
      thread: -1,
      bad: false,
      text: `window of detail, ${duration(one.end - one.start)}${one.reason ? `: ${one.reason}` : ''}`
    })),
    ...info.signals.map(one => ({
      time: one.time,
      end: one.time,
      thread: one.thread,
      bad: true,
      text: one.text || one.signal
    })),
    ...info.losses.map(one => ({
      time: one.start,
      end: one.end,
      thread: one.thread,
      bad: true,
      lost: one.events,
      text: `${plural(one.events, 'event')} lost${whose(one.thread)}${one.reason ? `: ${one.reason}` : ''}`
    }))
  ].sort((a, b) => a.time - b.time || a.end - b.end)
}

/** Those at a time, or as near as `tolerance`; the shortest first. @param {Moment[]} moments @param {number} time
 * @param {number} tolerance */
export const near = (moments, time, tolerance) =>
  moments
    .filter(one => one.time - tolerance <= time && time <= one.end + tolerance)
    .sort((a, b) => a.end - a.time - (b.end - b.time))

/** The moments as a list: of losses, which may be many, the largest, by time. @param {Moment[]} moments */
export function shortened (moments) {
  const losses = moments.filter(one => one.lost !== undefined)
  const largest = new Set([...losses].sort((a, b) => (b.lost ?? 0) - (a.lost ?? 0)).slice(0, MOST_LOSSES))
  return { others: moments.filter(one => one.lost === undefined), losses: losses.filter(one => largest.has(one)) }
}

/** The heading of a list of so many losses. The server names a bounded number of them: `cut`, if it has more of
 * something. @param {import('./types.js').Info} info @param {number} listed */
export function lossesTitle ({ losses, cut }, listed) {
  if (losses.length <= listed) return 'Losses'
  return `The largest of ${cut ? 'the first ' : ''}${plural(losses.length, 'loss', 'losses')}`
}

/** What the page says when the server's lists have an end. @param {import('./types.js').Info} info */
export const unlisted = ({ cut }) =>
  cut ? 'There are more threads, marks, windows, signals or losses than the page lists. SQL has all.' : ''
