/* SPDX-License-Identifier: Apache-2.0 */
/* Names of x86_64 registers: number and width in bits. */
'use strict';

const WIDE = ['rax', 'rcx', 'rdx', 'rbx', 'rsp', 'rbp', 'rsi', 'rdi'];
const table = new Map();

WIDE.forEach((name, number) => {
  table.set(name, {number, bits: 64});
  table.set('e' + name.slice(1), {number, bits: 32});
  table.set('x' + name.slice(1), {number, bits: 64}); /* "as wide as the machine" */
});
for (let number = 8; number < 16; number++) {
  table.set('r' + number, {number, bits: 64});
  table.set(`r${number}d`, {number, bits: 32});
}

function register(name) {
  const found = table.get(name);
  if (!found)
    throw new TypeError(`there is no register "${String(name)}" of 32 or 64 bits`);
  return found;
}

/* Names by width, in hardware numbering. */
const LOW8 = ['al', 'cl', 'dl', 'bl', 'spl', 'bpl', 'sil', 'dil'];
const HIGH8 = ['ah', 'ch', 'dh', 'bh'];

function registerName(number, bits, hasRex = true) {
  if (bits === 8 && !hasRex && number >= 4 && number < 8)
    return HIGH8[number - 4];
  if (number >= 8)
    return `r${number}${bits === 64 ? '' : bits === 32 ? 'd' : bits === 16 ? 'w' : 'b'}`;
  const name = WIDE[number];
  return bits === 64 ? name : bits === 32 ? 'e' + name.slice(1) : bits === 16 ? name.slice(1) : LOW8[number];
}

/* Conditions of jcc, setcc and cmovcc, by their number; and all names there are. */
const CONDITIONS = ['o', 'no', 'b', 'ae', 'e', 'ne', 'be', 'a', 's', 'ns', 'p', 'np', 'l', 'ge', 'le', 'g'];
const OTHER_NAMES = {c: 2, nae: 2, nb: 3, nc: 3, z: 4, nz: 5, na: 6, nbe: 7, pe: 10, po: 11, nge: 12, nl: 13, ng: 14,
  nle: 15};

/* The condition of "jb", "jnz" ... */
function condition(jump) {
  const name = String(jump).replace(/^j/, '');
  const number = CONDITIONS.includes(name) ? CONDITIONS.indexOf(name) : OTHER_NAMES[name];
  if (number === undefined)
    throw new TypeError(`there is no conditional jump "${String(jump)}"`);
  return number;
}

module.exports = {register, registerName, condition, CONDITIONS};
