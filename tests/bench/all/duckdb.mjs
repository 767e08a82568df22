// SPDX-License-Identifier: Apache-2.0
// duckdb.mjs MODULES DATASET: answers {name: SQL} of standard input by DuckDB with one thread, with their seconds.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(resolve(process.argv[2]), 'package.json'))
const { DuckDBInstance } = await import(pathToFileURL(require.resolve('@duckdb/node-api')))
const connection = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
process.chdir(process.argv[3])
await connection.run(readFileSync('views.sql', 'utf8'))
const found = {}
for (const [name, sql] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
  const began = performance.now()
  const reader = await connection.runAndReadAll(sql)
  const seconds = (performance.now() - began) / 1e3
  found[name] = { seconds, answer: reader.getRows()[0].map(Number) }
}
console.log(JSON.stringify(found))
