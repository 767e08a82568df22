// SPDX-License-Identifier: Apache-2.0
// The page without a browser: painting, tiles, the state in the address, and the strength of its rules; the rest is in
// units_shown.mjs.
// units.mjs: exit status 0 when everything is as it should be.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { Api, cancelled, question } from '../../viewer/api.js'
import { Blocks, listed, placeOf } from '../../viewer/blocks.js'
import { Cells, COLUMNS, levelOf, tileSpan } from '../../viewer/cells.js'
import { COLOURS, LEVELS, palette } from '../../viewer/colours.js'
import { cellAt, firstAfter, fitted, paint, raster, STRIDE } from '../../viewer/paint.js'
import { DEFAULTS, parse, serialize, Store } from '../../viewer/store.js'
import { heightOf, layout, rangeOf, visible, within, zoomed } from '../../viewer/tracks.js'
import { HOSTILE, makeTrace, random } from './made_trace.mjs'
import { answer } from './mock.mjs'

const viewer = new URL('../../viewer/', import.meta.url)
const cell = (start, end, fn, share = 255, calls = 1, call = start) => [start, end, fn, share, calls, call]
const flat = (...cells) => Float64Array.from(cells.flat())
const same = fn => fn % COLOURS

// ---- painting ----

test('cells become spans of pixels, and what is wide enough gets a name', () => {
  const row = {
    y: 4,
    height: 17,
    pieces: [{ from: 0, to: 1000, cells: flat(cell(0, 500, 1), cell(500, 503, 2), cell(600, 1000, 3)) }]
  }
  const frame = paint([row], { from: 0, to: 1000, width: 100 }, same, 30)
  assert.deepEqual(frame.lines[0].spans, [0, 49, 1 * LEVELS + 7, 50, 51, 2 * LEVELS + 7, 60, 99, 3 * LEVELS + 7])
  assert.deepEqual(
    frame.labels.map(label => [label.x, label.width, label.fn]),
    [
      [0, 50, 1],
      [60, 40, 3]
    ]
  )
})

test('a call that two tiles tell is painted once, and merged cells end with their tile', () => {
  const long = cell(100, 900, 5)
  const pieces = [
    { from: 0, to: 500, cells: flat([100, 500, ...long.slice(2)]) },
    { from: 500, to: 1000, cells: flat(long, cell(900, 1200, 6, 128, 9, -1)) }
  ]
  const frame = paint([{ y: 0, height: 1, pieces }], { from: 0, to: 1000, width: 1000 }, same, 1e9)
  assert.deepEqual(frame.lines[0].spans, [100, 899, 5 * LEVELS + 7, 900, 999, 6 * LEVELS + 4])
})

test('a call that levels show is one span across tiles, unless another one begins there', () => {
  const spans = (/** @type {number[]} */ second) => {
    const pieces = [
      { from: 0, to: 500, cells: flat(cell(100, 500, 1, 255, 1, -1)) },
      { from: 500, to: 1000, cells: flat(second) }
    ]
    return paint([{ y: 0, height: 1, pieces }], { from: 0, to: 1000, width: 1000 }, same, 30).lines[0].spans.length / 3
  }
  assert.equal(spans(cell(500, 900, 1, 255, 0, -1)), 1)
  assert.equal(spans(cell(100, 900, 1, 255, 1, 77)), 1, 'the second tile knows the call, which began before')
  assert.equal(spans(cell(500, 900, 1, 255, 1, -1)), 2, 'a call begins')
  assert.equal(spans(cell(500, 900, 1, 255, 1, 500)), 2)
  assert.equal(spans(cell(510, 900, 1, 255, 0, -1)), 2)
  assert.equal(spans(cell(500, 900, 2, 255, 0, -1)), 2)
  assert.equal(spans(cell(500, 900, 1, 90, 0, -1)), 2)
})

test('spans never overlap, never leave the picture and are at most as many as pixels', () => {
  const next = random(7)
  for (let round = 0; round < 50; round++) {
    const cells = []
    for (let time = 0; time < 5000;) {
      const start = time + Math.floor(next() * 4)
      const end = start + Math.floor(next() * 12)
      cells.push(cell(start, end, Math.floor(next() * 9), Math.floor(next() * 256), 1, next() < 0.5 ? -1 : start))
      time = end
    }
    const view = {
      from: Math.floor(next() * 2000),
      to: 2100 + Math.floor(next() * 2000),
      width: 37 + Math.floor(next() * 300)
    }
    const {
      lines: [{ spans }]
    } = paint([{ y: 0, height: 1, pieces: [{ from: 0, to: 6000, cells: flat(...cells) }] }], view, same, 9)
    assert.ok(spans.length / 3 <= view.width)
    for (let i = 0, last = 0; i < spans.length; i += 3) {
      assert.ok(spans[i] >= last && spans[i + 1] > spans[i] && spans[i + 1] <= view.width)
      last = spans[i + 1]
    }
  }
})

test('cells that share pixels are not moved to the right of where they end', () => {
  const cells = Array.from({ length: 900 }, (_, i) => cell(i * 10, i * 10 + 3 + (i % 5), i % 9, 90, 1, -1))
  const [{ spans }] = paint(
    [{ y: 0, height: 1, pieces: [{ from: 0, to: 50000, cells: flat(...cells) }] }],
    { from: 0, to: 50000, width: 400 },
    same,
    9
  ).lines
  const ends = Math.ceil((9000 / 50000) * 400)
  assert.ok(spans[spans.length - 2] <= ends + 1, `${spans[spans.length - 2]} pixels instead of ${ends}`)
  for (let i = 0; i < spans.length; i += 3) assert.ok(spans[i + 1] > spans[i])
})

test('a call whose second half another level shows is one span', () => {
  const spans = (/** @type {number[]} */ rest) =>
    paint(
      [{ y: 0, height: 1, pieces: [{ from: 0, to: 1000, cells: flat([100, 500, 1, 255, 1, -1], rest) }] }],
      { from: 0, to: 1000, width: 1000 },
      same,
      30
    ).lines[0].spans.length / 3
  assert.equal(spans([500, 900, 1, 255, 0, 77]), 1)
  assert.equal(spans([500, 900, 1, 255, 1, 500]), 2, 'another call of the same function')
  assert.equal(spans([501, 900, 1, 255, 0, 77]), 2)
})

test('what the server says wrongly harms no pixel', () => {
  const wrong = [
    flat(cell(5, 1, 1), cell(-9, -3, 2)),
    flat([NaN, NaN, NaN, NaN, NaN, NaN]),
    flat(cell(0, 1e300, 99999)),
    Float64Array.from([1, 2, 3]),
    flat(cell(0, Infinity, -1, 999, -5))
  ]
  for (const cells of wrong) {
    const frame = paint(
      [{ y: -5, height: 9, pieces: [{ from: 0, to: 100, cells }] }],
      { from: 0, to: 100, width: 50 },
      same,
      5
    )
    const pixels = new Uint32Array(50 * 10)
    raster(frame, pixels, 50, 10, palette(false))
    assert.equal(pixels.length, 500)
  }
})

test('a row is drawn in each of its lines and nowhere else', () => {
  const colours = palette(true)
  const pixels = new Uint32Array(10 * 6)
  raster({ lines: [{ y: 2, height: 3, spans: [1, 4, 8, 6, 7, 9] }], labels: [] }, pixels, 10, 6, colours)
  for (let y = 0; y < 6; y++) {
    for (let x = 0; x < 10; x++) {
      const inside = y >= 2 && y < 5
      const expected =
        inside && x >= 1 && x < 4 ? colours.pixels[8] : inside && x === 6 ? colours.pixels[9] : colours.blank
      assert.equal(pixels[y * 10 + x], expected, `${x},${y}`)
    }
  }
})

test('cells are found by time, narrow ones with a tolerance', () => {
  const pieces = [{ from: 0, to: 100, cells: flat(cell(10, 20, 1), cell(50, 51, 2)) }]
  assert.equal(cellAt(pieces, 15)?.fn, 1)
  assert.equal(cellAt(pieces, 20)?.fn, undefined)
  assert.equal(cellAt(pieces, 48, 3)?.fn, 2)
  assert.equal(cellAt(pieces, 18, 40)?.fn, 1)
  assert.equal(firstAfter(pieces[0].cells, 20), 1)
  assert.equal(pieces[0].cells.length, 2 * STRIDE)
})

test('names are cut to fit', () => {
  assert.equal(fitted('parse_order', 100, 7), 'parse_order')
  assert.equal(fitted('parse_order', 40, 7), 'pars…')
  assert.equal(fitted('parse_order', 14, 7), '')
})

// ---- tiles ----

/** A server that answers what the mock would, and remembers what was asked. */
function asked (site = { trace: makeTrace({ threads: 2, depth: 5 }) }) {
  const questions = []
  const api = {
    get: async (_slot, path, words) => {
      questions.push(words)
      return answer(
        site,
        path,
        Object.fromEntries(Object.entries(words).map(([name, value]) => [name, String(value)]))
      )
    },
    cancel() {}
  }
  return {
    site,
    questions,
    cells: new Cells(
      /** @type {any} */ (api),
      0,
      () => {},
      error => {
        throw error
      }
    )
  }
}
const settle = () =>
  new Promise(resolve => {
    setTimeout(resolve, 5)
  })

test('tiles are asked for once, aligned, and bounded in number whatever the range', async () => {
  const { cells, questions } = asked()
  for (const [from, to] of [
    [0, 2e9],
    [1e9, 1e9 + 1000],
    [123456789, 987654321]
  ]) {
    questions.length = 0
    const level = levelOf(from, to, 1000)
    const parts = [
      { thread: 1, chunk: 0 },
      { thread: 2, chunk: 0 }
    ]
    cells.want(from, to, level, parts)
    await settle()
    cells.want(from, to, level, parts)
    assert.ok(questions.length >= 1 && questions.length <= 4)
    for (const words of questions) {
      assert.equal(words.from % tileSpan(level), 0)
      assert.equal(words.to - words.from, tileSpan(level))
      assert.equal(words.width, COLUMNS)
      assert.equal(words.threads, '1,2')
    }
  }
})

test('a tile that is not here is shown from a coarser or a finer one', async () => {
  const { cells } = asked()
  cells.want(0, 2e9, 21, [{ thread: 1, chunk: 0 }])
  await settle()
  const finer = cells.pieces({ level: 18, index: 2, chunk: 0, thread: 1 }, 0)
  assert.deepEqual([finer[0].from, finer[0].to], [2 * tileSpan(18), 3 * tileSpan(18)])
  assert.ok(finer[0].cells.length > 0)
  const coarser = cells.pieces({ level: 22, index: 0, chunk: 0, thread: 1 }, 0)
  assert.ok(coarser.length >= 1 && coarser[0].cells.length > 0)
  assert.deepEqual(cells.pieces({ level: 21, index: 0, chunk: 0, thread: 9 }, 0), [])
})

test('a trace that grows makes its last tiles stale, and only them', async () => {
  const { cells, questions } = asked()
  const parts = [{ thread: 1, chunk: 0 }]
  cells.grow(1e9)
  cells.want(0, 1e9, 18, parts)
  await settle()
  assert.equal(questions.length, 4)
  questions.length = 0
  cells.grow(1.2e9)
  cells.want(0, 1e9, 18, parts)
  await settle()
  assert.deepEqual(
    questions.map(words => words.from),
    [3 * tileSpan(18)]
  )
})

test('tiles that the server still prepares are asked for again, less and less often', () => {
  const { cells } = asked()
  const place = { level: 0, index: 0, chunk: 0, thread: 1 }
  const waits = []
  for (let i = 0; i < 10; i++) {
    cells.keep([place], { progress: 0.5, threads: [] }, 0)
    const tile = [...cells.tiles.values()][0]
    let wait = 0
    while (cells.fresh(place) && wait < 1e4) tile.asked = performance.now() - (wait += 100)
    waits.push(wait)
  }
  assert.ok(waits[0] <= 500 && waits[9] > 3000 && waits[9] < 4000, waits.join())
  assert.deepEqual(
    waits,
    [...waits].sort((a, b) => a - b)
  )
  cells.keep([place], { progress: 1, threads: [] }, 0)
  assert.ok(cells.fresh(place))
})

test('the tiles that are kept are bounded, and the newest stay', () => {
  const { cells } = asked()
  for (let index = 0; index < 40; index++) {
    const depths = [new Array(1e6).fill(0)]
    cells.keep([{ level: 0, index, chunk: 0, thread: 1 }], { progress: 1, threads: [{ thread: 1, depths }] }, 0)
  }
  assert.ok(cells.size <= 8e6 && cells.tiles.size >= 4, `${cells.size} in ${cells.tiles.size}`)
  assert.ok(cells.find({ level: 0, index: 39, chunk: 0, thread: 1 }))
  assert.equal(cells.find({ level: 0, index: 0, chunk: 0, thread: 1 }), undefined)
})

// ---- state ----

test('the address holds the state, and only what differs', () => {
  assert.equal(serialize({ ...DEFAULTS }), '')
  const state = { ...DEFAULTS, view: 'flame', from: 5, to: 9007199254740991, text: 'a&b=c#d', folded: '1,2' }
  assert.deepEqual(parse('#' + serialize(state)), state)
})

test('a wrong address does no harm', () => {
  assert.deepEqual(parse('#view=evil&from=9&to=3&__proto__=1&constructor=2&call=1e9&fn=<b>&top='), { ...DEFAULTS })
  assert.equal(parse('#sql=' + 'x'.repeat(1e5)).sql.length, 4000)
})

test('a step can be taken back, other changes replace the address', () => {
  const seen = []
  const store = new Store({
    hash: '',
    replace: hash => seen.push(['replace', hash]),
    push: hash => seen.push(['push', hash])
  })
  let told = 0
  const end = store.watch(() => {
    told++
  })
  store.set({ view: 'flame' }, { step: true })
  store.set({ view: 'flame' })
  store.read('#view=sql')
  end()
  store.set({ call: 1 }, { step: true })
  assert.equal(told, 2)
  assert.deepEqual(
    seen.filter(([kind]) => kind === 'push').map(([, hash]) => hash),
    ['view=flame', 'view=sql&call=1']
  )
})

// ---- questions ----

const reply = (text, status = 200) => new Response(text, { status })

test('an answer that is too large, cut or an error is refused with a sentence', async () => {
  const get = response => new Api(/** @type {any} */ (async () => response)).get('', 'info')
  await assert.rejects(get(reply('{"a":')), /cut/)
  await assert.rejects(get(reply('{"error":"There is no such trace."}', 404)), /no such trace/)
  await assert.rejects(get(reply('nothing', 500)), /500/)
  const endless = new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(1 << 20))
    }
  })
  await assert.rejects(get(new Response(endless)), /too large/)
})

test('a newer question of a slot cancels the older one, and few are on their way at once', async () => {
  let running = 0
  let most = 0
  const api = new Api(
    /** @type {any} */ (
      async (_address, { signal }) => {
        most = Math.max(most, ++running)
        await new Promise((resolve, reject) => {
          const timer = setTimeout(resolve, 5)
          signal.addEventListener('abort', () => {
            clearTimeout(timer)
            reject(signal.reason)
          })
        }).finally(() => {
          running--
        })
        return reply('{}')
      }
    )
  )
  const first = api.get('slot', 'a')
  const second = api.get('slot', 'b')
  await assert.rejects(first, cancelled)
  await second
  await Promise.all(Array.from({ length: 20 }, () => api.get('', 'c')))
  assert.ok(most <= 5, String(most))
  assert.equal(question('cells', { a: 1, b: undefined, c: 'x y&z' }), '/api/cells?a=1&c=x+y%26z')
})

// ---- where things are ----

const threads = [3, 1, 2].map(thread => ({
  thread,
  process: 1,
  tid: thread,
  name: '',
  start: thread,
  end: 9,
  calls: 1,
  events: 2,
  depth: thread * 10,
  lost: 0
}))

test('threads are below each other, and those in sight are found', () => {
  const tracks = layout(threads, '2')
  assert.deepEqual(
    tracks.map(track => track.thread.thread),
    [1, 2, 3]
  )
  assert.equal(tracks[1].rows, 1)
  for (let i = 1; i < tracks.length; i++) assert.ok(tracks[i].y > tracks[i - 1].y + tracks[i - 1].height)
  assert.deepEqual(visible(tracks, tracks[1].y, tracks[1].y + 1), [tracks[1]])
  assert.deepEqual(visible(tracks, heightOf(tracks) + 5, 1e9), [])
})

test('a range that the trace does not reach is the whole trace', () => {
  const info = { start: 0, end: 1000 }
  assert.deepEqual(rangeOf({ from: 100, to: 300 }, info), { from: 100, to: 300 })
  assert.deepEqual(rangeOf({ from: 1000, to: 3000 }, info), { from: 0, to: 1000 })
})

test('a zoom keeps the place under the pointer and ends at nanoseconds', () => {
  const info = { start: 0, end: 1e9 }
  let range = { from: 0, to: 1e9 }
  for (let i = 0; i < 200; i++) range = zoomed(range, 0.25, 0.8)
  assert.ok(Math.abs(range.from + (range.to - range.from) * 0.25 - 0.25e9) < 1)
  const last = within(range.from, range.to, info)
  assert.equal(last.to - last.from, 20)
  assert.deepEqual(within(-5, 3e9, info), { from: -1, to: -1 })
  assert.deepEqual(within(-500, 500, info), { from: 0, to: 1000 })
  assert.deepEqual(within(1e9, 1e9 + 1000, info), { from: 1e9 - 1000, to: 1e9 })
})

// ---- blocks ----

/** As much of a document as elements need that get text. */
class Element {
  constructor (tag) {
    Object.assign(this, { tag, children: [], attributes: {}, style: {}, listeners: {} })
  }

  append (...children) {
    this.children.push(...children)
  }

  replaceChildren () {
    this.children = []
  }

  setAttribute (name, value) {
    this.attributes[name] = value
  }

  addEventListener (name, action) {
    this.listeners[name] = action
  }

  all (tag) {
    const below = this.children.flatMap(child => (child instanceof Element ? child.all(tag) : []))
    return this.tag === tag ? [this, ...below] : below
  }

  get text () {
    return this.children.map(child => (child instanceof Element ? child.text : child)).join('')
  }
}

test('a chosen block shows its instructions, as text, beside how often it was entered', async () => {
  Object.assign(globalThis, { Node: Element, document: { createElement: tag => new Element(tag) } })
  const site = { trace: makeTrace() }
  const asked = []
  const store = new Store({ hash: '', replace () {}, push () {} })
  const api = {
    get: async (_slot, path, words) => {
      asked.push([path, words])
      return answer(site, path, words)
    }
  }
  const view = new Blocks({ api, store, info: () => ({ blocks: true }) })
  view.show(store.state)
  await new Promise(setImmediate)
  const { blocks } = answer(site, 'blocks', {})
  view.table.all('button')[1].listeners.click()
  assert.equal(store.state.address, placeOf(blocks[1]))
  view.show(store.state)
  await new Promise(setImmediate)
  const [path, words] = asked.at(-1)
  assert.equal(path, 'block')
  assert.deepEqual([words.process, words.module, words.address, words.size], [1, 2, blocks[1].address, 12])
  const rows = view.instructions.all('tr').map(row => row.children.map(child => child.text))
  assert.deepEqual(rows.slice(1), listed(answer(site, 'block', words)).map(row => row.map(text => text ?? '')))
  assert.equal(rows[1][0], '12,800')
  assert.deepEqual([rows[1][4], rows[2][4], rows[3][3]], ['shop.c:20', '', HOSTILE])
  assert.match(view.instructions.text, /<b>rest<\/b>/)
})

// ---- rules ----

test('no file of the page makes markup or code of texts', () => {
  const forbidden = new RegExp(
    'innerHTML|outerHTML|insertAdjacentHTML|document\\.write|eval\\(|new Function|srcdoc|' +
      'createContextualFragment|DOMParser'
  )
  for (const name of readdirSync(viewer)) {
    const text = readFileSync(new URL(name, viewer), 'utf8')
    assert.doesNotMatch(text, forbidden, name)
    assert.doesNotMatch(
      text.replaceAll('http://www.w3.org/2000/svg', ''),
      /https?:\/\//,
      `${name} names an address elsewhere`
    )
    assert.doesNotMatch(text, /\son[a-z]+="/, name)
  }
  assert.ok(HOSTILE.includes('<script>'))
})

test('the page asks for all of its modules at once, not for one after the other', () => {
  const page = readFileSync(new URL('index.html', viewer), 'utf8')
  const links = page.matchAll(/(?:modulepreload" href|script type="module" src)="\/app\/(.+?)"/g)
  const named = [...links].map(one => one[1])
  const modules = readdirSync(viewer).filter(name => name.endsWith('.js') && name !== 'types.js')
  assert.deepEqual(named.sort(), modules.sort())
})
