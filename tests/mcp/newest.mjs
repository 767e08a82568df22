// SPDX-License-Identifier: Apache-2.0
// The official client of the revision without `initialize` (2026-07-28) asks `contrail mcp`, over both transports.
//
// newest.mjs MODULES CONTRAIL DIRECTORY: as client.mjs.
import assert from 'node:assert/strict'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { SLOW, post, startServer } from './server.mjs'

const VERSION = '2026-07-28'
const [modules, contrail, directory] = process.argv.slice(2)
const place = join(resolve(modules), 'node_modules/@modelcontextprotocol/client/dist')
const sdk = name => import(pathToFileURL(join(place, name)))
const { Client, StreamableHTTPClientTransport } = await sdk('index.mjs')
const { StdioClientTransport } = await sdk('stdio.mjs')

const newClient = () => new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: VERSION } } })
const call = (client, name, args = {}, options) => client.callTool({ name, arguments: args }, options)
const text = result => result.content[0].text

async function every (client) {
  assert.equal(client.getServerVersion().name, 'contrail')
  assert.equal((await client.listTools()).tools.length, 9)
  const { resources } = await client.listResources()
  const { contents } = await client.readResource({ uri: resources[0].uri })
  assert.match(contents[0].text, /SIGSEGV/)
  await assert.rejects(client.readResource({ uri: 'contrail://trace/none' }), /no resource/)
  assert.equal((await client.listPrompts()).prompts.length, 4)
  const { messages } = await client.getPrompt({ name: 'crash', arguments: { trace: 'T1' } })
  assert.match(messages[0].content.text, /trace T1 has crashed/)
  assert.match(text(await call(client, 'explain_crash')), /SIGSEGV/)
  const [row] = (await call(client, 'sql', { sql: 'SELECT 1 AS n' })).structuredContent.data
  assert.equal(row.n, 1)
  assert.ok((await call(client, 'sql', { sql: 'SELECT nope FROM calls' })).isError)
  await assert.rejects(call(client, 'nonsense'), /there is no tool "nonsense"/)
  const abort = new AbortController()
  let progress = 0
  const onprogress = () => { progress++; abort.abort() }
  await assert.rejects(call(client, 'sql', { sql: SLOW }, { signal: abort.signal, onprogress }))
  assert.ok(progress > 0)
  assert.match(text(await call(client, 'summarize')), /killed by signal 11/)
  await client.close()
}

const about = (version = VERSION) => ({
  'io.modelcontextprotocol/protocolVersion': version, 'io.modelcontextprotocol/clientCapabilities': {}
})
const message = (method, params = {}, meta = about()) =>
  ({ jsonrpc: '2.0', id: 7, method, params: { ...params, _meta: meta } })
const headers = (method, version = VERSION) => ({ 'MCP-Protocol-Version': version, 'Mcp-Method': method })

// What the client above never does.
async function wrong (url, token) {
  const send = (body, extra) => post(url, body, { Authorization: token, ...extra })
  const code = async (body, extra, status) => {
    const answer = await send(body, extra)
    assert.equal(answer.status, status)
    return (await answer.json()).error.code
  }
  const found = await (await send(message('server/discover'), headers('server/discover'))).json()
  assert.deepEqual(found.result.supportedVersions, [VERSION, '2025-11-25', '2025-06-18'])
  assert.equal(found.result.resultType, 'complete')
  const later = '2099-01-01'
  assert.equal(await code(message('tools/list', {}, about(later)), headers('tools/list', later), 400), -32022)
  assert.equal(await code(message('tools/list'), headers('tools/call'), 400), -32020)
  assert.equal(await code(message('tools/list'), { 'Mcp-Method': 'tools/list' }, 400), -32020)
  const named = { ...headers('tools/call'), 'Mcp-Name': 'diff' }
  assert.equal(await code(message('tools/call', { name: 'sql' }), named, 400), -32020)
  assert.equal(await code(message('ping'), headers('ping'), 404), -32601)
  const bare = { 'io.modelcontextprotocol/protocolVersion': VERSION }
  assert.equal(await code(message('tools/list', {}, bare), headers('tools/list'), 200), -32602)
}

const lines = newClient()
await lines.connect(new StdioClientTransport({ command: contrail, args: ['mcp', '--directory', directory] }))
await every(lines)
console.log(`${VERSION} over lines: right`)
const { server, url, token } = await startServer(contrail, directory)
const http = newClient()
const requestInit = { headers: { Authorization: token } }
await http.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
await every(http)
await wrong(url, token)
server.kill()
console.log(`${VERSION} over HTTP: right`)
