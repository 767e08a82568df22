/* SPDX-License-Identifier: Apache-2.0 */
/* Writes which blocks of code a thread has run, in the format drcov, which many tools read.
 *
 *   DRCOV=run.drcov contrail script examples/scripts/coverage.js -p PID */
'use strict';

const fs = require('node:fs');

const file = process.env.DRCOV ?? 'coverage.drcov';
const modules = Process.enumerateModules();
const blocks = new Map(); /* start: end */
const thread = Process.enumerateThreads()[0];

function receive(events) {
  for (const [start, end] of Stalker.parse(events, {annotate: false, stringify: true}))
    blocks.set(start, end);
}

/* 8 bytes for each block: its offset in the module, its size, the module. */
function table() {
  const rows = [];
  for (const [start, end] of blocks) {
    const address = ptr(start);
    const id = modules.findIndex(({base, size}) => address.compare(base) >= 0 && address.compare(base.add(size)) < 0);
    if (id < 0)
      continue;
    const row = Buffer.alloc(8);
    row.writeUInt32LE(address.sub(modules[id].base).toUInt32(), 0);
    row.writeUInt16LE(ptr(end).sub(address).toUInt32() & 0xffff, 4);
    row.writeUInt16LE(id, 6);
    rows.push(row);
  }
  return rows;
}

function write() {
  const rows = table();
  const list = modules.map(({base, size, path}, i) => `${i}, ${base}, ${base.add(size)}, 0x0, 0x0, 0x0, ${path}`);
  const head = ['DRCOV VERSION: 2', 'DRCOV FLAVOR: contrail', `Module Table: version 2, count ${modules.length}`,
    'Columns: id, base, end, entry, checksum, timestamp, path', ...list, `BB Table: ${rows.length} bbs`, ''];
  fs.writeFileSync(file, Buffer.concat([Buffer.from(head.join('\n')), ...rows]));
  console.log(`${rows.length} blocks in ${file}`);
}

Stalker.follow(thread.id, {events: {compile: true}, onReceive: receive});

function report() {
  Stalker.flush();
  write();
  Contrail.detach();
}

setTimeout(() => {
  Stalker.unfollow(thread.id);
  setTimeout(report, 200); /* a thread that sleeps hands over its last events when it wakes up */
}, 500);
