// SPDX-License-Identifier: Apache-2.0
// Painting heat maps: from counts per column and bucket to pixels. Nothing here knows a browser.

/** @typedef {{from: number, to: number, low: number, high: number, columns: number[][]}} Heat */

const SHOWN = 8 // buckets at least

/** The part of a heat map that has calls, with a bucket around them; `first`: the first bucket of it.
 * @param {Heat} heat @returns {Heat & {first: number}} */
export function cropped (heat) {
  const buckets = Math.max(0, ...heat.columns.map(column => column.length))
  const used = [...Array(buckets).keys()].filter(bucket => heat.columns.some(column => column[bucket] > 0))
  if (!used.length || !(heat.high - heat.low === buckets)) return { ...heat, first: 0 }
  let [first, end] = [Math.max(0, used[0] - 1), Math.min(buckets, used[used.length - 1] + 2)]
  end = Math.min(buckets, Math.max(end, first + SHOWN))
  first = Math.max(0, Math.min(first, end - SHOWN))
  const columns = heat.columns.map(column => column.slice(first, end))
  return { ...heat, first, low: heat.low + first, high: heat.low + end, columns }
}

/** Durations for the axis: powers of ten, with twice and five times of them where there is room, and fewer where there
 * is little. @param {Heat} heat @param {number} most */
export function steps ({ low, high }, most) {
  const powers = []
  for (let power = Math.floor(low * Math.log10(2)); 10 ** power <= 2 ** high; power++) powers.push(power)
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    const all = powers.flatMap(power => factors.map(factor => factor * 10 ** power))
    const seen = all.filter(ns => ns >= 1 && ns >= 2 ** low && ns <= 2 ** high)
    if (seen.length <= most) return seen
  }
  const every = Math.ceil(powers.length / Math.max(1, most))
  return powers.map(power => 10 ** power).filter((ns, i) => i % every === 0 && ns >= 2 ** low && ns <= 2 ** high)
}

/** How strongly a count is painted, 0 to 1: a single call is seen beside a million. @param {number} calls
 * @param {number} most */
export const strength = (calls, most) =>
  calls <= 0 ? 0 : 0.18 + (0.82 * Math.log1p(calls)) / Math.log1p(Math.max(1, most))

/** @param {Heat} heat */
export const busiest = heat => heat.columns.reduce((most, column) => column.reduce((a, b) => Math.max(a, b), most), 0)

/** The boxes of a heat map: column, bucket, calls, strength; short durations at the bottom. @param {Heat} heat
 * @param {number} width @param {number} height */
export function heatBoxes (heat, width, height) {
  const most = busiest(heat)
  const wide = width / Math.max(1, heat.columns.length)
  const buckets = Math.max(1, ...heat.columns.map(column => column.length))
  const tall = height / buckets
  const found = []
  for (const [column, counts] of heat.columns.entries()) {
    for (const [bucket, calls] of counts.entries()) {
      if (!(calls > 0)) continue
      found.push({
        x: column * wide,
        y: height - (bucket + 1) * tall,
        width: wide,
        height: tall,
        column,
        bucket,
        calls,
        strength: strength(calls, most)
      })
    }
  }
  return found
}

/** The column and bucket at a place, 0 to 1 of the width and height. @param {Heat} heat @param {number} x @param
 * {number} y */
export function heatAt (heat, x, y) {
  const buckets = Math.max(1, ...heat.columns.map(one => one.length))
  const column = Math.min(heat.columns.length - 1, Math.max(0, Math.floor(x * heat.columns.length)))
  const bucket = Math.min(buckets - 1, Math.max(0, Math.floor((1 - y) * buckets)))
  return { column, bucket, calls: heat.columns[column]?.[bucket] ?? 0 }
}

/** The shortest and longest duration of a bucket. @param {Heat} heat @param {number} bucket */
export function bucketRange (heat, bucket) {
  const buckets = Math.max(1, ...heat.columns.map(one => one.length))
  const part = (heat.high - heat.low) / buckets
  return { from: 2 ** (heat.low + bucket * part), to: 2 ** (heat.low + (bucket + 1) * part) }
}
