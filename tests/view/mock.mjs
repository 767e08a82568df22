// SPDX-License-Identifier: Apache-2.0
// A server of the view with a trace that is made up: what unit tests of views need, hostile and huge answers included.
// It keeps to docs/VIEW.md; the real server is asked by browser.mjs.
//
// mock.mjs [PORT]: serves it for people who work on the page.
import { createReadStream } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { HOSTILE, makeTrace, NAMES } from './made_trace.mjs'

const VIEWER = join(dirname(fileURLToPath(import.meta.url)), '../../viewer')
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
const TYPES = { js: 'text/javascript', css: 'text/css', html: 'text/html' }
const numbers = text => (text ?? '').split(',').filter(Boolean).map(Number)

// ---- answers ----

const functionsOf = used =>
  Object.fromEntries(
    [...used].map(fn => [fn, [NAMES[fn][0].slice(0, 4096), NAMES[fn][0].slice(0, 200), NAMES[fn][1]]])
  )

function cellsOf (row, from, to, width) {
  const column = (to - from) / width
  const flat = []
  let group = null
  const put = () => {
    if (group)
      flat.push(
        group.start,
        group.end,
        group.fn,
        Math.min(255, Math.round((255 * group.busy) / Math.max(1, group.end - group.start))),
        group.calls,
        -1
      )
  }
  for (const call of row) {
    if (call.end <= from || call.start >= to) continue
    if (call.end - call.start >= column) {
      put()
      group = null
      flat.push(call.start, call.end, call.fn, 255, 1, call.id)
      continue
    }
    const at = Math.floor((call.start - from) / column)
    if (group && group.at === at) {
      group.end = call.end
      group.busy += call.end - call.start
      group.calls++
    } else {
      put()
      group = { at, start: call.start, end: call.end, fn: call.fn, busy: call.end - call.start, calls: 1 }
    }
  }
  put()
  return flat
}

const durations = (trace, fn) =>
  [...trace.calls.values()]
    .filter(call => call.fn === fn)
    .map(call => call.end - call.start)
    .sort((a, b) => a - b)

function callOf (trace, call) {
  const chain = []
  for (let at = trace.calls.get(call.parent); at; at = trace.calls.get(at.parent)) {
    chain.push({ id: at.id, name: NAMES[at.fn][0].slice(0, 4096), start: at.start, duration: at.end - at.start })
  }
  const all = durations(trace, call.fn)
  const children = (trace.rows.get(call.thread)[call.depth + 1] ?? []).filter(one => one.parent === call.id)
  return {
    id: call.id,
    thread: call.thread,
    function: call.fn,
    name: NAMES[call.fn][0].slice(0, 4096),
    module: NAMES[call.fn][1],
    file: 'src/shop.c',
    line: 40 + call.fn,
    start: call.start,
    duration: call.end - call.start,
    self: children.reduce((left, one) => left - (one.end - one.start), call.end - call.start),
    depth: call.depth,
    parent: call.parent,
    ended: 'return',
    open: false,
    arguments: [
      { name: 'order', value: '0x55d0c0ffee' },
      { name: 'text', value: HOSTILE }
    ],
    result: '0',
    error: '',
    stack: ['7ffc00: 48 89 e5 00 00 00 00 00', '7ffc08: 00 00 00 00 00 00 00 00'],
    callers: chain,
    same: {
      calls: all.length,
      median: all[all.length >> 1],
      p99: all[Math.floor(all.length * 0.99)],
      longest: all.at(-1)
    },
    detail: true
  }
}

function flameOf (trace, words) {
  const rows = []
  const used = new Set()
  const own = trace.rows.get(Number(words.thread ?? 1))
  const merge = (parents, depth, x) => {
    const groups = new Map()
    for (const call of own[depth] ?? [])
      if (!parents || parents.has(call.parent)) groups.set(call.fn, [...(groups.get(call.fn) ?? []), call])
    for (const [fn, calls] of [...groups].sort((a, b) => a[0] - b[0])) {
      const wide = calls.reduce((sum, call) => sum + call.end - call.start, 0)
      if (wide < trace.length / 4096) continue
      used.add(fn)
      rows.push([depth, x, wide, fn, Math.floor(wide / 3), calls.length])
      merge(new Set(calls.map(call => call.id)), depth + 1, x)
      x += wide
    }
  }
  merge(null, 0, 0)
  return {
    total: rows.filter(row => row[0] === 0).reduce((sum, row) => sum + row[2], 0),
    rows,
    functions: functionsOf(used)
  }
}

function functionRows (trace) {
  return NAMES.map(([name, module], fn) => {
    const all = durations(trace, fn)
    const histogram = new Map()
    for (const one of all)
      histogram.set(Math.floor(Math.log2(one)), (histogram.get(Math.floor(Math.log2(one))) ?? 0) + 1)
    const total = all.reduce((a, b) => a + b, 0)
    const spark = new Array(32).fill(0)
    for (const call of trace.calls.values())
      if (call.fn === fn) spark[Math.min(31, Math.floor((call.start / trace.length) * 32))]++
    return {
      function: fn,
      name: name.slice(0, 4096),
      module,
      calls: all.length,
      total,
      self: Math.floor(total / 3),
      median: all[all.length >> 1] ?? 0,
      longest: all.at(-1) ?? 0,
      spark,
      histogram: [...histogram]
    }
  }).filter(row => row.calls > 0)
}

function columnsOf (trace, width, keep) {
  const columns = new Array(width).fill(0)
  for (const call of trace.calls.values())
    if (keep(call)) columns[Math.min(width - 1, Math.floor((call.start / trace.length) * width))]++
  return columns
}

function latencyOf (trace, words) {
  const [width, height, fn] = [Number(words.width), Number(words.height), Number(words.function)]
  const columns = Array.from({ length: width }, () => new Array(height).fill(0))
  const low = 4
  const found = []
  for (const call of trace.calls.values()) {
    if (call.fn !== fn) continue
    const column = Math.min(width - 1, Math.floor((call.start / trace.length) * width))
    const bucket = Math.max(0, Math.min(height - 1, Math.floor(Math.log2(call.end - call.start)) - low))
    columns[column][bucket]++
    if (column === Number(words.column) && bucket === Number(words.bucket)) {
      found.push({ id: call.id, start: call.start, duration: call.end - call.start, thread: call.thread })
    }
  }
  const functions = functionsOf([fn].filter(one => NAMES[one]))
  if (words.column) return { calls: found.slice(0, 100), functions }
  return { from: 0, to: trace.length, low, high: low + height, columns, functions }
}

const crashes = trace => [
  {
    process: 1,
    thread: 2,
    signal: 'SIGSEGV',
    code: 'address not mapped',
    address: '0x10',
    time: trace.length - 1000,
    registers: ['rax', 'rbx', 'rcx', 'rdx', 'rsi', 'rdi', 'rbp', 'rsp', 'rip'].map((name, i) => [
      name,
      `0x${(i * 4919).toString(16)}`
    ]),
    threads: [1, 2].map(thread => ({
      thread,
      frames: ['price_of', HOSTILE, 'serve', 'main'].map((name, i) => ({
        name,
        module: 'shop',
        offset: i * 16,
        file: 'src/shop.c',
        line: 20 + i
      }))
    })),
    last: [3, 2, 1].map((i, at) => ({
      id: [...trace.calls.keys()][at],
      start: trace.length - 1000 - i * 1500,
      duration: i > 1 ? 900 : -1,
      depth: 6 - i,
      name: 'price_of',
      ended: i > 1 ? 'returned' : 'open',
      arguments: `order=${HOSTILE}`,
      result: i > 1 ? '4' : undefined
    }))
  }
]

const blocks = [
  [4198694, 'price_of', 51200],
  [4198720, 'price_of', 12800],
  [4198784, HOSTILE, 3]
]

const codeOf = block =>
  block && {
    instructions: [
      { address: block[0], bytes: '8b4708', text: 'mov eax, [rdi+0x08]', line: 'src/shop.c:20' },
      { address: block[0] + 3, bytes: '85c0', text: 'test eax, eax', line: 'src/shop.c:20' },
      { address: block[0] + 5, bytes: '0f84a1000000', text: HOSTILE, line: null }
    ],
    function: block[1],
    into: 0,
    count: block[2],
    problem: 'Nobody knows the <b>rest</b>.'
  }

/** What the server says to a question. @param {any} site */
export function answer (site, path, words) {
  const trace = site.trace
  const call = id => callOf(trace, trace.calls.get(Number(id)))
  switch (path) {
    case 'traces':
      return {
        version: '0',
        traces: [0, 1].map(i => ({
          trace: i,
          path: `/tmp/trace${i}`,
          name: `shop_${i}`,
          live: site.live,
          processes: 1
        }))
      }
    case 'info':
      return infoOf(site)
    case 'map':
      return {
        progress: 1,
        width: Number(words.width),
        from: 0,
        to: trace.length,
        calls: columnsOf(trace, Number(words.width), () => true),
        lost: new Array(Number(words.width)).fill(0).map((_, i) => (i > 600 && i < 620 ? 0.4 : 0))
      }
    case 'cells':
      return cellsAnswer(site, words)
    case 'call':
      return call(words.id)
    case 'at':
      return callOf(
        trace,
        trace.rows
          .get(Number(words.thread))
          [Number(words.depth)].find(one => one.start <= words.time && one.end > words.time)
      )
    case 'search':
      return searchOf(trace, words)
    case 'hits':
      return hitsOf(trace, words)
    case 'flame':
      return flameOf(trace, words)
    case 'functions':
      return functionsAnswer(trace, words)
    case 'latency':
      return latencyOf(trace, words)
    case 'select':
      return {
        functions: functionRows(trace)
          .sort((a, b) => b.self - a.self)
          .map(row => ({ ...row, share: row.self / trace.length })),
        threads: []
      }
    case 'compare':
      return {
        rows: functionRows(trace).map((row, i) => ({
          name: row.name,
          module: row.module,
          before: { calls: row.calls, self: row.self },
          after: i === 3 ? null : { calls: row.calls + i, self: Math.floor(row.self * (0.4 + i / 6)) },
          ratio: i === 3 ? null : 0.4 + i / 6,
          noise: i === 4
        }))
      }
    case 'compare/flame': {
      const flame = flameOf(trace, words)
      return {
        ...flame,
        rows: flame.rows.map(([depth, x, wide, fn], i) => [
          depth,
          x,
          wide,
          NAMES[fn][0].slice(0, 900),
          wide,
          wide * (0.5 + (i % 7) / 4)
        ])
      }
    }
    case 'crash':
      return { crashes: site.crashed ? crashes(trace) : [] }
    case 'blocks':
      return {
        total: blocks.length,
        executed: 64003,
        blocks: blocks.map(([address, name, count], i) => ({
          process: 1,
          address,
          name,
          module: 'shop',
          module_id: 2,
          into: i * 26,
          size: 12,
          instructions: 3,
          count,
          executed: count * 3,
          line: 'src/shop.c:20'
        }))
      }
    case 'block':
      return codeOf(blocks.find(([address]) => address === Number(words.address)))
    default:
      return null
  }
}

function infoOf ({ trace, live, crashed, counted }) {
  return {
    start: 0,
    end: trace.length,
    wall: '2025-01-02 03:04:05',
    command: `shop ${HOSTILE}`,
    host: 'host',
    arch: 'x86_64',
    events: trace.calls.size * 2,
    calls: trace.calls.size,
    lost: 1200,
    live,
    generation: 1,
    processes: [{ process: 1, pid: 4242, command: 'shop', start: 0, end: trace.length, exit: '0' }],
    threads: [...trace.rows].map(([thread, rows]) => ({
      thread,
      process: 1,
      tid: 4241 + thread,
      name: thread === 2 ? '<b>worker</b>' : 'shop',
      start: 0,
      end: trace.length,
      calls: rows.flat().length,
      events: rows.flat().length * 2,
      depth: rows.length,
      lost: thread === 2 ? 1200 : 0
    })),
    marks: [{ time: trace.length * 0.3, thread: 1, label: 'deploy', reason: 'hand' }],
    windows: [{ start: trace.length * 0.55, end: trace.length * 0.6, reason: 'slow call' }],
    signals: [
      { time: trace.length * 0.72, thread: 1, signal: 'SIGUSR1', crash: undefined },
      ...(crashed ? [{ time: trace.length - 1000, thread: 2, signal: 'SIGSEGV', text: `SIGSEGV at ${HOSTILE}` }] : [])
    ],
    losses: [{ thread: 2, start: trace.length * 0.47, end: trace.length * 0.484, events: 1200, reason: 'ring full' }],
    damage: [],
    blocks: true,
    counted: counted ?? true,
    query: true
  }
}

function cellsAnswer ({ trace }, words) {
  const [from, to, width] = [Number(words.from), Number(words.to), Number(words.width)]
  const [low, high] = words.depth.split('-').map(Number)
  const used = new Set()
  const threads = numbers(words.threads).map(thread => ({
    thread,
    depths: (trace.rows.get(thread) ?? []).slice(low, high + 1).map(row => {
      const flat = cellsOf(row, from, to, width)
      for (let i = 2; i < flat.length; i += 6) used.add(flat[i])
      return flat
    })
  }))
  return { progress: 1, from, to, threads, functions: functionsOf(used) }
}

function searchOf (trace, { text, limit }) {
  const found = functionRows(trace).filter(row => row.name.includes(text))
  return {
    functions: found
      .slice(0, Number(limit))
      .map(({ function: fn, name, module, calls }) => ({ function: fn, name, module, calls })),
    total: found.length
  }
}

function hitsOf (trace, words) {
  const fn = Number(words.function)
  if (words.after === undefined && words.before === undefined)
    return { columns: columnsOf(trace, Number(words.width), call => call.fn === fn) }
  const all = [...trace.calls.values()].filter(call => call.fn === fn).sort((a, b) => a.start - b.start)
  const hit =
    words.after !== undefined
      ? all.find(call => call.start > Number(words.after))
      : all.findLast(call => call.start < Number(words.before))
  return hit
    ? { call: hit.id, thread: hit.thread, start: hit.start, duration: hit.end - hit.start, depth: hit.depth }
    : { call: -1 }
}

function functionsAnswer (trace, { text = '', sort = 'self', offset = 0, limit = 100 }) {
  const rows = functionRows(trace)
    .filter(row => row.name.includes(text) || row.module.includes(text))
    .sort((a, b) => (typeof a[sort] === 'string' ? a[sort].localeCompare(b[sort]) : b[sort] - a[sort]))
  return { total: rows.length, rows: rows.slice(Number(offset), Number(offset) + Number(limit)) }
}

const STATUS = {
  state: 'running',
  paused: false,
  detail: { mode: 'marked', state: 'capturing', marks: 1, windows: 0 },
  policy: { recording: true, triggers: ['crash'], excluded: [HOSTILE] }
}

function posted (site, path, body) {
  if (path === 'ctl') {
    site.commands.push(body.command)
    if (body.command === 'status') return { ok: true, answer: JSON.stringify(STATUS) }
    return { ok: true, answer: `done: ${body.command}` }
  }
  if (/error/.test(body.sql)) return { error: 'no such column: error' }
  if (/numbers/.test(body.sql))
    return {
      columns: ['time', 'calls'],
      rows: [
        [1, 5],
        [2, 9],
        [3, 2]
      ],
      truncated: false,
      counters: {}
    }
  return {
    columns: ['function', 'calls', 'id'],
    rows: functionRows(site.trace).map((row, i) => [row.name, row.calls, [...site.trace.calls.keys()][i]]),
    truncated: true,
    counters: {}
  }
}

// ---- the server ----

async function bodyOf (request) {
  let text = ''
  for await (const part of request) text += part
  return JSON.parse(text)
}

async function serve (site, request, response) {
  const address = new URL(request.url, 'http://localhost')
  const send = (status, value) => {
    response.writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'content-security-policy': POLICY
    })
    response.end(JSON.stringify(value))
  }
  site.requests.push(address.pathname + address.search)
  if (address.pathname === '/' || address.pathname.startsWith('/app/')) {
    const name = address.pathname === '/' ? 'index.html' : address.pathname.slice(5)
    if (!/^[a-z_]+\.(js|css|html)$/.test(name)) return send(404, { error: 'There is no such file.' })
    response.writeHead(200, {
      'content-type': `${TYPES[name.split('.')[1]]}; charset=utf-8`,
      'content-security-policy': POLICY
    })
    createReadStream(join(VIEWER, name)).pipe(response)
    return
  }
  const path = address.pathname.replace('/api/', '')
  if (path === 'live') {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'content-security-policy': POLICY })
    site.streams.push(response)
    return
  }
  const value =
    request.method === 'POST'
      ? posted(site, path, await bodyOf(request))
      : answer(site, path, Object.fromEntries(address.searchParams))
  send(value ? 200 : 404, value ?? { error: 'There is no such question.' })
}

/** Serves a made-up trace. `site` holds what tests look at: the requests, commands and streams. */
export async function start (site = {}, port = 0) {
  Object.assign(site, {
    trace: site.trace ?? makeTrace(),
    live: site.live ?? false,
    crashed: site.crashed ?? true,
    requests: [],
    commands: [],
    streams: []
  })
  const server = createServer((request, response) => {
    serve(site, request, response).catch(error => {
      response.destroy(error)
    })
  })
  await new Promise(resolve => {
    server.listen(port, '127.0.0.1', () => resolve(null))
  })
  return {
    site,
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  console.log((await start({}, Number(process.argv[2] ?? 0))).url)
