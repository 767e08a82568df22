// SPDX-License-Identifier: Apache-2.0
// The official client of the Model Context Protocol asks `contrail mcp`.
//
// client.mjs MODULES CONTRAIL DIRECTORY: MODULES is where npm has installed the client, DIRECTORY has one trace of a
// program that crashed, examples/orders.c. Exit status 0: everything was as it should be.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { SLOW, post, startServer } from './server.mjs'

const [modules, contrail, directory] = process.argv.slice(2)
const place = join(resolve(modules), 'node_modules/@modelcontextprotocol/sdk/dist/esm')
const sdk = name => import(pathToFileURL(join(place, name)))
const { Client } = await sdk('client/index.js')
const { StdioClientTransport } = await sdk('client/stdio.js')
const { StreamableHTTPClientTransport } = await sdk('client/streamableHttp.js')

async function overLines (...options) {
  const client = new Client({ name: 'test', version: '1' })
  const args = ['mcp', '--directory', directory, ...options]
  await client.connect(new StdioClientTransport({ command: contrail, args }))
  return client
}

const call = async (client, name, args = {}, options) =>
  client.callTool({ name, arguments: args }, undefined, options)
const text = result => result.content[0].text

// ---- what there is ----

async function lists (client) {
  assert.equal(client.getServerVersion().name, 'contrail')
  const { tools } = await client.listTools()
  assert.deepEqual(tools.map(tool => tool.name), ['list_traces', 'summarize', 'functions', 'call_tree', 'find_calls',
    'explain_crash', 'diff', 'sql', 'source_lines'])
  for (const tool of tools) {
    assert.equal(tool.inputSchema.type, 'object')
    assert.ok(tool.description && tool.outputSchema && tool.annotations.readOnlyHint)
  }
  const { resources } = await client.listResources()
  assert.equal(resources.length, 1)
  const { contents } = await client.readResource({ uri: resources[0].uri })
  assert.match(contents[0].text, /SIGSEGV/)
  await assert.rejects(client.readResource({ uri: 'contrail://trace/../../etc' }), /no resource/)
  const { prompts } = await client.listPrompts()
  assert.deepEqual(prompts.map(prompt => prompt.name), ['crash', 'slow', 'hang', 'compare'])
  const { messages } = await client.getPrompt({ name: 'crash', arguments: { trace: 'T1' } })
  assert.match(messages[0].content.text, /trace T1 has crashed/)
  await client.ping()
}

// ---- from "it crashed" to the guilty call, in four calls ----

async function investigate (client) {
  const { data } = (await call(client, 'list_traces')).structuredContent
  assert.equal(data.traces[0].processes[0].ended, 'SIGSEGV')
  const trace = data.traces[0].trace
  const crash = text(await call(client, 'explain_crash', { trace }))
  assert.match(crash, /SIGSEGV \(address not mapped\), address 0x0/)
  assert.match(crash, /price/)
  const found = (await call(client, 'find_calls', { trace, function: 'handle', ended: 'open' })).structuredContent.data
  assert.equal(found.length, 1)
  assert.match(found[0].arguments, /id=777777, customer=0x0/)
}

// ---- every tool ----

async function everyTool (client, trace) {
  const summary = await call(client, 'summarize')
  assert.match(text(summary), /killed by signal 11/)
  assert.ok(text(summary).length <= 500 * 4)
  assert.match(summary.structuredContent.command, /^contrail info /)
  const functions = (await call(client, 'functions', { sort: 'calls', limit: 3 })).structuredContent.data.functions
  assert.equal(functions.length, 3)
  assert.ok(functions.some(row => row.name === 'price'))
  const [row] = (await call(client, 'sql', { sql: "SELECT count(*) AS n FROM calls WHERE function = 'handle'" }))
    .structuredContent.data
  assert.equal(row.n, 777778)
  const commented = await call(client, 'sql', { sql: '-- how many\nSELECT 2 AS n' })
  assert.deepEqual(commented.structuredContent.data, [{ n: 2 }])
  const [handle] = (await call(client, 'find_calls', { function: 'handle', order: 'start', limit: 1 }))
    .structuredContent.data
  const tree = text(await call(client, 'call_tree', { call: handle.id }))
  assert.ok(tree.includes('handle') && tree.includes('price'))
  assert.match(text(await call(client, 'call_tree', { around: 'crash' })), /handle\(id=777777/)
  assert.match(text(await call(client, 'diff', { before: trace, after: trace })), /all calls are equal/)
  const lines = (await call(client, 'source_lines', { function: 'price' })).structuredContent.data
  assert.equal(lines[0].function, 'price')
}

// ---- pages ----

async function pages (client) {
  const whole = text(await call(client, 'call_tree', { around: 'crash', tokens: 100000 }))
  const parts = []
  for (let page = 1, pages = 1; page <= pages; page++) {
    const result = await call(client, 'call_tree', { around: 'crash', tokens: 200, page })
    assert.ok(text(result).length <= 200 * 4)
    pages = result.structuredContent.pages
    parts.push(text(result))
  }
  assert.ok(parts.length > 2)
  assert.equal(parts.join(''), whole)
}

// ---- mistakes ----

async function mistakes (client) {
  const wrong = async (name, args, pattern) => {
    const result = await call(client, name, args)
    assert.ok(result.isError, `${name} ${JSON.stringify(args)}`)
    assert.match(text(result), pattern)
  }
  await wrong('sql', { sql: 'SELECT nope FROM calls' }, /no such column: nope/)
  await wrong('sql', {}, /sql needs "sql"/)
  await wrong('sql', { sql: 7 }, /"sql" must be a text/)
  await wrong('functions', { sorted: 'x' }, /did you mean "sort"/)
  await wrong('functions', { sort: 'x' }, /sort/)
  await wrong('summarize', { trace: 'no-such-trace' }, /there is no trace "no-such-trace"; list_traces/)
  await wrong('summarize', { trace: '--help' }, /there is no trace/)
  await wrong('record', { program: ['/bin/true'] }, /--allow-record/)
  await wrong('sql', { sql: "ATTACH 'x.db' AS y" }, /./)
  await assert.rejects(call(client, 'nonsense'), /there is no tool "nonsense"/)
}

// ---- cancelling, and others meanwhile ----

async function cancelling (client) {
  const abort = new AbortController()
  let progress = 0
  const onprogress = () => { progress++; abort.abort() }
  const aborted = assert.rejects(call(client, 'sql', { sql: SLOW }, { signal: abort.signal, onprogress }))
  assert.match(text(await call(client, 'summarize')), /Ended/) // it holds up nobody
  await aborted
  assert.ok(progress > 0)
  await client.ping()
}

// ---- recording ----

async function recording () {
  const client = await overLines('--allow-record')
  assert.ok((await client.listTools()).tools.some(tool => tool.name === 'record'))
  const result = await call(client, 'record', { program: ['/bin/echo', 'hello'] })
  assert.match(text(result), /hello/)
  const { traces } = (await call(client, 'list_traces')).structuredContent.data
  assert.equal(traces.length, 2)
  assert.equal(traces[0].processes[0].program, 'echo')
  await client.close()
}

// ---- HTTP ----

async function overHttp () {
  const { server, url, token } = await startServer(contrail, directory)
  const connect = async () => {
    const client = new Client({ name: 'test', version: '1' })
    const requestInit = { headers: { Authorization: token } }
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
    return client
  }
  const [one, two] = await Promise.all([connect(), connect()])
  const [a, b] = await Promise.all([call(one, 'summarize'), call(two, 'sql', { sql: 'SELECT 1 AS n' })])
  assert.match(text(a), /SIGSEGV/)
  assert.deepEqual(b.structuredContent.data, [{ n: 1 }])
  await investigate(one)
  await cancelling(one)
  const status = async headers => (await post(url, { jsonrpc: '2.0', id: 1, method: 'tools/list' }, headers)).status
  assert.equal(await status({}), 401)
  assert.equal(await status({ Authorization: 'Bearer 0123' }), 401)
  assert.equal(await status({ Authorization: token, Origin: 'http://other.example' }), 403)
  assert.equal(await status({ Authorization: token }), 400)
  assert.equal(await status({ Authorization: token, 'Mcp-Session-Id': 'other' }), 404)
  const session = { Authorization: token, 'Mcp-Session-Id': two.transport.sessionId }
  assert.equal(await status({ ...session, 'MCP-Protocol-Version': '2025-06-18' }), 200)
  assert.equal(await status({ ...session, 'MCP-Protocol-Version': '1999-01-01' }), 400)
  await Promise.all([one.close(), two.close()])
  server.kill()
  const [code] = await once(server, 'exit')
  assert.equal(code, 0)
}

const client = await overLines()
const { data } = (await call(client, 'list_traces')).structuredContent
const parts = { lists, investigate, everyTool: c => everyTool(c, data.traces[0].trace), pages, mistakes, cancelling }
for (const [name, part] of Object.entries(parts)) {
  await part(client)
  console.log(`${name}: right`)
}
await client.close()
await overHttp()
console.log('overHttp: right')
await recording()
console.log('recording: right')
