/* SPDX-License-Identifier: Apache-2.0 */
/* The iterator of a transform, which is the writer too: what a script keeps, leaves out and inserts in one block. */
'use strict';

const {Struct} = require('./struct');
const {CodeBuffer} = require('./code_buffer');
const {decodeInstruction} = require('./instruction');
const {toBigInt} = require('./int64');
const {X86Forms} = require('./x64/writer');
const {Arm64Forms} = require('./a64/writer');
const {condition} = require('./x64/registers');
const a64 = require('./a64/registers');

const EDIT = {keep: 1, bytes: 2, callout: 3, count: 4, label: 5, jump: 6};
const ALWAYS = 16;
const EDIT_BYTES = 64;

/* Adds the parts that every machine has to the writer of one. */
function makeIteratorClass(Forms, jumps) {
  class Iterator extends Forms {
    #session;
    #insns;
    #at = -1;
    #mnemonic = '';
    #exclusive = false;
    #edits = [];
    #code;
    #labels = new Map();

    constructor(session, insns) {
      const code = new CodeBuffer();
      super(code, () => null);
      this.#code = code;
      this.#session = session;
      this.#insns = insns;
    }

    /* 'open': memory may be accessed freely here; 'exclusive': between a load-exclusive and its store (arm64), where
     * anything that is inserted may make the store fail for ever. */
    get memoryAccess() {
      return this.#exclusive ? 'exclusive' : 'open';
    }

    next() {
      this.#flush();
      this.#at++;
      if (this.#at >= this.#insns.length)
        return null;
      const insn = this.#insns[this.#at];
      if (/^lda?x[rp]/.test(this.#mnemonic))
        this.#exclusive = true;
      else if (/^(stl?x[rp]|clrex)/.test(this.#mnemonic))
        this.#exclusive = false;
      const now = decodeInstruction(this.#session.arch, insn.getBytes('bytes', insn.u32('length')), insn.u64('address'),
        this.#session.NativePointer);
      this.#mnemonic = now.mnemonic;
      return now;
    }

    keep() {
      if (this.#at < 0 || this.#at >= this.#insns.length)
        throw new Error('there is no instruction to keep');
      this.#put({kind: EDIT.keep, insn: this.#at});
    }

    /* A function that gets the registers; or a compiled one, with data. */
    putCallout(callout, data) {
      const native = callout !== null && callout !== undefined && typeof callout.toBigInt === 'function';
      if (!native && typeof callout !== 'function')
        throw new TypeError('expected a function, or a pointer to a compiled one');
      this.#put(native
        ? {kind: EDIT.callout, address: callout.toBigInt(), user: data === undefined ? 0n : toBigInt(data)}
        : {kind: EDIT.callout, id: this.#session.stalker.addCallout(callout)});
      return this;
    }

    /* Adds one to a word of the target, without a callback. */
    putCount(address) {
      this.#put({kind: EDIT.count, address: toBigInt(address, 'a pointer')});
      return this;
    }

    putChainingReturn() {
      throw new Error('a block of a followed thread does not return to its caller: keep its last instruction');
    }

    #labelNumber(id) {
      if (!this.#labels.has(id))
        this.#labels.set(id, this.#labels.size + 1);
      return this.#labels.get(id);
    }

    putLabel(id) {
      this.#put({kind: EDIT.label, id: this.#labelNumber(id)});
      return this;
    }

    putJumpTo(id, test) {
      this.#put({kind: EDIT.jump, id: this.#labelNumber(id), user: BigInt(test)});
      return this;
    }

    #put(edit) {
      this.#flush();
      this.#edits.push(edit);
    }

    #flush() {
      const bytes = this.#code.take();
      for (let at = 0; at < bytes.length; at += EDIT_BYTES)
        this.#edits.push({kind: EDIT.bytes, bytes: bytes.subarray(at, at + EDIT_BYTES)});
    }

    /* All edits, as the target takes them. */
    edits() {
      this.#flush();
      const {bytes, items} = Struct.array(this.#session.target.layout.edit, this.#edits.length);
      this.#edits.forEach((edit, i) => {
        items[i].set32('kind', edit.kind).set32('insn', edit.insn ?? 0).set32('id', edit.id ?? 0)
          .set32('length', edit.bytes?.length ?? 0).set64('address', edit.address ?? 0n).set64('user', edit.user ?? 0n);
        if (edit.bytes)
          items[i].setBytes('bytes', edit.bytes);
      });
      return bytes;
    }
  }
  for (const [name, jump] of Object.entries(jumps))
    Object.defineProperty(Iterator.prototype, name, {configurable: true, writable: true, value: jump});
  return Iterator;
}

/* Jumps to labels: distances are known when the block is written, in the target. */
const X64_JUMPS = {
  putJmpShortLabel(id) {
    return this.putJumpTo(id, ALWAYS);
  },
  putJmpNearLabel(id) {
    return this.putJumpTo(id, ALWAYS);
  },
  putJccShortLabel(jump, id) {
    return this.putJumpTo(id, condition(jump));
  },
  putJccNearLabel(jump, id) {
    return this.putJumpTo(id, condition(jump));
  },
};

/* The opposite branch, over the next instruction: the jump. */
function jumpOver(iterator, word, id) {
  return iterator.putInstruction((word | 2 << 5) >>> 0).putJumpTo(id, ALWAYS);
}

const compare = (opcode) => function (name, id) {
  const {number, bits} = a64.register(name);
  return jumpOver(this, (bits === 64 ? 0x80000000 : 0) | opcode | number, id);
};
const testBit = (opcode) => function (name, bit, id) {
  return jumpOver(this, (bit > 31 ? 0x80000000 : 0) | opcode | (bit & 31) << 19 | a64.register(name).number, id);
};

const ARM64_JUMPS = {
  putCbzRegLabel: compare(0x35000000),
  putCbnzRegLabel: compare(0x34000000),
  putTbzRegImmLabel: testBit(0x37000000),
  putTbnzRegImmLabel: testBit(0x36000000),
  putBLabel(id) {
    return this.putJumpTo(id, ALWAYS);
  },
  putBCondLabel(test, id) {
    return this.putJumpTo(id, a64.condition(test));
  },
};

const X64Iterator = makeIteratorClass(X86Forms, X64_JUMPS);
const Arm64Iterator = makeIteratorClass(Arm64Forms, ARM64_JUMPS);

class BlockIterator {
  constructor(session, insns) {
    return session.arch === 'arm64' ? new Arm64Iterator(session, insns) : new X64Iterator(session, insns);
  }
}

module.exports = {BlockIterator, EDIT, ALWAYS};
