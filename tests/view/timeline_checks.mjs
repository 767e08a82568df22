// SPDX-License-Identifier: Apache-2.0
// The timeline in the browser: clicks, keys, search.
import assert from 'node:assert/strict'
import { Served } from './drive.mjs'
import { start as startMock } from './mock.mjs'
import { browser, contrail, query, replayed, some, traces } from './site.mjs'

/** @type {Record<string, () => Promise<void>>} */
export const checks = {}

/** Clicks calls where they are painted; the details must be those of replay. */
async function clickCalls (trace, count) {
  const served = await Served.start(contrail, trace)
  const sight = await browser.page()
  const { threads } = await served.ask('info')
  await sight.open(served.address)
  for (const call of some(replayed(trace), count)) {
    const { thread } = threads.find(one => one.tid === call.tid)
    const margin = Math.max(30, call.duration)
    const folded = threads
      .map(one => one.thread)
      .filter(one => one !== thread)
      .join()
    const from = Math.max(0, call.start - margin)
    await sight.go(`from=${from}&to=${call.start + call.duration + margin}&folded=${folded}`)
    const { x, y } = await sight.placeOf(thread, call.depth, call.start, call.duration)
    await sight.page.mouse.click(x, y)
    await sight.page.waitForSelector('.details .function')
    await sight.settled()
    const { call: id } = await sight.state()
    const told = await served.ask(`call?id=${id}`)
    assert.deepEqual([told.name, told.start, told.depth, told.thread], [call.name, call.start, call.depth, thread])
    assert.ok((await sight.text('.details .function')).includes(call.name.slice(0, 60)))
    const [row] = query(trace, `SELECT duration FROM calls WHERE id = ${id}`)
    assert.equal(told.duration, row.duration)
  }
  await sight.done(trace)
  await served.close()
}

checks.clicks_on_a_recording = () => clickCalls(traces.tour, 7)
checks.clicks_on_a_golden_trace = () => clickCalls(traces.whole, 5)

checks.moves_and_selects = async () => {
  const served = await Served.start(contrail, traces.tour)
  const sight = await browser.page()
  await sight.open(served.address)
  const { page } = sight
  const whole = await sight.range()
  const span = async () => {
    const { from, to } = await sight.range()
    return to - from
  }
  await page.click('h1')
  await sight.press('w', 'w', 'w')
  const near = await span()
  assert.ok(near < whole.to - whole.from)
  const before = await sight.range()
  await sight.press('d')
  assert.ok((await sight.range()).from > before.from)
  await sight.press('a', 'a')
  assert.ok((await sight.range()).from < before.from)
  await sight.press('s')
  assert.ok((await span()) > near)
  const box = await sight.box('canvas.cells')
  await page.mouse.move(box.x + box.width / 2, box.y + 100)
  await page.keyboard.down('Control')
  for (let i = 0; i < 90; i++) await page.mouse.wheel({ deltaY: -400 })
  await page.keyboard.up('Control')
  assert.equal(await span(), 20, 'to the nanosecond')
  await sight.press('f')
  await sight.painted()
  assert.equal((await sight.state()).from, undefined, 'f shows everything')
  await drag(sight, 'canvas.map', 0.2, 0.6)
  assert.ok(Math.abs((await span()) - (whole.to - whole.from) * 0.4) < (whole.to - whole.from) * 0.02)
  const shown = await sight.range()
  await drag(sight, 'canvas.cells', 0.5, 0.25)
  assert.ok((await sight.range()).from > shown.from, 'dragging moves')
  await selects(sight, served)
  await sight.done('moves')
  await served.close()
}

async function drag (sight, selector, a, b) {
  const { mouse } = sight.page
  const box = await sight.box(selector)
  const y = box.y + Math.min(20, box.height / 2)
  await mouse.move(box.x + box.width * a, y)
  await mouse.down()
  await mouse.move(box.x + (box.width * (a + b)) / 2, y, { steps: 4 })
  await mouse.move(box.x + box.width * b, y, { steps: 4 })
  await mouse.up()
  await sight.settled()
}

/** A range of time: what it was made of; back and forth; nothing. */
async function selects (sight, served) {
  await sight.go('')
  await drag(sight, 'canvas.ruler', 0.1, 0.7)
  await sight.until('.details', 'What it was made of')
  const { a, b } = await sight.state()
  const answer = await served.ask(`select?from=${a}&to=${b}`)
  assert.ok((await sight.text('.details .made tbody tr')).includes(answer.functions[0].name))
  await sight.page.select('.details select[aria-label=Thread]', '1')
  await sight.settled()
  assert.equal((await sight.state()).thread, '1')
  const [own] = (await served.ask(`select?from=${a}&to=${b}&thread=1`)).functions
  assert.ok((await sight.text('.details .made tbody tr')).includes(own.name))
  await sight.press('Escape')
  assert.equal((await sight.state()).a, undefined)
  await sight.press('m')
  assert.notEqual((await sight.state()).a, undefined)
  await sight.press('m', '2')
  assert.equal((await sight.state()).view, 'flame')
  await sight.page.goBack()
  await sight.settled()
  assert.equal((await sight.state()).view, undefined)
}

checks.searches = async () => {
  const served = await Served.start(contrail, traces.tour)
  const sight = await browser.page()
  await sight.open(served.address)
  await sight.press('/')
  await sight.page.keyboard.type('new_word')
  await sight.until('#found', 'new_word')
  await sight.press('Enter')
  await sight.until('.details', 'new_word')
  assert.match(await sight.text('.details'), /source\s+\S*tour\.c:\d+/)
  const starts = query(traces.tour, "SELECT start FROM calls WHERE function = 'new_word' ORDER BY start LIMIT 3")
  const shown = async () => (await served.ask(`call?id=${(await sight.state()).call}`)).start
  assert.equal(await shown(), starts[0].start)
  for (const [key, expected] of [
    ['n', 1],
    ['n', 2],
    ['N', 1]
  ]) {
    await sight.press(key)
    await sight.settled()
    assert.equal(await shown(), starts[expected].start)
  }
  const address = sight.page.url()
  await served.close()
  await sight.done('search')
  const again = await Served.start(contrail, traces.tour) // the address means the same to another server
  const other = await browser.page()
  await other.open(again.address, new URL(address).hash.slice(1))
  await other.until('.chosen', 'new_word')
  await other.done('search again')
  await again.close()
}

checks.flags_are_told = async () => {
  const served = await Served.start(contrail, traces.crash)
  const sight = await browser.page()
  await sight.open(served.address)
  const { signals, end, windows } = await served.ask('info')
  const map = await sight.box('canvas.map')
  await sight.page.mouse.move(map.x + (signals[0].time / end) * map.width, map.y + 20)
  await sight.until('.tip', 'SIGSEGV')
  await sight.until('.tip', 'window of detail')
  await sight.page.mouse.move(map.x + map.width / 4, map.y + 20)
  await sight.page.waitForSelector('.tip[hidden]')
  const ruler = await sight.box('canvas.ruler')
  await sight.page.mouse.move(ruler.x + (signals[0].time / end) * ruler.width, ruler.y + 10)
  await sight.until('.tip', 'SIGSEGV')
  assert.equal((await sight.texts('.moments li')).length, signals.length + windows.length)
  await sight.page.focus('.moments .bad')
  await sight.press('Enter')
  const { from, to } = await sight.range()
  assert.ok(from < signals[0].time && signals[0].time < to && to - from < end / 2, 'without a mouse too')
  await sight.done('flags')
  await served.close()
}

checks.the_header_is_one_row = async () => {
  const served = await Served.start(contrail, traces.tour)
  const sight = await browser.page()
  const { functions } = await served.ask('search?text=_&limit=200')
  const [long] = functions.sort((a, b) => b.name.length - a.name.length)
  await sight.open(served.address, `fn=${long.function}&name=${long.name}`)
  await sight.page.waitForSelector('.chosen')
  const { height } = await sight.box('header')
  assert.ok(height < 50, `${height} pixels`)
  await sight.done('header')
  await served.close()
}

checks.keyboard_alone = async () => {
  const served = await Served.start(contrail, traces.tour)
  const sight = await browser.page()
  await sight.open(served.address)
  const focused = () =>
    sight.page.evaluate(() => {
      const element = document.activeElement
      const { outlineStyle, outlineWidth } = getComputedStyle(element)
      return { name: element.className || element.tagName, outline: `${outlineStyle} ${outlineWidth}` }
    })
  const seen = new Set()
  for (let i = 0; i < 40 && !seen.has('cells'); i++) {
    await sight.press('Tab')
    const { name, outline } = await focused()
    seen.add(name)
    assert.match(outline, /^(solid|auto) [1-9]/, `${name} shows that it has the focus`)
  }
  assert.ok(seen.has('cells'), [...seen].join())
  await sight.press('ArrowRight')
  await sight.page.waitForSelector('.details .function')
  await sight.settled()
  const call = async () => await served.ask(`call?id=${(await sight.state()).call}`)
  const first = await call()
  await sight.press('ArrowLeft')
  await sight.settled()
  assert.ok((await call()).start < first.start)
  await sight.press('ArrowRight')
  await sight.settled()
  assert.ok((await call()).start > 0)
  await sight.press('ArrowDown')
  await sight.settled()
  const inner = await call()
  await sight.press('ArrowUp')
  await sight.settled()
  assert.equal((await call()).id, inner.parent)
  assert.notEqual(await sight.text('.spoken[role=status]'), '')
  await sight.press('?')
  await sight.page.waitForSelector('dialog[open]')
  await sight.accessible('help')
  await sight.press('Escape', 't')
  assert.equal(await sight.page.evaluate(() => document.documentElement.dataset.theme), 'dark')
  await sight.done('keyboard')
  await served.close()
}

checks.stays_where_it_is_while_calls_are_counted = async () => {
  const mock = await startMock({ counted: false })
  const sight = await browser.page()
  await sight.open(mock.url, 'from=400000000&to=600000000')
  await sight.page.waitForResponse(answer => answer.url().includes('/api/info'))
  mock.site.counted = true
  await sight.settled()
  assert.deepEqual(await sight.range(), { from: 400000000, to: 600000000 })
  await sight.done('counting')
  mock.close()
}
