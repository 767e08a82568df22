/* SPDX-License-Identifier: Apache-2.0 */
/* NativePointer: an address in the target, with arithmetic, reading and writing.
 *
 * Each session has a class of its own, because an address means something in one process only. The part that needs no
 * memory is here, accesses are added from the tables of memory_access.js. */
'use strict';

const {toBigInt} = require('./int64');
const {addAccesses} = require('./memory_access');

/* A native function is a pointer too, and a function, which has no private members: so the value has a symbol. */
const VALUE = Symbol('address');
const ADDRESS_BITS = 64;
/* Bits of an arm64 address that are not a signature: user space has at most 48, and bit 55 chooses the half. */
const ARM64_ADDRESS = (1n << 48n) - 1n;

function addArithmetic(NativePointer) {
  const operations = {
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    and: (a, b) => a & b,
    or: (a, b) => a | b,
    xor: (a, b) => a ^ b,
    shl: (a, b) => a << b,
    shr: (a, b) => a >> b,
  };
  for (const [name, operation] of Object.entries(operations))
    Object.defineProperty(NativePointer.prototype, name, {
      configurable: true,
      writable: true,
      value(other) {
        return new NativePointer(operation(this.toBigInt(), toBigInt(other, 'a pointer or a number')));
      },
    });
}

/* memory: {read(address, size), write(address, bytes), arch}. */
function makePointerClass(memory) {
  class NativePointer {
    constructor(value) {
      this[VALUE] = BigInt.asUintN(ADDRESS_BITS, toBigInt(value, 'a pointer'));
    }

    toBigInt() {
      return this[VALUE];
    }

    isNull() {
      return this[VALUE] === 0n;
    }

    not() {
      return new NativePointer(~this[VALUE]);
    }

    equals(other) {
      return this.compare(other) === 0;
    }

    compare(other) {
      const right = BigInt.asUintN(ADDRESS_BITS, toBigInt(other, 'a pointer'));
      return this[VALUE] === right ? 0 : this[VALUE] < right ? -1 : 1;
    }

    toInt32() {
      return Number(BigInt.asIntN(32, this[VALUE]));
    }

    toUInt32() {
      return Number(BigInt.asUintN(32, this[VALUE]));
    }

    toString(radix) {
      return radix === undefined ? '0x' + this[VALUE].toString(16) : this[VALUE].toString(radix);
    }

    toJSON() {
      return this.toString();
    }

    toMatchPattern() {
      const bytes = [];
      for (let i = 0n; i < 64n; i += 8n)
        bytes.push((this[VALUE] >> i & 0xffn).toString(16).padStart(2, '0'));
      return bytes.join(' ');
    }

    /* Nothing outside the target can sign. */
    sign() {
      return this;
    }

    strip() {
      return memory.arch === 'arm64' ? new NativePointer(this[VALUE] & ARM64_ADDRESS) : this;
    }

    blend(small) {
      return new NativePointer((this[VALUE] & ARM64_ADDRESS) | (toBigInt(small) & 0xffffn) << 48n);
    }

    /* 'text ' + pointer is its text; comparisons like < have numbers. */
    [Symbol.toPrimitive](hint) {
      return hint === 'number' ? Number(this[VALUE]) : this.toString();
    }

    [Symbol.for('nodejs.util.inspect.custom')]() {
      return this.toString();
    }
  }
  addArithmetic(NativePointer);
  addAccesses(NativePointer, memory);
  return NativePointer;
}

module.exports = {makePointerClass, VALUE};
