/* SPDX-License-Identifier: Apache-2.0 */
/* X86Writer and Arm64Writer as classes of their own: code for a place in the target, which flush() writes. */
'use strict';

const {CodeBuffer} = require('./code_buffer');
const {X86Forms} = require('./x64/writer');
const {Arm64Forms} = require('./a64/writer');
const {toBigInt} = require('./int64');

function makeWriterClass(Forms, session) {
  return class Writer extends Forms {
    #code;
    #base;
    #place;

    /* `place`: where the bytes are written; {pc}: where they will run, when that is elsewhere. */
    constructor(place, {pc} = {}) {
      const code = new CodeBuffer();
      let start = toBigInt(pc ?? place, 'a pointer');
      super(code, () => start + BigInt(code.length));
      this.#code = code;
      this.#base = start;
      this.#place = toBigInt(place, 'a pointer');
      this.reset = (newPlace, options = {}) => {
        code.clear();
        start = toBigInt(options.pc ?? newPlace, 'a pointer');
        this.#base = start;
        this.#place = toBigInt(newPlace, 'a pointer');
      };
    }

    get base() {
      return new session.NativePointer(this.#place);
    }

    get code() {
      return new session.NativePointer(this.#place + BigInt(this.#code.length));
    }

    get pc() {
      return new session.NativePointer(this.#base + BigInt(this.#code.length));
    }

    get offset() {
      return this.#code.length;
    }

    skip(count) {
      this.#code.bytes(session.memory.read(this.#place + BigInt(this.#code.length), count));
    }

    flush() {
      session.memory.write(this.#place, this.#code.peek());
      return true;
    }

    dispose() {
      if (this.#code.length)
        this.flush();
    }
  };
}

const makeWriters = (session) => ({
  X86Writer: makeWriterClass(X86Forms, session),
  Arm64Writer: makeWriterClass(Arm64Forms, session),
});

module.exports = {makeWriters};
