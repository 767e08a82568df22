/* SPDX-License-Identifier: Apache-2.0 */
/* errno of the thread that waits: the thread itself asks its C library where it is. */
'use strict';

const NAMES = ['__errno_location', '___errno_location', '__errno'];

class Errno {
  #session;
  #function = null;

  constructor(session) {
    this.#session = session;
  }

  functionAddress() {
    for (const name of NAMES)
      this.#function ??= this.#session.modules.findGlobal(name) ?? this.#session.target.findFunctions(name)[0] ?? null;
    if (this.#function === null)
      throw new Error('the target has no __errno_location: errno is not known');
    return this.#function;
  }

  #place() {
    if (!this.#session.target.waiting)
      throw new Error('errno is of the thread that a callback is of');
    return this.#session.target.run({function: this.functionAddress()}).general[0];
  }

  get() {
    return this.#session.target.read(this.#place(), 4).readInt32LE(0);
  }

  set(value) {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value);
    this.#session.memory.write(this.#place(), bytes);
  }
}

module.exports = {Errno};
