/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a return value: the program believes that another user runs it.
 *
 *   contrail script examples/scripts/change-return.js -- id -u */
'use strict';

const USER = 4711;

for (const name of ['getuid', 'geteuid'])
  Interceptor.attach(Module.getGlobalExportByName(name), {
    onLeave(retval) {
      console.error(`${name}: ${retval.toInt32()} becomes ${USER}`);
      retval.replace(ptr(USER));
    },
  });
