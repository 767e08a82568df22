// SPDX-License-Identifier: Apache-2.0
// The page of `contrail view` in a browser: every view on golden and freshly recorded traces. What a click selects is
// compared with what `contrail replay --json` and `contrail query --json` say of the same trace.
//
// browser.mjs MODULES CONTRAIL TRACES WORK STEADY [NAME...]: MODULES is where npm has installed the driver; TRACES has
// golden traces (make_trace); WORK has new recordings: tour, crash; STEADY is a program that runs until it is killed.
import { running } from './drive.mjs'
import { checks as live } from './live_checks.mjs'
import { DOCUMENTS, pictures } from './pictures.mjs'
import { browser, names, work } from './site.mjs'
import { checks as timeline } from './timeline_checks.mjs'
import { checks as views } from './views_checks.mjs'

const checks = { ...timeline, ...views, ...live, pictures_are_taken: () => pictures(work) }

try {
  for (const [name, check] of Object.entries(checks)) {
    if (names.length && !names.includes(name)) continue
    console.log(name)
    await check()
  }
  if (names.includes('pictures')) await pictures(DOCUMENTS)
} finally {
  for (const served of running) await served.close()
  await browser.close()
}
