// SPDX-License-Identifier: Apache-2.0
// Reads Parquet datasets with readers that we did not write. Standard input: {"datasets": [DIRECTORY, ...],
// "questions": [SQL, ...]}; standard output: a list with, for each dataset, the rows of every file by hyparquet, and
// the answers of DuckDB. MODULES, the argument, is the directory that npm has installed into.
import { createRequire } from 'node:module'
import { readFileSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(resolve(process.argv[2]), 'package.json'))
const load = name => import(pathToFileURL(require.resolve(name)))
const { parquetReadObjects, parquetMetadata } = await import(
  pathToFileURL(join(resolve(process.argv[2]), 'node_modules/hyparquet/src/index.js')))
const { compressors } = await import(
  pathToFileURL(join(resolve(process.argv[2]), 'node_modules/hyparquet-compressors/src/index.js')))
const { DuckDBInstance } = await load('@duckdb/node-api')

// Whole numbers may be larger than a double holds exactly: they travel as text.
const plain = value => typeof value === 'bigint' ? { integer: String(value) } : value ?? null

function files (directory, under = '') {
  return readdirSync(join(directory, under), { withFileTypes: true }).flatMap(entry =>
    entry.isDirectory() ? files(directory, join(under, entry.name))
      : entry.name.endsWith('.parquet') ? [join(under, entry.name)] : [])
}

async function readFile (path) {
  const bytes = readFileSync(path)
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
  const metadata = parquetMetadata(file)
  const rows = metadata.num_rows ? await parquetReadObjects({ file, compressors }) : []
  return {
    rows: rows.map(row => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plain(value)]))),
    codecs: [...new Set(metadata.row_groups.flatMap(group => group.columns.map(c => c.meta_data.codec)))],
    groups: metadata.row_groups.length
  }
}

async function ask (directory, questions) {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  process.chdir(directory)
  await connection.run(readFileSync('views.sql', 'utf8'))
  const answers = []
  for (const sql of questions) {
    const reader = await connection.runAndReadAll(sql)
    answers.push(reader.getRows().map(row => row.map(plain)))
  }
  connection.closeSync()
  return answers
}

const { datasets, questions } = JSON.parse(readFileSync(0, 'utf8'))
const results = []
for (const dataset of datasets) {
  const read = {}
  for (const path of files(dataset)) read[path] = await readFile(join(dataset, path))
  results.push({ files: read, answers: await ask(dataset, questions) })
}
console.log(JSON.stringify(results))
