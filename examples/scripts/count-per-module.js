/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the calls that the main thread makes into each module, for half a second, with Stalker.
 *
 *   contrail script examples/scripts/count-per-module.js -p PID */
'use strict';

const counts = new Map();
const thread = Process.enumerateThreads()[0];

Stalker.follow(thread.id, {
  events: {call: true},
  onCallSummary(summary) {
    for (const [target, count] of Object.entries(summary)) {
      const module = Process.findModuleByAddress(ptr(target))?.name ?? 'elsewhere';
      counts.set(module, (counts.get(module) ?? 0) + count);
    }
  },
});

function report() {
  Stalker.flush();
  for (const [module, count] of [...counts].sort((a, b) => b[1] - a[1]))
    console.log(`${String(count).padStart(10)}  ${module}`);
  Contrail.detach();
}

setTimeout(() => {
  Stalker.unfollow(thread.id);
  setTimeout(report, 200); /* a thread that sleeps hands over its last events when it wakes up */
}, 500);
