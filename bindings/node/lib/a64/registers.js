/* SPDX-License-Identifier: Apache-2.0 */
/* Names of A64 registers and conditions. */
'use strict';

const table = new Map();
for (let number = 0; number < 31; number++) {
  table.set('x' + number, {number, bits: 64});
  table.set('w' + number, {number, bits: 32});
}
for (const [name, number, bits] of [['fp', 29, 64], ['lr', 30, 64], ['sp', 31, 64], ['xzr', 31, 64], ['wzr', 31, 32],
  ['wsp', 31, 32], ['ip0', 16, 64], ['ip1', 17, 64]])
  table.set(name, {number, bits});
for (let number = 0; number < 32; number++) {
  table.set('s' + number, {number, bits: 32, vector: true});
  table.set('d' + number, {number, bits: 64, vector: true});
  table.set('q' + number, {number, bits: 128, vector: true});
}

function register(name) {
  const found = table.get(name);
  if (!found)
    throw new TypeError(`there is no register "${String(name)}"`);
  return found;
}

const CONDITIONS = ['eq', 'ne', 'hs', 'lo', 'mi', 'pl', 'vs', 'vc', 'hi', 'ls', 'ge', 'lt', 'gt', 'le', 'al', 'nv'];

function condition(name) {
  const number = CONDITIONS.indexOf({cs: 'hs', cc: 'lo'}[name] ?? name);
  if (number < 0)
    throw new TypeError(`there is no condition "${String(name)}"`);
  return number;
}

module.exports = {register, condition};
