// SPDX-License-Identifier: Apache-2.0
// What is hostile, what is live, and what frames cost, in the browser.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Served } from './drive.mjs'
import { HOSTILE } from './made_trace.mjs'
import { start as startMock } from './mock.mjs'
import { browser, contrail, steady, traces, VIEWS, work } from './site.mjs'

/** @type {Record<string, () => Promise<void>>} */
export const checks = {}

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
  const counted = () =>
    page.$$eval('.functions tbody tr', all =>
      all.reduce((sum, row) => sum + Number(row.cells[2].innerText.replaceAll(',', '')), 0)
    )
  await sight.press('3')
  await page.waitForSelector('.functions tbody tr')
  const before = await counted()
  for (let tries = 0; (await counted()) <= before; tries++) {
    assert.ok(tries < 100, 'counting again finds more calls')
    await sight.press('r')
    await new Promise(resolve => {
      setTimeout(resolve, 300)
    })
    await page.waitForSelector('.functions tbody tr')
  }
  await sight.accessible('live')
  sight.expected = /status of 409/ // a question for its status that comes after its end
  kill(pid)
  await sight.until('.live .status', 'ended')
  await sight.done('live')
  await served.close()
}
