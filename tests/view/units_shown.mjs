// SPDX-License-Identifier: Apache-2.0
// The page without a browser: what is shown beside the timeline, as pictures and as words.
// units_shown.mjs: exit status 0 when everything is as it should be.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chartFor, filled, line, sparkPath } from '../../viewer/charts.js'
import { COLOURS, colourOf, LEVELS, palette, rgb } from '../../viewer/colours.js'
import { boxAt, boxes, neighbour } from '../../viewer/flames.js'
import { duration, moment, short, step, tick, traceLabel, whole } from '../../viewer/format.js'
import { bucketRange, cropped, heatAt, heatBoxes, steps } from '../../viewer/heat.js'
import { lossesTitle, momentsOf, near, shortened, unlisted } from '../../viewer/moments.js'

test('flame boxes are those in sight', () => {
  const rows = [
    [0, 0, 100, 1],
    [1, 0, 60, 2],
    [1, 60, 40, 3],
    [2, 60, 0.001, 4]
  ]
  const painted = boxes(rows, { from: 50, to: 100, width: 500, top: 0, height: 400 })
  assert.deepEqual(
    painted.map(box => [box.index, box.x, box.width]),
    [
      [0, 0, 500],
      [1, 0, 100],
      [2, 100, 400]
    ]
  )
  assert.equal(boxAt(painted, 50, 25)?.index, 1)
  assert.equal(boxAt(painted, 50, 399), null)
  assert.equal(neighbour(rows, 0, 'ArrowDown'), 1)
  assert.equal(neighbour(rows, 1, 'ArrowRight'), 2)
  assert.equal(neighbour(rows, 2, 'ArrowUp'), 0)
  assert.equal(neighbour(rows, 0, 'ArrowUp'), 0)
})

test('a heat map gives back the box that it painted', () => {
  const heat = {
    from: 0,
    to: 100,
    low: 0,
    high: 10,
    columns: [
      [0, 3, 0],
      [1, 0, 1000000]
    ]
  }
  const painted = heatBoxes(heat, 200, 90)
  assert.equal(painted.length, 3)
  for (const box of painted) {
    assert.deepEqual(heatAt(heat, (box.x + 1) / 200, (box.y + 1) / 90), {
      column: box.column,
      bucket: box.bucket,
      calls: box.calls
    })
    assert.ok(box.strength > 0.15 && box.strength <= 1)
  }
  assert.ok(bucketRange(heat, 2).to === 1024)
})

test('a heat map shows the durations that there are', () => {
  const column = counts => Object.assign(new Array(40).fill(0), counts)
  const heat = { from: 0, to: 9, low: 4, high: 44, columns: [column({ 9: 1 }), column({ 20: 2 })] }
  const part = cropped(heat)
  assert.deepEqual([part.first, part.low, part.high, part.columns[0].length], [8, 12, 26, 14])
  assert.equal(part.columns[1][20 - part.first], 2)
  const single = cropped({ ...heat, columns: [column({ 39: 1 })] })
  assert.deepEqual([single.first, single.columns[0].length], [32, 8])
  assert.deepEqual(cropped({ ...heat, columns: [column({})] }).low, 4)
})

test('charts suit their columns', () => {
  assert.equal(
    chartFor(
      ['name', 'calls'],
      [
        ['a', 1],
        ['b', 2]
      ]
    )?.kind,
    'bars'
  )
  assert.equal(
    chartFor(
      ['time', 'calls'],
      [
        [1, 1],
        [2, 2]
      ]
    )?.kind,
    'line'
  )
  assert.equal(chartFor(['name'], [['a'], ['b']]), null)
  assert.equal(chartFor(['name', 'calls'], [['a', 1]]), null)
  assert.deepEqual(line([0, 1], [0, 5], 10, 20), [
    { x: 0, y: 20 },
    { x: 10, y: 0 }
  ])
  assert.deepEqual(
    filled([
      [3, 2],
      [5, 1]
    ]),
    { low: 3, counts: [2, 0, 1] }
  )
  assert.equal(
    filled([
      [0, 1],
      [1e9, 1]
    ]).counts.length,
    65
  )
  assert.equal(sparkPath([], 9, 9), '')
  assert.match(sparkPath([0, 1], 10, 10), /^M5\.0 10v-10\.0h5\.0V10z$/)
})

test('numbers are as people read them', () => {
  assert.deepEqual([0, 7, 1234, 8e6, 1.5e9, 300e9].map(duration), [
    '0 ns',
    '7 ns',
    '1.23 µs',
    '8.00 ms',
    '1.50 s',
    '5 min 0 s'
  ])
  assert.equal(moment(1234567890), '1.234 567 890 s')
  assert.deepEqual([999, 12345, 12345678].map(short), ['999', '12 k', '12 M'])
  assert.deepEqual([1, 3, 70, 1e6].map(step), [1, 5, 100, 1e6])
  assert.equal(tick(1500000, 500000), '1,500 µs')
})

test('the axis of durations has round numbers, as many as there is room for', () => {
  const heat = { from: 0, to: 1, low: 10, high: 20, columns: [] }
  assert.deepEqual(steps(heat, 20).map(whole), [
    '2 µs',
    '5 µs',
    '10 µs',
    '20 µs',
    '50 µs',
    '100 µs',
    '200 µs',
    '500 µs',
    '1 ms'
  ])
  assert.deepEqual(steps(heat, 6).map(whole), ['3 µs', '10 µs', '30 µs', '100 µs', '300 µs', '1 ms'])
  assert.deepEqual(steps(heat, 3).map(whole), ['10 µs', '100 µs', '1 ms'])
  assert.ok(steps({ ...heat, low: 0, high: 64 }, 4).length <= 5)
})

test('flags are told by time, the shortest of those that are near first', () => {
  const info = {
    threads: [{ thread: 2, tid: 77, name: 'worker' }],
    marks: [{ time: 50, thread: 2, label: 'deploy' }],
    windows: [{ start: 20, end: 90, reason: 'crash' }],
    signals: [{ time: 52, thread: 2, signal: 'SIGSEGV' }],
    losses: [{ thread: 2, start: 10, end: 30, events: 1200, reason: 'full' }]
  }
  const all = momentsOf(/** @type {any} */ (info))
  assert.deepEqual(
    all.map(one => one.text),
    ['1,200 events lost in worker 77: full', 'window of detail, 70 ns: crash', 'mark deploy', 'SIGSEGV']
  )
  assert.deepEqual(
    near(all, 51, 1).map(one => one.text.slice(0, 7)),
    ['mark de', 'SIGSEGV', 'window ']
  )
  assert.deepEqual(near(all, 95, 3), [])
  const many = Array.from({ length: 50 }, (_, i) => ({ thread: 2, start: 99 - i, end: 100, events: i, reason: '' }))
  const lists = shortened(momentsOf(/** @type {any} */ ({ ...info, losses: many })))
  assert.equal(lists.others.length, 3)
  assert.deepEqual(
    lists.losses.map(one => one.lost),
    [49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38]
  )
  const title = (/** @type {any} */ one, /** @type {number} */ listed) => lossesTitle(one, listed)
  assert.equal(title({ losses: many, cut: false }, 50), 'Losses')
  assert.equal(title({ losses: many, cut: false }, 12), 'The largest of 50 losses')
  assert.equal(title({ losses: many, cut: true }, 12), 'The largest of the first 50 losses') // there may be larger ones
  assert.equal(unlisted(/** @type {any} */ ({ cut: false })), '')
  assert.match(unlisted(/** @type {any} */ ({ cut: true })), /more threads, marks, windows, signals or losses/)
})

test('traces are named by their program and time, with more where these are equal', () => {
  const trace = (name, program, path = name) => ({ trace: 0, live: false, name, program, path })
  const [first, second, third] = [
    trace('session_20250102_030405', 'redis-server'),
    trace('session_20250103_030405', 'redis-server'),
    trace('session_20250102_030405', 'lua5.4')
  ]
  assert.equal(traceLabel(first, [first, third]), 'redis-server 03:04:05')
  assert.equal(traceLabel(first, [first, second]), 'redis-server 20250102_030405')
  const twin = { ...first, path: 'elsewhere' }
  assert.equal(traceLabel(twin, [first, twin]), 'elsewhere')
  assert.equal(traceLabel(trace('before', 'x'), []), 'before')
  assert.equal(traceLabel(undefined, []), '')
})

test('a chart shows what the rows are sorted by, never numbers that are names', () => {
  const columns = ['id', 'function', 'start', 'duration']
  const rows = [
    [9, 'a', 5, 30],
    [4, 'b', 8, 20],
    [7, 'c', 1, 10]
  ]
  assert.deepEqual(chartFor(columns, rows), { kind: 'bars', label: 1, values: [3] })
  assert.deepEqual(chartFor(columns, rows, 'start'), { kind: 'bars', label: 1, values: [2] })
  assert.equal(chartFor(columns, rows, 'none'), null)
  assert.equal(chartFor(['id', 'function'], [[1, 'a'], [2, 'b']]), null)
})

test('colours are those of the name, and text is readable on each', () => {
  assert.equal(colourOf('a', 'm'), colourOf('a', 'm'))
  assert.ok(colourOf('x'.repeat(1e6), '') < COLOURS)
  assert.deepEqual(rgb(1, 0, 0), [255, 255, 255])
  const light = value =>
    [0, 8, 16]
      .map(shift => ((value >>> shift) & 255) / 255)
      .map(part => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0)
  for (const dark of [false, true]) {
    const { pixels, onCell } = palette(dark)
    const [, r, g, b] = /^#(..)(..)(..)$/.exec(onCell) ?? []
    const text = light(parseInt(b + g + r, 16))
    for (let colour = 0; colour < COLOURS; colour++) {
      const cell = light(pixels[colour * LEVELS + LEVELS - 1])
      const contrast = (Math.max(text, cell) + 0.05) / (Math.min(text, cell) + 0.05)
      assert.ok(contrast >= 4.5, `colour ${colour}: ${contrast}`)
    }
  }
})
