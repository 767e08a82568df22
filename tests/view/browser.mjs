// SPDX-License-Identifier: Apache-2.0
// The page of `contrail view` in a browser: every view on golden and freshly recorded traces. What a click selects is
// compared with what `contrail replay --json` and `contrail query --json` say of the same trace.
//
// browser.mjs MODULES CONTRAIL TRACES WORK STEADY [NAME...]: MODULES is where npm has installed the driver; TRACES has
// golden traces (make_trace); WORK has new recordings: tour, crash; STEADY is a program that runs until it is killed.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Browser, running, Served } from './drive.mjs'
import { HOSTILE } from './made_trace.mjs'
import { start as startMock } from './mock.mjs'

const [modules, contrail, golden, work, steady, ...names] = process.argv.slice(2)
const session = folder =>
  join(
    folder,
    readdirSync(folder).find(name => name.startsWith('session_'))
  )
const traces = {
  whole: session(join(golden, 'whole')),
  code: session(join(golden, 'code')),
  tour: session(join(work, 'tour')),
  crash: session(join(work, 'crash'))
}
const run = (...words) =>
  execFileSync(contrail, words, { maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'ignore'] }).toString()
const query = (trace, sql) => JSON.parse(run('query', '--json', '--allow-damaged', trace, sql))
const VIEWS = ['timeline', 'flame', 'functions', 'latency', 'compare', 'crash', 'blocks', 'sql']

/** The calls that `contrail replay` shows: times since the trace begins. */
function replayed (trace) {
  const lines = JSON.parse(run('replay', '--json', '--allow-damaged', trace))
  const [{ start }] = query(trace, 'SELECT min(start) AS start FROM calls')
  const first = Math.min(...lines.map(line => line.time_ns)) - start
  const open = new Map()
  const calls = []
  for (const line of lines) {
    const at = { tid: line.tid, depth: line.indent, start: line.time_ns - first, name: line.function }
    const place = `${line.tid}/${line.indent}`
    if (line.kind === 'call') calls.push({ ...at, duration: line.duration_ns })
    if (line.kind === 'open') open.set(place, at)
    if (line.kind === 'close' && open.has(place)) {
      calls.push({ ...open.get(place), duration: line.duration_ns })
      open.delete(place)
    }
  }
  return calls.filter(call => call.duration > 0)
}

/** Some of a list, from all over it. */
const some = (list, count) =>
  list.filter((_, i) => i % Math.max(1, Math.floor(list.length / count)) === 0).slice(0, count)

const checks = {}
let browser

// ---- the timeline ----

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

// ---- other views ----

checks.tables_are_those_of_query = async () => {
  const served = await Served.start(contrail, traces.tour)
  const sight = await browser.page()
  await sight.open(served.address, 'view=functions')
  const rows = query(traces.tour, 'SELECT function, calls FROM functions ORDER BY self DESC LIMIT 12')
  const cells = await sight.page.$$eval('.functions tbody tr', lines =>
    lines.map(line => [line.cells[0].innerText.trim(), line.cells[2].innerText])
  )
  assert.deepEqual(
    cells.slice(0, 12),
    rows.map(row => [row.function, row.calls.toLocaleString('en')])
  )
  await sight.page.type('.functions input', 'word')
  await sight.page.waitForFunction(() =>
    [...document.querySelectorAll('.functions tbody th')].every(cell => /word/i.test(cell.parentElement.innerText))
  )
  await sight.go(
    `view=sql&sql=${encodeURIComponent('SELECT function, calls FROM functions ORDER BY calls DESC, function LIMIT 9')}`
  )
  const answer = query(traces.tour, 'SELECT function, calls FROM functions ORDER BY calls DESC, function LIMIT 9')
  const shown = await sight.page.$$eval('.sql tbody tr', lines =>
    lines.map(line => [...line.cells].map(cell => cell.innerText))
  )
  assert.deepEqual(
    shown,
    answer.map(row => [row.function, String(row.calls)])
  )
  await sight.page.waitForSelector('.chart svg rect')
  await sight.page.$eval('textarea', area => {
    area.value = 'SELECT nothing FROM functions'
  })
  await sight.page.click('button.first')
  await sight.until('.sql [role=alert]', 'nothing')
  await sight.done('tables')
  await served.close()
}

checks.flames_and_latencies = async () => {
  const served = await Served.start(contrail, traces.tour)
  const sight = await browser.page()
  await sight.open(served.address, 'view=flame')
  for (const mode of ['callers', 'by time', 'callees']) {
    await sight.page.click(`::-p-xpath(//button[text()="${mode}"])`)
    await sight.settled()
    const box = await sight.box('.flame canvas')
    await sight.page.mouse.click(box.x + 20, box.y + 10)
    assert.match(await sight.text('.flame .line'), /–.*self/, mode)
  }
  const { functions } = await served.ask('search?text=new_word&limit=5')
  const fn = functions.find(one => one.name === 'new_word')
  await sight.go(`view=latency&fn=${fn.function}`)
  const words = `latency?function=${fn.function}&width=200&height=40`
  const heat = await served.ask(words)
  const column = heat.columns.findIndex(counts => counts.some(calls => calls > 0))
  const bucket = heat.columns[column].findIndex(calls => calls > 0)
  const box = await sight.box('.latency canvas')
  const [left, bottom] = [64, 24]
  await sight.page.mouse.click(
    box.x + left + ((column + 0.5) / heat.columns.length) * (box.width - left),
    box.y + (1 - (bucket + 0.5) / heat.columns[column].length) * (box.height - bottom)
  )
  await sight.page.waitForSelector('.latency .list li')
  await sight.until('.details', 'new_word')
  const { calls } = await served.ask(`${words}&column=${column}&bucket=${bucket}`)
  assert.equal((await sight.texts('.latency .list li')).length, calls.length)
  assert.equal(calls.length, heat.columns[column][bucket])
  await sight.done('flames')
  await served.close()
}

checks.a_crash = async () => {
  const served = await Served.start(contrail, traces.crash)
  const sight = await browser.page()
  await sight.open(served.address, 'view=crash')
  const text = await sight.text('.crash')
  for (const word of ['SIGSEGV', 'address 0x0', 'rip', 'price', 'handle', 'main', 'customer="acme"']) {
    assert.ok(text.includes(word), `${word} in ${text.slice(0, 2000)}`)
  }
  await sight.page.click('.last li:last-child button')
  await sight.page.waitForSelector('.details .function')
  await sight.settled()
  const { call, view } = await sight.state()
  const [last] = query(traces.crash, `SELECT function FROM calls WHERE id = ${call}`)
  assert.equal(view, undefined)
  assert.ok((await sight.text('.details')).includes(last.function))
  await sight.done('crash')
  await served.close()
}

checks.a_comparison = async () => {
  const served = await Served.start(contrail, traces.tour, traces.crash)
  const sight = await browser.page()
  await sight.open(served.address, 'view=compare')
  const { rows } = await served.ask('compare?trace=0&with=1')
  const shown = await sight.texts('.compare tbody th')
  assert.deepEqual(
    shown,
    rows.slice(0, 500).map(row => row.name)
  )
  const box = await sight.box('.compare canvas')
  await sight.page.mouse.move(box.x + 30, box.y + 10)
  await sight.until('.compare .line', 'before')
  await sight.done('compare')
  await served.close()
}

checks.every_view_is_accessible = async () => {
  for (const [dark, size] of [
    [false, {}],
    [true, { width: 800, height: 1100, touch: true }]
  ]) {
    const served = await Served.start(contrail, traces.whole, traces.code)
    const sight = await browser.page({ dark, ...size })
    await sight.open(served.address)
    assert.equal(await sight.page.evaluate(() => document.documentElement.dataset.theme), dark ? 'dark' : 'light')
    for (const view of VIEWS) {
      await sight.go(`view=${view}${view === 'blocks' ? '&trace=1' : ''}`)
      assert.equal(await sight.page.$('.failed'), null, view)
      await sight.accessible(`${view} ${dark ? 'dark' : 'light'}`)
      const wide = await sight.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
      assert.ok(wide <= 0, `${view} fits the width`)
    }
    if (size.touch) await tap(sight)
    await sight.done('views')
    await served.close()
  }
}

/** A finger selects a call. */
async function tap (sight) {
  await sight.go('')
  const { x, y } = await sight.placeOf(1, 0, 1000, 1e6)
  await sight.page.touchscreen.tap(x, y)
  await sight.page.waitForSelector('.details.open .function')
}

// ---- what is hostile, what is live, what it costs ----

checks.hostile_names_are_texts = async () => {
  const mock = await startMock({})
  const sight = await browser.page()
  await sight.open(mock.url)
  const { fn } = [...mock.site.trace.calls.values()].find(call => call.fn === 13)
  for (const view of VIEWS) await sight.go(`view=${view}&fn=${fn}&sql=select`)
  const [id, call] = [...mock.site.trace.calls].find(([, one]) => one.fn === 13 && one.end - one.start > 1e6)
  await sight.go(`call=${id}&from=${call.start}&to=${call.end}`)
  assert.ok((await sight.text('.details')).includes(HOSTILE.slice(0, 30)))
  assert.ok(!(await sight.page.title()).includes('owned'))
  await sight.done('hostile')
  mock.close()
}

checks.frames_while_panning = async () => {
  const mock = await startMock({})
  const sight = await browser.page()
  await sight.open(mock.url, 'from=400000000&to=600000000')
  const times = await sight.frames(async () => {
    for (const key of ['d', 'w', 'a', 's']) {
      await sight.page.keyboard.down(key)
      await new Promise(resolve => {
        setTimeout(resolve, 700)
      })
      await sight.page.keyboard.up(key)
    }
  })
  const at = part => times[Math.min(times.length - 1, Math.floor(times.length * part))]?.toFixed(1)
  console.log(
    `  ${times.length} frames while panning: script of a frame ${at(0.5)} ms median, ${at(0.95)} ms at 95 %, ` +
      `longest ${at(1)} ms (a figure, not a claim)`
  )
  assert.ok(times.length > 0)
  await sight.done('frames')
  mock.close()
}

checks.a_recording_that_goes_on = async () => {
  const place = join(work, 'live')
  const recorder = spawn(contrail, ['spawn', '--quiet', '--output', place, '--', steady], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const pid = await new Promise(resolve => {
    recorder.stdout.once('data', data => resolve(String(data).trim()))
  })
  try {
    await followed(pid)
  } finally {
    if (recorder.exitCode === null) kill(pid)
  }
}

/** Ends a process that may have ended. */
function kill (pid) {
  try {
    process.kill(Number(pid))
  } catch {
    // It has ended.
  }
}

/** What the page shows of a process that is recorded, and does to it. */
async function followed (pid) {
  const served = await Served.start(contrail, pid)
  const sight = await browser.page()
  const { page } = sight
  sight.origin = new URL(served.address).origin
  await page.goto(served.address)
  await page.waitForSelector('.live:not([hidden])')
  const events = () =>
    page.$eval('.live .numbers', element => Number(/([\d,]+) events/.exec(element.innerText)[1].replaceAll(',', '')))
  const first = await events()
  await page.waitForFunction(
    before =>
      Number(/([\d,]+) events/.exec(document.querySelector('.live .numbers').innerText)?.[1].replaceAll(',', '')) >
      before,
    {},
    first
  )
  const command = async (name, answer) => {
    const place = `::-p-xpath(//div[contains(@class, "live")]//button[text()="${name}"])`
    const found = await page.waitForSelector(place)
    await found.evaluate(element => element.click()) // its text, and so its width, may change at any time
    await sight.until('.live', answer)
  }
  await command('Mark', 'mark: marked')
  await command('Stop recording', 'not recording')
  await command('Record', 'record on:')
  await command('Pause', 'paused')
  await command('Resume', 'resume:')
  await page.type('.live input', 'inner')
  await command('Exclude', 'exclude add inner:')
  await page.click('h1')
  await page.waitForFunction(() =>
    fetch('/api/info')
      .then(answer => answer.json())
      .then(info => info.marks.length > 0)
  )
  await sight.accessible('live')
  sight.expected = /status of 409/ // a question for its status that comes after its end
  kill(pid)
  await sight.until('.live .status', 'ended')
  await sight.done('live')
  await served.close()
}

/** The pictures of the documents: docs/images/view-*.png, at the size of a window. */
async function pictures () {
  const images = join(import.meta.dirname, '../../docs/images')
  const moments = await lastMoments() // with a call, whose details show no path of this machine
  const shots = [
    ['timeline', false, traces.crash, moments],
    ['latency', true, traces.crash, `${moments}&view=latency&fn=0&name=price`]
  ]
  for (const [name, dark, trace, hash] of shots) {
    const served = await Served.start(contrail, trace)
    const sight = await browser.page({ dark })
    await sight.open(served.address, hash)
    await sight.settled()
    const path = join(images, `view-${name}.png`)
    await sight.page.screenshot({ path })
    assert.ok(statSync(path).size < 300 << 10, path)
    await sight.done(name)
    await served.close()
  }
}

/** The address of the last calls before the crash, with one of them selected. */
async function lastMoments () {
  const [call] = query(
    traces.crash,
    "SELECT id, start FROM calls WHERE function = 'price' ORDER BY start DESC LIMIT 1 OFFSET 4"
  )
  return `call=${call.id}&from=${call.start - 300}&to=${call.start + 700}`
}

browser = await Browser.start(modules)
try {
  for (const [name, check] of Object.entries(checks)) {
    if (names.length && !names.includes(name)) continue
    console.log(name)
    await check()
  }
  if (names.includes('pictures')) await pictures()
} finally {
  for (const served of running) await served.close()
  await browser.close()
}
