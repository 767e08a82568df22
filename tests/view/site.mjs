// SPDX-License-Identifier: Apache-2.0
// What the checks of the page share: the words of browser.mjs, its traces, and what the program itself says of them.
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Browser } from './drive.mjs'

export const [modules, contrail, golden, work, steady, ...names] = process.argv.slice(2)
const session = folder =>
  join(
    folder,
    readdirSync(folder).find(name => name.startsWith('session_'))
  )
export const traces = {
  whole: session(join(golden, 'whole')),
  code: session(join(golden, 'code')),
  tour: session(join(work, 'tour')),
  crash: session(join(work, 'crash'))
}
const run = (...words) =>
  execFileSync(contrail, words, { maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'ignore'] }).toString()
export const query = (trace, sql) => JSON.parse(run('query', '--json', '--allow-damaged', trace, sql))
export const VIEWS = ['timeline', 'flame', 'functions', 'latency', 'compare', 'crash', 'blocks', 'sql']

/** The calls that `contrail replay` shows: times since the trace begins. */
export function replayed (trace) {
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
export const some = (list, count) =>
  list.filter((_, i) => i % Math.max(1, Math.floor(list.length / count)) === 0).slice(0, count)

export const browser = await Browser.start(modules)
