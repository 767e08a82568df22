// SPDX-License-Identifier: Apache-2.0
// The scenarios of @modelcontextprotocol/conformance. expected.yml lists those that fail, and why.
//
// scenarios.mjs MODULES CONTRAIL DIRECTORY: as client.mjs. Exit status 77: they do not run on this node.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { startServer } from './server.mjs'

const [modules, contrail, directory] = process.argv.slice(2)
const program = join(resolve(modules), 'node_modules/@modelcontextprotocol/conformance/dist/index.js')
const run = promisify(execFile)

try {
  await run(process.execPath, [program, '--version'])
} catch (error) {
  console.log(`skipped: the scenarios do not run on node ${process.version}: ${String(error.stderr).split('\n')[0]}`)
  process.exit(77)
}
const { server, url } = await startServer(contrail, directory, '--no-token')
const known = join(import.meta.dirname, 'expected.yml')
const words = ['server', '--url', url, '--suite', 'all', '--expected-failures', known]
const { stdout } = await run(process.execPath, [program, ...words])
assert.match(stdout, /Total: 8 passed/)
console.log('scenarios: right')
server.kill()
