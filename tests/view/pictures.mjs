// SPDX-License-Identifier: Apache-2.0
// The pictures of the documents: docs/images/view-*.png, at the size of a window.
import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { Served } from './drive.mjs'
import { browser, contrail, query, traces } from './site.mjs'

export const DOCUMENTS = join(import.meta.dirname, '../../docs/images')

/** Takes them, into a directory. @param {string} images */
export async function pictures (images) {
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
