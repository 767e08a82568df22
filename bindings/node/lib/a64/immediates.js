/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers inside of A64 instructions. */
'use strict';

/* A number as the logical instructions have it (N, immr, imms in their places): a run of ones that is rotated, repeated
 * at a distance of 2, 4, ... 64 bits. Throws for all others. */
function maskOf(value, bits) {
  const wanted = BigInt.asUintN(bits, value);
  for (let size = 2; size <= bits; size *= 2)
    for (let ones = 1; ones < size; ones++)
      for (let turn = 0; turn < size; turn++)
        if (repeated(ones, turn, size, bits) === wanted)
          return (size === 64 ? 1 << 22 : 0) | turn << 16 | (0x3f & ~(2 * size - 1) | ones - 1) << 10;
  throw new RangeError(`0x${wanted.toString(16)} is no run of ones that is rotated or repeated`);
}

function repeated(ones, turn, size, bits) {
  const width = BigInt(size), run = (1n << BigInt(ones)) - 1n;
  const one = BigInt.asUintN(size, run >> BigInt(turn) | run << width - BigInt(turn));
  let all = 0n;
  for (let at = 0n; at < BigInt(bits); at += width)
    all |= one << at;
  return all;
}

module.exports = {maskOf};
