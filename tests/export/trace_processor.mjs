/* SPDX-License-Identifier: Apache-2.0 */
// Asks Perfetto's own trace processor: node trace_processor.mjs ASSETS < JOBS
//
// ASSETS is the directory with trace_processor.wasm, engine_bundle.node.js and engine.mjs. JOBS is JSON:
// [{"trace": PATH, "queries": [SQL, ...]}, ...]. Prints, in the same shape, a list of rows for each query.
//
// The bundle is made for a worker in a browser, so this provides what it expects there: a scope called self, a way to
// load the WebAssembly file, a message with a port.
import fs from 'node:fs';
import path from 'node:path';
import {pathToFileURL} from 'node:url';
import vm from 'node:vm';

const assets = path.resolve(process.argv[2]);

class FileRequest {
  open(method, url) {
    this.url = url;
  }
  send() {
    const bytes = fs.readFileSync(path.join(assets, path.basename(new URL(this.url, 'file:///').pathname)));
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
}

function define(name, value) {
  Object.defineProperty(globalThis, name, {value, writable: true, configurable: true});
}

function startWorker() {
  define('self', globalThis);
  define('WorkerGlobalScope', class {});
  define('location', {href: pathToFileURL(assets).href + '/'});
  define('XMLHttpRequest', FileRequest);
  console.log = console.warn = () => {}; // drops the engine's log; errors are in the table of statistics
  vm.runInThisContext(fs.readFileSync(path.join(assets, 'engine_bundle.node.js'), 'utf8'));
  const channel = new MessageChannel();
  globalThis.onmessage({data: channel.port1});
  return channel.port2;
}

async function main() {
  const {EngineBase} = await import(pathToFileURL(path.join(assets, 'engine.mjs')).href);
  class Engine extends EngineBase {
    constructor(port) {
      super();
      this.mode = 'WASM';
      this.id = 'test';
      this.port = port;
      port.onmessage = message => this.onRpcResponseBytes(message.data);
    }
    rpcSendRequestBytes(bytes) {
      this.port.postMessage(bytes);
    }
  }
  const port = startWorker();
  await new Promise(resolve => setTimeout(resolve, 1000)); // the runtime does not report when it is ready
  const engine = new Engine(port);
  const answers = [];
  for (const job of JSON.parse(fs.readFileSync(0, 'utf8'))) {
    await engine.resetTraceProcessor(
      {cropTrackEvents: false, ingestFtraceInRawTable: false, analyzeTraceProtoContent: false,
       ftraceDropUntilAllCpusValid: false});
    await engine.parse(new Uint8Array(fs.readFileSync(job.trace)));
    await engine.notifyEof();
    const results = [];
    for (const sql of job.queries) {
      const result = await engine.query(sql);
      const rows = [];
      for (const it = result.iter({}); it.valid(); it.next())
        rows.push(result.columns().map(column => {
          const value = it.get(column);
          return typeof value === 'bigint' ? Number(value) : value;
        }));
      results.push(rows);
    }
    answers.push(results);
  }
  fs.writeSync(1, JSON.stringify(answers) + '\n');
  process.exit(0);
}

main().catch(error => {
  fs.writeSync(2, `trace_processor.mjs: ${error?.stack ?? error}\n`);
  process.exit(1);
});
