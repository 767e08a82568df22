// SPDX-License-Identifier: Apache-2.0
// A server over HTTP for tests.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'

// A statement that never ends by itself.
export const SLOW = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n'

export async function startServer (contrail, directory, ...options) {
  const server = spawn(contrail, ['mcp', '--http', '--directory', directory, ...options],
    { stdio: ['ignore', 'pipe', 'inherit'] })
  process.on('exit', () => server.kill()) // also when something fails
  let printed = ''
  for await (const piece of server.stdout) {
    printed += piece
    if (/Bearer \w+\n/.test(printed) || (options.includes('--no-token') && printed.includes('\n'))) break
  }
  assert.match(printed, /^http:/)
  return { server, url: printed.split('\n')[0], token: /Bearer \w+/.exec(printed)?.[0] }
}

export const post = (url, body, headers) => fetch(url, {
  method: 'POST',
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
  body: JSON.stringify(body)
})
