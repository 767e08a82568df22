// SPDX-License-Identifier: Apache-2.0
// The other views in the browser.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { cropped } from '../../viewer/heat.js'
import { Served } from './drive.mjs'
import { browser, contrail, query, traces, VIEWS, work } from './site.mjs'

/** @type {Record<string, () => Promise<void>>} */
export const checks = {}

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
    const thread = await sight.page.$eval('.flame select', choice => choice.value)
    assert.equal(thread !== '-1', mode !== 'callers', `${mode}: of one thread, which is named`)
  }
  const { functions } = await served.ask('search?text=new_word&limit=5')
  const fn = functions.find(one => one.name === 'new_word')
  await sight.go(`view=latency&fn=${fn.function}`)
  const words = `latency?function=${fn.function}&width=200&height=40`
  const heat = cropped(await served.ask(words))
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
  const { calls } = await served.ask(`${words}&column=${column}&bucket=${bucket + heat.first}`)
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
  assert.match(text, /price[^]*orders\.c:\d+[^]*handle[^]*orders\.c:\d+/)
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
  const { rows: flame, total } = await served.ask('compare/flame?trace=0&with=1')
  liesWithin(flame, total)
  assert.match(await sight.text('.compare .bar'), /before:\s*tour \d\d:\d\d:\d\d[^]*after:\s*orders/)
  assert.equal(await sight.page.$eval('.details', panel => panel.hidden), true, 'nothing is selected')
  await sight.page.focus('.compare canvas')
  await sight.press('ArrowRight')
  await sight.until('.compare .line', `${flame[0][3]} – before`)
  await sight.press('ArrowDown', 'Enter')
  const inner = flame.find(row => row[0] === 1)
  await sight.until('.compare .line', `${inner[3]} – before`)
  await sight.done('compare')
  await served.close()
}

/** No box of a flame graph lies on its neighbour, though the traces' programs have other functions in `main`. */
function liesWithin (rows, total) {
  const above = [[0, total]]
  const ends = []
  for (const [depth, x, wide] of rows) {
    above.length = depth + 1
    const [low, high] = above[depth]
    assert.ok(x >= low && x + wide <= high && x >= (ends[depth] ?? 0), `${depth} ${x} ${wide}`)
    ends[depth] = x + wide
    above.push([x, x + wide])
  }
}

checks.tables_are_turned_round = async () => {
  const served = await Served.start(contrail, traces.tour, traces.code)
  const sight = await browser.page()
  await sight.open(served.address, 'view=functions')
  const calls = () =>
    sight.page.$$eval('.functions tbody tr', rows =>
      rows.map(row => Number(row.cells[2].innerText.replaceAll(',', '')))
    )
  const head = '.functions thead th:nth-child(3)'
  for (const [way, order] of [
    ['descending', (a, b) => b - a],
    ['ascending', (a, b) => a - b]
  ]) {
    await sight.page.click(`${head} button`)
    await sight.settled()
    assert.equal(await sight.page.$eval(head, cell => cell.getAttribute('aria-sort')), way)
    const shown = await calls()
    assert.deepEqual(shown, [...shown].sort(order))
  }
  assert.equal((await sight.state()).order, 'up')
  await sight.go('view=blocks&trace=1')
  const names = await sight.texts('.blocks tbody th')
  assert.ok(names.length && names.every(name => !/^\d+$/.test(name.trim())), names.slice(0, 9).join())
  const longest = 'SELECT id, function, duration FROM calls ORDER BY duration DESC LIMIT 9'
  await sight.go(`view=sql&sql=${encodeURIComponent(longest)}`)
  assert.equal(await sight.page.$eval('.chart text', text => text.textContent), 'duration')
  await sight.page.select('.sql select[aria-label=Chart]', 'none')
  await sight.settled()
  assert.equal(await sight.page.$('.chart svg'), null)
  await sight.page.select('.sql select[aria-label=Examples]', await tablesQuestion(sight))
  await sight.until('.sql tbody', 'functions')
  await sight.until('.sql tbody', 'stack_at')
  await sight.done('turned')
  await served.close()
}

/** The example that lists the tables. */
const tablesQuestion = sight =>
  sight.page.$$eval(
    '.sql select[aria-label=Examples] option',
    all => all.find(one => /Tables/.test(one.innerText)).value
  )

checks.a_crash_fits_the_window = async () => {
  const served = await Served.start(contrail, traces.crash)
  const sight = await browser.page()
  await sight.open(served.address, 'view=crash')
  await sight.painted()
  const last = await sight.box('.last li:last-child')
  assert.ok(last.y + last.height <= 720, 'the last call is in sight')
  assert.ok(last.height < 30, 'in one line')
  await sight.done('crash fits')
  await served.close()
}

checks.an_exported_page_opens_alone = async () => {
  const path = join(work, 'tour.html')
  execFileSync(contrail, ['export', '--format', 'html', '--output', path, traces.tour], { stdio: 'ignore' })
  const sight = await browser.page()
  sight.origin = pathToFileURL(path).href
  await sight.page.goto(sight.origin)
  const units = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }
  const shown = await sight.page.$$eval('#table tr', lines =>
    lines.map(line => [line.cells[4].innerText.split(' [')[0], line.cells[0].innerText, line.cells[1].innerText])
  )
  const sql = "SELECT function, calls, total FROM functions WHERE function IN ('insert', 'merge', 'print', 'compare')"
  const rows = query(traces.tour, sql) // most of them call themselves; the loader's functions wait for the recorder
  assert.equal(rows.length, 4)
  for (const { function: name, calls, total } of rows) {
    const [, count, time] = shown.find(one => one[0] === name)
    const [number, unit] = time.split(' ')
    assert.equal(count, calls.toLocaleString('en'), name)
    assert.ok(Math.abs(Number(number) * units[unit] - total) <= 0.01 * units[unit], `${name}: ${time}, ${total} ns`)
  }
  await sight.accessible('exported page')
  await sight.done('export')
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
    const chosen = (await served.ask('search?text=recurse')).functions[0]
    await sight.go(`fn=${chosen.function}&name=${chosen.name}`)
    const hidden = await sight.page.$eval('nav', tabs => tabs.scrollWidth - tabs.clientWidth)
    assert.ok(hidden <= 0, 'all views can be chosen beside a search')
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
