/* SPDX-License-Identifier: Apache-2.0 */
/* Patches an instruction on the way: whenever the followed thread returns from price(), it returns 1 more. The code of
 * the program stays as it is; only its translation has the additional instruction.
 *
 *   contrail script examples/scripts/patch-instruction.js -- /tmp/sample 3 */
'use strict';

const price = Process.mainModule.getSymbolByName('price');
const main = Process.mainModule.getSymbolByName('licence_is_valid');

/* The first call of licence_is_valid tells which thread it is; from there on it is followed. */
const listener = Interceptor.attach(main, {
  onEnter() {
    listener.detach();
    Stalker.follow({
      transform(iterator) {
        let instruction = iterator.next();
        const inside = instruction.address.compare(price) >= 0 && instruction.address.compare(price.add(64)) < 0;
        do {
          if (inside && instruction.mnemonic === 'ret') {
            if (Process.arch === 'x64')
              iterator.putAddRegImm('rax', 1);
            else
              iterator.putAddRegRegImm('x0', 'x0', 1);
          }
          iterator.keep();
        } while ((instruction = iterator.next()) !== null);
      },
    });
  },
});
