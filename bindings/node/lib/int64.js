/* SPDX-License-Identifier: Apache-2.0 */
/* Int64 and UInt64: 64-bit numbers with the methods that scripts know. Inside they are a BigInt. */
'use strict';

/* Any number that a script may pass, as a BigInt; `what` names it in the message. */
function toBigInt(value, what = 'a number') {
  if (typeof value === 'bigint')
    return value;
  if (typeof value === 'number') {
    if (!Number.isFinite(value))
      throw new TypeError(`expected ${what}, not ${value}`);
    return BigInt(Math.trunc(value));
  }
  if (typeof value === 'string')
    return parse(value, what);
  if (value !== null && value !== undefined && typeof value.toBigInt === 'function')
    return value.toBigInt();
  if (value !== null && typeof value === 'object' && value.handle !== undefined && value.handle !== value)
    return toBigInt(value.handle, what);
  throw new TypeError(`expected ${what}, not ${value === null ? 'null' : typeof value}`);
}

function parse(text, what) {
  const trimmed = text.trim();
  if (!/^[-+]?(0x[0-9a-f]+|[0-9]+)$/i.test(trimmed))
    throw new TypeError(`expected ${what}, not "${text}"`);
  const negative = trimmed[0] === '-';
  const number = BigInt(trimmed.replace(/^[-+]/, ''));
  return negative ? -number : number;
}

class Wide {
  #value;

  constructor(value = 0) {
    this.#value = this.constructor.wrap(toBigInt(value, 'a 64-bit number'));
  }

  toBigInt() {
    return this.#value;
  }

  #with(value) {
    return new this.constructor(value);
  }

  add(other) {
    return this.#with(this.#value + toBigInt(other));
  }

  sub(other) {
    return this.#with(this.#value - toBigInt(other));
  }

  and(other) {
    return this.#with(this.#value & toBigInt(other));
  }

  or(other) {
    return this.#with(this.#value | toBigInt(other));
  }

  xor(other) {
    return this.#with(this.#value ^ toBigInt(other));
  }

  shl(bits) {
    return this.#with(this.#value << toBigInt(bits));
  }

  shr(bits) {
    return this.#with(this.#value >> toBigInt(bits));
  }

  not() {
    return this.#with(~this.#value);
  }

  compare(other) {
    const right = this.constructor.wrap(toBigInt(other));
    return this.#value === right ? 0 : this.#value < right ? -1 : 1;
  }

  equals(other) {
    return this.compare(other) === 0;
  }

  toNumber() {
    return Number(this.#value);
  }

  toString(radix = 10) {
    return this.#value.toString(radix);
  }

  toJSON() {
    return this.#value.toString();
  }

  valueOf() {
    return Number(this.#value);
  }

  [Symbol.for('nodejs.util.inspect.custom')]() {
    return this.toString();
  }
}

class Int64 extends Wide {
  static wrap(value) {
    return BigInt.asIntN(64, value);
  }
}

class UInt64 extends Wide {
  static wrap(value) {
    return BigInt.asUintN(64, value);
  }
}

module.exports = {
  toBigInt,
  Int64,
  UInt64,
  int64: (value) => new Int64(value),
  uint64: (value) => new UInt64(value),
};
