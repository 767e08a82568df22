/* SPDX-License-Identifier: Apache-2.0 */
/* The target's memory. During a callback, pages that were read are kept: the thread that waits does not change them,
 * and a script reads a structure field by field. Outside of callbacks nothing is kept, because the target runs.
 *
 * What can change memory (a write, a call in the target) drops what is kept. */
'use strict';

const KEPT_PAGES = 1024;
/* Larger pieces are read at once, past the cache. */
const LARGE = 1 << 16;

class PagedMemory {
  #source;
  #pages = new Map();
  #depth = 0;

  /* source: {pageSize, arch, read(address, size) and write(address, bytes), which throw}. */
  constructor(source) {
    this.#source = source;
  }

  get pageSize() {
    return this.#source.pageSize;
  }

  get arch() {
    return this.#source.arch;
  }

  /* A callback begins and ends; they nest. */
  enter() {
    this.#depth++;
    this.drop();
  }

  leave() {
    this.#depth--;
    this.drop();
  }

  drop() {
    if (this.#pages.size)
      this.#pages.clear();
  }

  #page(address) {
    let page = this.#pages.get(address);
    if (!page) {
      if (this.#pages.size >= KEPT_PAGES)
        this.#pages.clear();
      page = this.#source.read(address, this.pageSize);
      this.#pages.set(address, page);
    }
    return page;
  }

  #part(address, inside, size) {
    try {
      return this.#page(address - BigInt(inside)).subarray(inside, inside + size);
    } catch {
      return this.#source.read(address, size); /* throws with the address that was asked for */
    }
  }

  /* A copy of the bytes, as a Buffer. */
  read(address, size) {
    if (size === 0)
      return Buffer.alloc(0);
    if (this.#depth === 0 || size > LARGE)
      return this.#source.read(address, size);
    const out = Buffer.allocUnsafeSlow(size);
    let done = 0;
    while (done < size) {
      const at = address + BigInt(done);
      const inside = Number(at & BigInt(this.pageSize - 1));
      const part = Math.min(size - done, this.pageSize - inside);
      out.set(this.#part(at, inside, part), done);
      done += part;
    }
    return out;
  }

  write(address, bytes) {
    if (bytes.length === 0)
      return;
    this.#source.write(address, bytes);
    this.drop();
  }
}

module.exports = {PagedMemory};
