/* SPDX-License-Identifier: Apache-2.0 */
/* Code being written: bytes with labels whose distances are filled in later. Writers of both machines use it.
 *
 * In a transform labels may be on the other side of a kept instruction: there the target knows the distances, and the
 * iterator (transform.js) takes labels and jumps itself. */
'use strict';

class CodeBuffer {
  #bytes = [];
  #labels = new Map();
  #fixes = [];

  get length() {
    return this.#bytes.length;
  }

  u8(...values) {
    for (const value of values)
      this.#bytes.push(value & 0xff);
  }

  u32(value) {
    const word = Number(BigInt.asUintN(32, BigInt(value)));
    this.u8(word, word >>> 8, word >>> 16, word >>> 24);
  }

  u64(value) {
    const word = BigInt.asUintN(64, BigInt(value));
    this.u32(word & 0xffffffffn);
    this.u32(word >> 32n);
  }

  bytes(data) {
    for (const byte of data)
      this.#bytes.push(byte);
  }

  label(id) {
    if (this.#labels.has(id))
      throw new Error(`the label ${String(id)} is there already`);
    this.#labels.set(id, this.length);
  }

  /* fix(bytes, at, distance): writes the distance from `at` to the label; throws when it does not reach. */
  reference(id, at, fix) {
    this.#fixes.push({id, at, fix});
  }

  /* All references become distances. */
  resolve() {
    for (const {id, at, fix} of this.#fixes) {
      if (!this.#labels.has(id))
        throw new Error(`there is no label ${String(id)}`);
      fix(this.#bytes, at, this.#labels.get(id) - at);
    }
    this.#fixes = [];
  }

  take() {
    const out = this.peek();
    this.clear();
    return out;
  }

  clear() {
    this.#bytes = [];
    this.#fixes = [];
    this.#labels.clear();
  }

  peek() {
    this.resolve();
    return Buffer.from(this.#bytes);
  }
}

module.exports = {CodeBuffer};
