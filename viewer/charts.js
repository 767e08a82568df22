// SPDX-License-Identifier: Apache-2.0
// Small pictures beside numbers, as SVG: they are sharp, and follow the colours of the page.
import { svg } from './dom.js'

/** The path of a sparkline. @param {number[]} numbers @param {number} width @param {number} height */
export function sparkPath (numbers, width, height) {
  const most = numbers.reduce((a, b) => Math.max(a, b), 0)
  if (!most || numbers.length < 1) return ''
  const wide = width / numbers.length
  return numbers
    .map((number, i) => {
      if (!(number > 0)) return ''
      const tall = Math.max(1, (number / most) * height)
      return `M${(i * wide).toFixed(1)} ${height}v${(-tall).toFixed(1)}h${wide.toFixed(1)}V${height}z`
    })
    .join('')
}

/** @param {number[]} numbers @param {string} label */
export function spark (numbers, label) {
  const picture = svg('svg', {
    class: 'spark',
    viewBox: '0 0 96 18',
    width: 96,
    height: 18,
    role: 'img',
    'aria-label': label
  })
  picture.append(svg('path', { d: sparkPath(numbers, 96, 18) }))
  return picture
}

/** Buckets of powers of two, the missing ones with nothing. @param {[number, number][]} histogram */
export function filled (histogram) {
  if (!histogram.length) return { low: 0, counts: [] }
  const low = Math.min(...histogram.map(one => one[0]))
  const high = Math.min(Math.max(...histogram.map(one => one[0])), low + 64)
  const counts = new Array(high - low + 1).fill(0)
  for (const [bucket, calls] of histogram) if (bucket <= high) counts[bucket - low] += calls
  return { low, counts }
}

/** @typedef {{kind: string, label: number, values: number[]}} Chart columns of the label and of the numbers */

/** Columns whose numbers are names. */
const NAMES = /(^|_)(id|tid|pid|thread|process|call|parent|line|address)$/

/** Of some columns of numbers, the one that the rows are sorted by; else the first that counts or measures.
 * @param {string[]} columns @param {unknown[][]} rows @param {number[]} values */
function mostTelling (columns, rows, values) {
  const measures = values.filter(i => !NAMES.test(columns[i]))
  const sorted = measures.find(i => {
    const falls = rows.every((row, at) => !at || Number(row[i]) <= Number(rows[at - 1][i]))
    return falls && Number(rows[0][i]) > Number(rows[rows.length - 1][i])
  })
  return sorted ?? measures[0]
}

/** The chart that suits rows: bars for names, a line for numbers; null: none. @param {string[]} columns
 * @param {unknown[][]} rows @param {string} [wanted] the column that is shown; 'none': no chart
 * @returns {Chart | null} */
export function chartFor (columns, rows, wanted = '') {
  if (rows.length < 2 || wanted === 'none') return null
  const numeric = columns.map(
    (_, i) =>
      rows.every(row => row[i] === null || typeof row[i] === 'number') && rows.some(row => typeof row[i] === 'number')
  )
  const values = columns.flatMap((_, i) => (numeric[i] ? [i] : []))
  const label = numeric.indexOf(false)
  const chosen = values.includes(columns.indexOf(wanted)) ? columns.indexOf(wanted) : -1
  const bar = chosen >= 0 ? chosen : mostTelling(columns, rows, values)
  if (label >= 0) return bar === undefined ? null : { kind: 'bars', label, values: [bar] }
  if (values.length < 2) return null
  const lines = chosen > values[0] ? [chosen] : values.slice(1, 4)
  return { kind: 'line', label: values[0], values: lines }
}

/** Points of a line in a box. @param {number[]} xs @param {number[]} ys @param {number} width @param {number} height */
export function line (xs, ys, width, height) {
  const low = (/** @type {number[]} */ list) => list.reduce((a, b) => Math.min(a, b), Infinity)
  const high = (/** @type {number[]} */ list) => list.reduce((a, b) => Math.max(a, b), -Infinity)
  const [x0, x1, y1] = [low(xs), high(xs), high(ys)]
  const y0 = Math.min(0, low(ys))
  const at = (/** @type {number} */ value, /** @type {number} */ a, /** @type {number} */ b) =>
    b > a ? (value - a) / (b - a) : 0.5
  return xs.map((x, i) => ({ x: at(x, x0, x1) * width, y: height - at(ys[i], y0, y1) * height }))
}
