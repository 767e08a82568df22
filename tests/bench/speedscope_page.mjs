// SPDX-License-Identifier: Apache-2.0
// Opens a file in speedscope: speedscope_page.mjs MODULES INDEX.HTML FILE. Exit status 0: it shows a chart.
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const PATIENCE = 300000 // milliseconds
const [modules, index, file] = process.argv.slice(2).map(word => resolve(word))
const driver = join(modules, 'node_modules/puppeteer-core/lib/esm/puppeteer/puppeteer-core.js')
const { default: puppeteer } = await import(pathToFileURL(driver))
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--disable-dev-shm-usage'],
  protocolTimeout: PATIENCE
})

/** What the page says about the file, or that it shows it. */
const said = () => {
  const text = document.body.innerText
  if (/Something went wrong|Unrecognized format/i.test(text)) return 'failed: ' + text.slice(0, 200)
  return /Time Order/.test(text) && document.querySelector('canvas') ? 'shown' : false
}

async function load () {
  const page = await browser.newPage()
  page.setDefaultTimeout(PATIENCE)
  let crash = () => {}
  const crashed = new Promise(resolve => {
    crash = why => resolve(why)
  })
  page.on('error', error => crash(`the page ends: ${error.message}`))
  page.on('pageerror', error => crash(`failed: ${error.message}`))
  page.on('dialog', dialog => {
    crash(`failed: ${dialog.message()}`)
    dialog.dismiss()
  })
  await page.goto(pathToFileURL(index).href)
  const input = await page.waitForSelector('input[type=file]')
  await input.uploadFile(file)
  const shown = page.waitForFunction(said, { polling: 500 }).then(
    handle => handle.jsonValue(),
    error => `failed: ${error.message}`
  )
  return await Promise.race([shown, crashed])
}

const outcome = await load()
console.log(outcome)
browser.process().kill('SIGKILL')
process.exit(outcome === 'shown' ? 0 : 1)
