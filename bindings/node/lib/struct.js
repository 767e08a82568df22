/* SPDX-License-Identifier: Apache-2.0 */
/* Structures of C in memory of their own: fields by name, at the places that the addon reports. */
'use strict';

class Struct {
  #view;

  /* layout: {size, field: offset, ...}; `count` of them, one after the other. */
  constructor(layout, bytes = new Uint8Array(new ArrayBuffer(layout.size)), at = 0) {
    this.layout = layout;
    this.bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset + at, layout.size);
  }

  static array(layout, count) {
    const bytes = new Uint8Array(new ArrayBuffer(layout.size * count));
    return {bytes, items: Array.from({length: count}, (_, i) => new Struct(layout, bytes, i * layout.size))};
  }

  u32(field, index = 0) {
    return this.#view.getUint32(this.layout[field] + 4 * index, true);
  }

  i32(field) {
    return this.#view.getInt32(this.layout[field], true);
  }

  u64(field, index = 0) {
    return this.#view.getBigUint64(this.layout[field] + 8 * index, true);
  }

  set32(field, value, index = 0) {
    this.#view.setUint32(this.layout[field] + 4 * index, value, true);
    return this;
  }

  set64(field, value, index = 0) {
    this.#view.setBigUint64(this.layout[field] + 8 * index, BigInt.asUintN(64, BigInt(value)), true);
    return this;
  }

  setBytes(field, data) {
    new Uint8Array(this.#view.buffer, this.#view.byteOffset + this.layout[field], data.length).set(data);
    return this;
  }

  getBytes(field, size) {
    const start = this.#view.byteOffset + this.layout[field];
    return Buffer.from(this.#view.buffer.slice(start, start + size));
  }
}

module.exports = {Struct};
