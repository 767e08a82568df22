/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long a function takes: FUNCTION, or look_into of the sample. The time of the callbacks themselves is in
 * it; for short functions a CModule or `contrail spawn` shows more.
 *
 *   FUNCTION=look_into contrail script examples/scripts/latency.js -- /tmp/sample 50 1 */
'use strict';

const name = process.env.FUNCTION ?? 'look_into';
const buckets = new Map(); /* logarithm of microseconds: calls */
let count = 0, total = 0;

Interceptor.attach(DebugSymbol.getFunctionByName(name), {
  onEnter() {
    this.start = process.hrtime.bigint();
  },
  onLeave() {
    const us = Number(process.hrtime.bigint() - this.start) / 1000;
    const bucket = Math.max(0, Math.ceil(Math.log2(us)));
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
    count++;
    total += us;
  },
});

process.on('exit', () => {
  console.error(`${name}: ${count} calls, mean ${(total / Math.max(count, 1)).toFixed(1)} us`);
  for (const [bucket, calls] of [...buckets].sort((a, b) => a[0] - b[0]))
    console.error(`${('< ' + 2 ** bucket).padStart(10)} us ${String(calls).padStart(8)} ` +
      '#'.repeat(Math.ceil(40 * calls / count)));
});
