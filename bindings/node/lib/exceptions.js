/* SPDX-License-Identifier: Apache-2.0 */
/* Process.setExceptionHandler: a function that decides what becomes of a fault. */
'use strict';

const {Registers} = require('./cpu');

const TYPES = {4: 'illegal-instruction', 5: 'breakpoint', 6: 'abort', 7: 'access-violation', 8: 'arithmetic',
  11: 'access-violation'};
const OPERATIONS = [null, 'read', 'write', 'execute']; /* enum ct_script_operation */

function makeExceptionHandler(session) {
  let handler = null;
  return {
    set(callback) {
      if (callback !== null && callback !== undefined && typeof callback !== 'function')
        throw new TypeError('expected a function');
      session.target.watchFaults(Boolean(callback));
      handler = callback ?? null;
    },

    /* True of the handler: the thread goes on with the registers as the handler has left them. */
    handle(request) {
      const registers = new Registers(request, session.arch, session.memory);
      const signal = Number(request.u64('fault'));
      const address = new session.NativePointer(registers.get('pc'));
      const details = {
        type: TYPES[signal] ?? 'system', signal, address,
        context: new session.CpuContext(registers),
        nativeContext: new session.NativePointer(request.u64('return_address')),
      };
      const operation = OPERATIONS[request.u32('id')];
      if (operation)
        details.memory = {operation, address: new session.NativePointer(request.u64('address'))};
      registers.changed = false;
      const handled = handler ? session.guard(() => handler(details)) === true : false;
      registers.changed = handled;
      return registers;
    },
  };
}

module.exports = {makeExceptionHandler};
