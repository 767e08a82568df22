// SPDX-License-Identifier: Apache-2.0
// A headless Chromium that shows the page: what it must not do is noticed, and where things are painted is computed
// from what is on the screen and in the address.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

export const ROW = 18 // CSS pixels of a depth
const PATIENCE = 30000 // milliseconds, for anything

/** What a page says when it does what it must not. */
const WATCH = `
  window.violations = []
  document.addEventListener('securitypolicyviolation', event => {
    window.violations.push(event.violatedDirective + ' ' + event.blockedURI)
  })`

export class Browser {
  static async start(modules) {
    const place = join(resolve(modules), 'node_modules')
    const driver = join(place, 'puppeteer-core/lib/esm/puppeteer/puppeteer-core.js')
    const { default: puppeteer } = await import(pathToFileURL(driver))
    const browser = new Browser()
    browser.axe = readFileSync(join(place, 'axe-core/axe.min.js'), 'utf8')
    const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars']
    const executablePath = process.env.CHROMIUM || '/usr/bin/chromium'
    browser.browser = await puppeteer.launch({ executablePath, args, protocolTimeout: PATIENCE })
    return browser
  }

  /** A page in a context of its own: other cookies, other storage. */
  async page ({ width = 1280, height = 720, dark = false, touch = false } = {}) {
    const context = await this.browser.createBrowserContext()
    const page = await context.newPage()
    page.setDefaultTimeout(PATIENCE)
    await page.setViewport({ width, height, hasTouch: touch })
    const scheme = { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }
    await page.emulateMediaFeatures([scheme, { name: 'prefers-reduced-motion', value: 'reduce' }])
    await page.evaluateOnNewDocument(WATCH)
    return new Sight(page, this.axe)
  }

  async close () {
    await this.browser.close()
  }
}

export class Sight {
  constructor (page, axe) {
    this.page = page
    this.axe = axe
    this.wrong = []
    this.origin = ''
    page.on('console', message => {
      if (['error', 'warn', 'assert'].includes(message.type()) && !this.expected?.test(message.text())) {
        this.wrong.push(`console: ${message.text()}`)
      }
    })
    page.on('pageerror', error => this.wrong.push(`error: ${error.stack ?? error}`))
    page.on('dialog', dialog => {
      this.wrong.push(`dialog: ${dialog.message()}`)
      dialog.dismiss()
    })
    page.on('request', request => {
      const url = request.url()
      if (url !== 'about:blank' && !url.startsWith(this.origin) && url !== 'data:,')
        this.wrong.push(`request: ${url}`)
    })
  }

  /** Opens the page anew, with this state. */
  async open (address, hash = '') {
    this.origin = new URL(address).origin
    await this.page.goto('about:blank')
    await this.page.goto(`${address}#${hash}`)
    await this.page.waitForSelector('main > section, .failed')
    await this.settled()
  }

  /** Another state, as if somebody wrote it into the address. */
  async go (hash) {
    await this.page.evaluate(text => {
      location.hash = text
    }, hash)
    await this.settled()
  }

  /** Nothing is on its way, and what came is painted. */
  async settled () {
    await this.page.waitForNetworkIdle({ idleTime: 120, concurrency: 0 })
    await this.painted()
  }

  async painted () {
    await this.page.evaluate(
      () =>
        new Promise(resolve => {
          requestAnimationFrame(() => requestAnimationFrame(() => resolve(null)))
        })
    )
  }

  /** The state in the address; the page writes it a little later than it changes. */
  async state () {
    await this.page.evaluate(
      () =>
        new Promise(resolve => {
          setTimeout(resolve, 300)
        })
    )
    const words = new URLSearchParams(new URL(this.page.url()).hash.slice(1))
    return Object.fromEntries(words)
  }

  text (selector) {
    return this.page.$eval(selector, element => element.innerText)
  }

  texts (selector) {
    return this.page.$$eval(selector, elements => elements.map(element => element.innerText))
  }

  /** Waits until a text is in an element. */
  async until (selector, text) {
    await this.page.waitForFunction(
      (where, what) => document.querySelector(where)?.innerText.includes(what),
      {},
      selector,
      text
    )
  }

  async press (...keys) {
    for (const key of keys) await this.page.keyboard.press(key)
  }

  /** The place of a canvas on the screen. */
  async box (selector) {
    const handle = await this.page.waitForSelector(selector)
    return await handle.boundingBox()
  }

  /** Where a call is painted, as the address, the rows and the width say; it is scrolled into sight. */
  async placeOf (thread, depth, start, duration) {
    const { from, to } = await this.range()
    const name = `.thread[data-thread="${thread}"]`
    await this.page.waitForSelector(name)
    const y = async () => (await this.box(name)).y + depth * ROW + ROW / 2
    const canvas = await this.box('canvas.cells')
    const below = (await y()) - (canvas.y + canvas.height - ROW)
    if (below > 0) {
      await this.page.$eval(
        '.timeline .scroller',
        (element, by) => {
          element.scrollTop += by
        },
        below
      )
      await this.settled()
    }
    const middle = (Math.max(start, from) + Math.min(start + duration, to)) / 2
    return { x: canvas.x + ((middle - from) / (to - from)) * canvas.width, y: await y() }
  }

  async range () {
    const { from, to } = await this.state()
    if (from !== undefined) return { from: Number(from), to: Number(to) }
    const trace = (await this.state()).trace ?? 0
    return await this.page.evaluate(async number => {
      const info = await (await fetch(`/api/info?trace=${number}`)).json()
      return { from: info.start, to: info.end }
    }, trace)
  }

  /** Milliseconds of script in each frame, while something is done. */
  async frames (action) {
    await this.page.evaluate(() => {
      const ask = window.requestAnimationFrame
      const times = new Map()
      window.frameTimes = times
      window.requestAnimationFrame = callback =>
        ask(now => {
          const begin = performance.now()
          callback(now)
          times.set(now, (times.get(now) ?? 0) + performance.now() - begin)
        })
    })
    await action()
    return await this.page.evaluate(() => [...window.frameTimes.values()].sort((a, b) => a - b))
  }

  /** Rules of accessibility that are broken seriously. */
  async accessible (what) {
    await this.page.evaluate(this.axe)
    const found = await this.page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ['violations'] })
      return violations
        .filter(one => ['serious', 'critical'].includes(one.impact))
        .map(
          one =>
            `${one.id}: ${one.nodes
              .map(node => node.html.slice(0, 120))
              .slice(0, 3)
              .join(' | ')}`
        )
    })
    assert.deepEqual(found, [], `${what}: accessibility`)
  }

  /** Ends the page. Nothing may have gone wrong in it. */
  async done (what) {
    const violations = await this.page.evaluate(() => window.violations)
    assert.deepEqual([...this.wrong, ...violations], [], what)
    assert.equal(
      await this.page.evaluate(() => document.querySelectorAll('main img, main script, aside img').length),
      0
    )
    await this.page.browserContext().close()
  }
}

/** @type {Set<Served>} those that have not ended */
export const running = new Set()

/** `contrail view` as a child. */
export class Served {
  static async start(contrail, ...traces) {
    const served = new Served()
    running.add(served)
    served.child = spawn(contrail, ['view', '--no-open', '--timeout', '10m', ...traces], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    for await (const line of createInterface({ input: served.child.stdout })) {
      served.address = line.trim()
      break
    }
    assert.match(served.address ?? '', /^http:/, 'contrail view prints its address')
    served.token = new URL(served.address).searchParams.get('token')
    return served
  }

  /** Asks the server itself, beside the page. */
  async ask (path) {
    const answer = await fetch(new URL(`/api/${path}`, this.address), {
      headers: { authorization: `Bearer ${this.token}` }
    })
    assert.equal(answer.status, 200, path)
    return await answer.json()
  }

  async close () {
    if (!running.delete(this)) return
    const ended = once(this.child, 'exit')
    this.child.kill('SIGTERM')
    await ended
  }
}
