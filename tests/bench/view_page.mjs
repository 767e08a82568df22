// SPDX-License-Identifier: Apache-2.0
// Figures of the page of `contrail view` for one trace, as JSON: view_page.mjs MODULES CONTRAIL TRACE.
import { readdirSync, readFileSync } from 'node:fs'
import { Browser, running, Served } from '../view/drive.mjs'

const PLACES = 40 // that are looked at before memory is measured
const OPENED = 5 // times
const LOOKED = 400 // milliseconds at each
const HELD = 1500 // milliseconds that each key is held
const [modules, contrail, trace] = process.argv.slice(2)
const wait = time =>
  new Promise(resolve => {
    setTimeout(resolve, time)
  })

/** Notes in the page when the first picture of calls has been painted: one with several colours. */
const NOTE = `
  const put = CanvasRenderingContext2D.prototype.putImageData
  CanvasRenderingContext2D.prototype.putImageData = function (image, ...where) {
    put.call(this, image, ...where)
    if (window.painted) return
    const colours = new Set()
    const pixels = new Uint32Array(image.data.buffer)
    for (let i = 0; i < pixels.length; i += 101) colours.add(pixels[i]) // all would take as long as the page does
    if (colours.size > 2)
      requestAnimationFrame(() => {
        window.painted ??= performance.now()
      })
  }`

/** Megabytes of the largest process that shows pages: what it shares with others counts in parts. */
function renderer (browser) {
  const parents = new Map()
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      const parent = /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]
      parents.set(pid, { parent, command: readFileSync(`/proc/${pid}/cmdline`, 'utf8') })
    } catch {
      // It has ended.
    }
  }
  const own = pid => pid === String(browser.process().pid) || (parents.has(pid) && own(parents.get(pid).parent))
  const sizes = [...parents]
    .filter(([pid, { command }]) => command.includes('--type=renderer') && own(pid))
    .map(([pid]) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]) / 1024)
  return Math.max(...sizes)
}

async function hold (page) {
  for (const key of ['d', 'w', 'a', 's', 'd', 'a']) {
    await page.keyboard.down(key)
    await wait(HELD)
    await page.keyboard.up(key)
  }
}

/** Opens the page; milliseconds until calls are painted. */
async function open (sight, served) {
  const { page } = sight
  sight.origin = new URL(served.address).origin
  await page.evaluateOnNewDocument(NOTE)
  await page.goto(served.address)
  return await (await page.waitForFunction(() => window.painted, { polling: 200 })).jsonValue()
}

/** Counts the bytes of answers. */
async function countBytes (page) {
  const client = await page.createCDPSession()
  const counter = { bytes: 0 }
  await client.send('Network.enable')
  client.on('Network.dataReceived', event => {
    counter.bytes += event.dataLength
  })
  return counter
}

/** Another part of the trace. The page may ask for the trace's counts at any time: that it asks no more is no sign. */
async function show (sight, from, to) {
  await sight.page.evaluate(hash => {
    location.hash = hash
  }, `from=${Math.floor(from)}&to=${Math.floor(to)}`)
  await wait(LOOKED)
  await sight.painted()
}

/** Looks at places of all widths, all over the trace. */
async function lookAround (sight, length) {
  for (let i = 0; i < PLACES; i++) {
    const from = Math.floor((length * i) / PLACES)
    await show(sight, from, from + Math.max(20, length / 4 ** (i % 9)))
  }
}

async function measure (browser) {
  const warm = await browser.page() // the browser's own start does not count
  await warm.page.close()
  const begin = Date.now()
  const served = await Served.start(contrail, trace)
  const sight = await browser.page()
  const counter = await countBytes(sight.page)
  const painted = [await open(sight, served)]
  const started = Date.now() - begin
  while ((await served.ask('map?width=10')).progress < 1) await wait(200)
  const { start, end, calls } = await served.ask('info')
  const { bytes } = counter
  const length = end - start
  await show(sight, length * 0.1, length * 0.12)
  const times = await sight.frames(() => hold(sight.page))
  await lookAround(sight, length)
  const { JSHeapUsedSize } = await sight.page.metrics()
  const memory = renderer(browser.browser)
  while (painted.length < OPENED) painted.push(await open(await browser.page(), served))
  await served.close()
  return {
    calls,
    painted: Math.min(...painted),
    started,
    bytes,
    frames: times.length,
    median: times[Math.floor(times.length / 2)],
    p95: times[Math.floor(times.length * 0.95)],
    memory,
    heap: JSHeapUsedSize / 2 ** 20
  }
}

const browser = await Browser.start(modules)
try {
  console.log(JSON.stringify(await measure(browser)))
} finally {
  for (const served of running) await served.close()
  await browser.close()
}
