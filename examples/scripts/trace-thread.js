/* SPDX-License-Identifier: Apache-2.0 */
/* Follows one thread for a second, and prints what it called: the newest thread, or the one that is named in THREAD.
 *
 *   contrail script examples/scripts/trace-thread.js -p PID */
'use strict';

const SECONDS = 1;
const LINES = 40;
const threads = Process.enumerateThreads();
const wanted = process.env.THREAD;
const thread = threads.find(({name, id}) => name === wanted || String(id) === wanted) ?? threads[threads.length - 1];
const lines = [];
let calls = 0;

/* The list of modules is not asked for every call. */
const names = new Map();
function nameOf(address) {
  const key = address.toString();
  let name = names.get(key);
  if (name === undefined)
    names.set(key, name = DebugSymbol.fromAddress(address).name ?? key);
  return name;
}

Stalker.follow(thread.id, {
  events: {call: true},
  onReceive(events) {
    for (const [, , target, depth] of Stalker.parse(events)) {
      calls++;
      if (lines.length < LINES)
        lines.push('  '.repeat(Math.max(0, Math.min(depth, 20))) + nameOf(target));
    }
  },
});

function report() {
  Stalker.flush();
  console.log(`thread ${thread.id} (${thread.name}): ${calls} calls`);
  console.log(lines.join('\n'));
  Contrail.detach();
}

setTimeout(() => {
  Stalker.unfollow(thread.id);
  setTimeout(report, 200); /* a thread that sleeps hands over its last events when it wakes up */
}, SECONDS * 1000);
