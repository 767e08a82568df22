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

setTimeout(() => {
  Stalker.unfollow(thread.id);
  Stalker.flush();
  for (const [module, count] of [...counts].sort((a, b) => b[1] - a[1]))
    console.log(`${String(count).padStart(10)}  ${module}`);
  Contrail.detach();
}, 500);
