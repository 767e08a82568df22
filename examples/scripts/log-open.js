/* SPDX-License-Identifier: Apache-2.0 */
/* Logs every file that is opened, with its path and what came of it.
 *
 *   contrail script examples/scripts/log-open.js -- cat /etc/hostname */
'use strict';

const PATH_ARGUMENT = {open: 0, open64: 0, openat: 1, openat64: 1, fopen: 0, fopen64: 0};
const seen = new Set();

for (const [name, at] of Object.entries(PATH_ARGUMENT)) {
  const address = Module.findGlobalExportByName(name);
  if (address === null || seen.has(address.toString()))
    continue; /* open64 is open on machines of 64 bits */
  seen.add(address.toString());
  Interceptor.attach(address, {
    onEnter(args) {
      this.path = args[at].readUtf8String();
    },
    onLeave(retval) {
      const failed = name.startsWith('fopen') ? retval.isNull() : retval.toInt32() < 0;
      console.log(`${name}("${this.path}") = ${failed ? `failed, errno ${this.errno}` : retval.toInt32()}`);
    },
  });
}
