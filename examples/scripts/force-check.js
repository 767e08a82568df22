/* SPDX-License-Identifier: Apache-2.0 */
/* Forces the result of a check: the function is replaced, and the program never learns that its licence is wrong.
 *
 *   contrail script examples/scripts/force-check.js -- /tmp/sample 3 */
'use strict';

const check = Process.mainModule.getSymbolByName('licence_is_valid');

Interceptor.replace(check, new NativeCallback((key) => {
  console.log(`licence_is_valid("${key.readUtf8String()}") is true now`);
  return 1;
}, 'int', ['pointer']));
