/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing through a NativePointer: numbers of all widths, and strings. */
'use strict';

const {toBigInt, Int64, UInt64} = require('./int64');
const {bytesOf} = require('./hexdump');

const LITTLE = true;
const TEXT_STEP = 256; /* a text whose length is not known is read in steps, which end at the end of a page */
const TEXT_MAX = 1 << 26;

/* name: [size, read from a DataView, write to a DataView] */
const NUMBERS = {
  S8: [1, (v) => v.getInt8(0), (v, x) => v.setInt8(0, Number(x))],
  U8: [1, (v) => v.getUint8(0), (v, x) => v.setUint8(0, Number(x))],
  S16: [2, (v) => v.getInt16(0, LITTLE), (v, x) => v.setInt16(0, Number(x), LITTLE)],
  U16: [2, (v) => v.getUint16(0, LITTLE), (v, x) => v.setUint16(0, Number(x), LITTLE)],
  S32: [4, (v) => v.getInt32(0, LITTLE), (v, x) => v.setInt32(0, Number(x), LITTLE)],
  U32: [4, (v) => v.getUint32(0, LITTLE), (v, x) => v.setUint32(0, Number(x), LITTLE)],
  S64: [8, (v) => new Int64(v.getBigInt64(0, LITTLE)), (v, x) => v.setBigInt64(0, toBigInt(x), LITTLE)],
  U64: [8, (v) => new UInt64(v.getBigUint64(0, LITTLE)), (v, x) => v.setBigUint64(0, toBigInt(x), LITTLE)],
  Float: [4, (v) => v.getFloat32(0, LITTLE), (v, x) => v.setFloat32(0, Number(x), LITTLE)],
  Double: [8, (v) => v.getFloat64(0, LITTLE), (v, x) => v.setFloat64(0, Number(x), LITTLE)],
};
/* Names of C for the same. */
Object.assign(NUMBERS, {
  Short: NUMBERS.S16,
  UShort: NUMBERS.U16,
  Int: NUMBERS.S32,
  UInt: NUMBERS.U32,
  Long: NUMBERS.S64,
  ULong: NUMBERS.U64,
});

function viewOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/* Bytes up to the first unit of `unit` zero bytes, without it; `limit` bytes when there is none. */
function readUntilZero(memory, address, unit, limit) {
  const parts = [];
  let total = 0;
  while (total < limit) {
    const at = address + BigInt(total);
    const room = memory.pageSize - Number(at & BigInt(memory.pageSize - 1));
    const step = Math.min(limit - total, room >= unit ? Math.min(TEXT_STEP, room - room % unit) : unit);
    const bytes = memory.read(at, step);
    for (let i = 0; i + unit <= bytes.length; i += unit) {
      if (bytes[i] === 0 && (unit === 1 || bytes[i + 1] === 0)) {
        parts.push(bytes.subarray(0, i));
        return Buffer.concat(parts);
      }
    }
    parts.push(bytes);
    total += step;
  }
  return Buffer.concat(parts);
}

function limitOf(size, unit) {
  return size === undefined || size === -1 ? TEXT_MAX : size * unit;
}

function define(prototype, name, value) {
  Object.defineProperty(prototype, name, {configurable: true, writable: true, value});
}

function addNumbers(prototype, memory) {
  for (const [name, [size, get, set]] of Object.entries(NUMBERS)) {
    define(prototype, 'read' + name, function () {
      return get(viewOf(memory.read(this.toBigInt(), size)));
    });
    define(prototype, 'write' + name, function (value) {
      const bytes = new Uint8Array(size);
      set(viewOf(bytes), value);
      memory.write(this.toBigInt(), bytes);
      return this;
    });
  }
}

function addPointers(NativePointer, memory) {
  define(NativePointer.prototype, 'readPointer', function () {
    return new NativePointer(viewOf(memory.read(this.toBigInt(), 8)).getBigUint64(0, LITTLE));
  });
  define(NativePointer.prototype, 'writePointer', function (value) {
    const bytes = new Uint8Array(8);
    viewOf(bytes).setBigUint64(0, BigInt.asUintN(64, toBigInt(value, 'a pointer')), LITTLE);
    memory.write(this.toBigInt(), bytes);
    return this;
  });
}

function addBytes(prototype, memory) {
  const read = function (size) {
    if (!Number.isInteger(size) || size < 0)
      throw new TypeError('expected a number of bytes');
    const bytes = memory.read(this.toBigInt(), size);
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  };
  const write = function (data) {
    memory.write(this.toBigInt(), bytesOf(data));
    return this;
  };
  define(prototype, 'readByteArray', read);
  define(prototype, 'readVolatile', read);
  define(prototype, 'writeByteArray', write);
  define(prototype, 'writeVolatile', write);
}

/* A null pointer has no text: null, as scripts expect it. */
function addTexts(prototype, memory) {
  define(prototype, 'readCString', function (size) {
    return this.isNull() ? null : readUntilZero(memory, this.toBigInt(), 1, limitOf(size, 1)).toString('utf8');
  });
  define(prototype, 'readUtf8String', function (size) {
    if (this.isNull())
      return null;
    const bytes = readUntilZero(memory, this.toBigInt(), 1, limitOf(size, 1));
    try {
      return new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes);
    } catch {
      throw new Error(`${this} holds no UTF-8 text`);
    }
  });
  define(prototype, 'readUtf16String', function (length) {
    return this.isNull() ? null : readUntilZero(memory, this.toBigInt(), 2, limitOf(length, 2)).toString('utf16le');
  });
  define(prototype, 'readAnsiString', function () {
    throw new Error('ANSI strings are of Windows');
  });
  define(prototype, 'writeUtf8String', function (text) {
    memory.write(this.toBigInt(), Buffer.from(String(text) + '\0', 'utf8'));
    return this;
  });
  define(prototype, 'writeUtf16String', function (text) {
    memory.write(this.toBigInt(), Buffer.from(String(text) + '\0', 'utf16le'));
    return this;
  });
  define(prototype, 'writeAnsiString', function () {
    throw new Error('ANSI strings are of Windows');
  });
}

/* memory: {pageSize, read(address, size), write(address, bytes)}; addresses are BigInts. */
function addAccesses(NativePointer, memory) {
  addNumbers(NativePointer.prototype, memory);
  addPointers(NativePointer, memory);
  addBytes(NativePointer.prototype, memory);
  addTexts(NativePointer.prototype, memory);
}

module.exports = {addAccesses, NUMBERS};
