/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: allocating, copying, protecting, searching and patching in the target. */
'use strict';

const {parsePattern, findPattern} = require('./match');
const {parseProtection, protectionText} = require('./process');
const {toBigInt} = require('./int64');

/* A number of bytes, which may be a UInt64. */
function sizeOf(size) {
  const number = typeof size === 'number' ? size : Number(toBigInt(size, 'a number of bytes'));
  if (!Number.isInteger(number) || number < 0)
    throw new TypeError('expected a number of bytes');
  return number;
}

const READ_WRITE = 3;
const SMALLEST = 16;
const CHUNK = 1 << 16;
const SCAN_STEP = 1 << 20;

/* Small pieces are cut from pages that the target has; a piece is used again when nobody holds its pointer any more. */
class Pool {
  #target;
  #free = new Map(); /* size: addresses */
  #chunk = 0n;
  #left = 0;
  #released = new FinalizationRegistry(({address, size}) => this.#put(address, size));

  constructor(target) {
    this.#target = target;
  }

  #put(address, size) {
    const list = this.#free.get(size) ?? [];
    list.push(address);
    this.#free.set(size, list);
  }

  #cut(size) {
    const again = this.#free.get(size)?.pop();
    if (again !== undefined)
      return again;
    if (this.#left < size) {
      this.#chunk = this.#target.alloc(CHUNK, READ_WRITE);
      this.#left = CHUNK;
    }
    const address = this.#chunk;
    this.#chunk += BigInt(size);
    this.#left -= size;
    return address;
  }

  /* `make` wraps the address in what the script holds. */
  take(bytes, make) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(bytes, SMALLEST)));
    const address = this.#cut(size);
    const pointer = make(address);
    this.#released.register(pointer, {address, size});
    return pointer;
  }
}

function makeMemory(session) {
  const {target, memory, NativePointer} = session;
  const pool = new Pool(target);

  /* As in C: zeroes. */
  const alloc = (bytes, options) => {
    const size = sizeOf(bytes);
    if (size === 0)
      throw new TypeError('expected a number of bytes');
    if (size <= target.pageSize / 2 && !options?.near) {
      const pointer = pool.take(size, (address) => new NativePointer(address));
      memory.write(pointer.toBigInt(), Buffer.alloc(size));
      return pointer;
    }
    const near = options?.near ? toBigInt(options.near, 'a pointer') : 0n;
    return new NativePointer(target.alloc(size, READ_WRITE, near));
  };

  const allocText = (text, encoding) => {
    const bytes = Buffer.from(String(text) + '\0', encoding);
    const pointer = alloc(bytes.length);
    memory.write(pointer.toBigInt(), bytes);
    return pointer;
  };

  const copy = (to, from, size) => {
    memory.write(toBigInt(to, 'a pointer'), memory.read(toBigInt(from, 'a pointer'), sizeOf(size)));
  };

  const rangeAt = (address) => target.ranges().find(({start, end}) => address >= start && address < end);

  /* What begins in the overlap of two steps is found in the second one. */
  const scanFrom = function* (address, size, pattern) {
    const parsed = parsePattern(pattern);
    const start = toBigInt(address, 'a pointer'), all = sizeOf(size), overlap = parsed.span - 1;
    for (let at = 0; at < all; at += SCAN_STEP) {
      const bytes = memory.read(start + BigInt(at), Math.min(SCAN_STEP + overlap, all - at));
      for (const [offset, length] of findPattern(bytes, parsed))
        if (offset < SCAN_STEP)
          yield {address: new NativePointer(start + BigInt(at + offset)), size: length};
    }
  };

  /* Words at their natural places that are one of `values`, under a mask. */
  const findPointers = (ranges, values, {mask = -1n} = {}) => {
    const bits = BigInt.asUintN(64, toBigInt(mask, 'a mask'));
    const wanted = new Set(values.map((value) => BigInt.asUintN(64, toBigInt(value, 'a pointer')) & bits));
    const out = [];
    for (const {base, size} of [ranges].flat()) {
      const from = toBigInt(base, 'a range: {base, size}'), end = from + BigInt(sizeOf(size));
      for (let at = (from + 7n) & ~7n; at + 8n <= end; at += BigInt(SCAN_STEP)) {
        const part = end - at < BigInt(SCAN_STEP) ? Number((end - at) & ~7n) : SCAN_STEP;
        const words = new BigUint64Array(Uint8Array.from(memory.read(at, part)).buffer);
        words.forEach((word, i) => {
          if (wanted.has(word & bits))
            out.push({address: new NativePointer(at + BigInt(8 * i)), value: new NativePointer(word)});
        });
      }
    }
    return out.sort((a, b) => a.address.compare(b.address));
  };

  return {
    alloc,
    allocUtf8String: (text) => allocText(text, 'utf8'),
    allocUtf16String: (text) => allocText(text, 'utf16le'),
    allocAnsiString: () => {
      throw new Error('ANSI strings are of Windows');
    },
    copy,
    dup(address, size) {
      const pointer = alloc(size);
      copy(pointer, address, size);
      return pointer;
    },
    protect(address, bytes, protection) {
      const bits = parseProtection(protection), size = sizeOf(bytes);
      if (size === 0)
        return true;
      try {
        target.protect(toBigInt(address, 'a pointer'), size, bits);
        return true;
      } catch (error) {
        if (error.code === 'ERR_BAD_STATE' || error.code === 'ERR_UNSUPPORTED')
          throw error;
        return false;
      }
    },
    queryProtection(address) {
      const found = rangeAt(toBigInt(address, 'a pointer'));
      if (!found)
        throw new Error(`nothing is mapped at ${address}`);
      return protectionText(found.protection);
    },
    /* `apply` gets a place where it may write; what it has written is put into the code at once. */
    patchCode(address, bytes, apply) {
      const size = sizeOf(bytes);
      const at = toBigInt(address, 'a pointer');
      const before = memory.read(at, size);
      const scratch = alloc(size);
      memory.write(scratch.toBigInt(), before);
      apply(scratch);
      memory.write(at, memory.read(scratch.toBigInt(), size));
    },
    findPointers,
    scanSync: (address, size, pattern) => [...scanFrom(address, size, pattern)],
    async scan(address, size, pattern, callbacks) {
      try {
        for (const match of scanFrom(address, size, pattern))
          if (callbacks.onMatch(match.address, match.size) === 'stop')
            break;
      } catch (error) {
        if (!callbacks.onError)
          throw error;
        callbacks.onError(String(error.message));
      }
      callbacks.onComplete?.();
    },
  };
}

/* Memory.readU8(p) and so on, as they were before they became methods of pointers. */
function addOldForms(Memory, NativePointer) {
  for (const name of Object.getOwnPropertyNames(NativePointer.prototype))
    if (/^(read|write)[A-Z]/.test(name))
      Memory[name] ??= (pointer, ...args) => new NativePointer(pointer)[name](...args);
}

module.exports = {makeMemory, addOldForms};
