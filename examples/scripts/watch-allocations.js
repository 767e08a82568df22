/* SPDX-License-Identifier: Apache-2.0 */
/* Watches allocations of one size, and says who makes them: SIZE, or 4096.
 *
 *   SIZE=4096 contrail script examples/scripts/watch-allocations.js -- /tmp/sample 3 */
'use strict';

const size = Number(process.env.SIZE ?? 4096);

Interceptor.attach(Module.getGlobalExportByName('malloc'), {
  onEnter(args) {
    this.wanted = args[0].toUInt32() === size;
  },
  onLeave(retval) {
    if (!this.wanted)
      return;
    const stack = Thread.backtrace(this.context, Backtracer.ACCURATE).slice(0, 4).map(DebugSymbol.fromAddress);
    console.error(`malloc(${size}) = ${retval}\n    ${stack.join('\n    ')}`);
  },
});
