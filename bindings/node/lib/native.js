/* SPDX-License-Identifier: Apache-2.0 */
/* NativeFunction, SystemFunction and NativeCallback: calling the target, and being called by it. */
'use strict';

const {Signature} = require('./convention');
const {Registers} = require('./cpu');
const {VALUE} = require('./pointer');
const {toBigInt} = require('./int64');

const callbacks = new WeakSet();

function isNativeCallback(value) {
  return value !== null && typeof value === 'object' && callbacks.has(value);
}

const EXECUTABLE = 4;
const RETRIES = 50, PAUSE_MS = 20;

/* Outside of callbacks a thread of the target's own must be where it can make one for us, which may take a moment. */
function runPatiently(target, work) {
  for (let tried = 0; ; tried++) {
    try {
      return target.run(work);
    } catch (error) {
      const passing = error.code === 'ERR_BUSY' || /try again later/.test(error.message);
      if (target.waiting || !passing || tried >= RETRIES)
        throw error;
      target.pump(PAUSE_MS);
    }
  }
}

/* Throws where there is no code: the thread that makes the call would die of it, and the program with it. */
function checkIsCode(session, address) {
  if (session.code.has(address))
    return;
  const range = session.target.ranges().find(({start, end}) => address >= start && address < end);
  let isCode = range ? (range.protection & EXECUTABLE) !== 0 : false;
  if (!range)
    try {
      isCode = session.memory.read(address, 1).length === 1; /* memory of our own is not listed */
    } catch { /* nothing is there */ }
  if (!isCode)
    throw new Error(`access violation executing 0x${address.toString(16)}: no code is there`);
  session.code.add(address);
}

/* Words of a call by a thread of the target; the result as its type says. */
function call(session, address, signature, args, wantErrno) {
  const {target, memory} = session;
  const copies = []; /* their memory is taken again when nobody has them */
  const words = signature.putArguments(args, (bytes) => {
    const copy = session.api.Memory.alloc(bytes.length);
    copies.push(copy);
    memory.write(copy.toBigInt(), bytes);
    return copy.toBigInt();
  });
  memory.drop();
  const done = runPatiently(target, {
    function: session.interceptor.originalFor(address),
    general: words.general, vector: words.vector, stack: words.stack, place: words.place,
    errnoFunction: wantErrno ? session.errno.functionAddress() : 0n,
  });
  memory.drop();
  const value = signature.getResult((where, index) => done[where][index], words.place,
    (at, size) => memory.read(at, size));
  copies.length = 0;
  return wantErrno ? {value, errno: done.error} : value;
}

/* A class of functions that are pointers: callable, and with all methods of NativePointer. */
function makeFunctionClass(session, name, wantErrno) {
  const {NativePointer} = session;
  const NativeFunction = function (address, result, types) {
    if (!new.target)
      throw new TypeError(`${name} is made with new`);
    const signature = new Signature(session.arch, result, types, NativePointer);
    const value = BigInt.asUintN(64, toBigInt(address, 'a pointer to a function'));
    const self = (...args) => {
      checkIsCode(session, value);
      return call(session, value, signature, args, wantErrno);
    };
    Object.defineProperty(self, VALUE, {value});
    return Object.setPrototypeOf(self, new.target.prototype);
  };
  Object.defineProperty(NativeFunction, 'name', {value: name});
  NativeFunction.prototype = Object.create(NativePointer.prototype, {
    constructor: {value: NativeFunction, configurable: true, writable: true},
    call: {value(_, ...args) {
      return this(...args);
    }},
    apply: {value(_, args = []) {
      return this(...args);
    }},
  });
  Object.setPrototypeOf(NativeFunction, NativePointer);
  return NativeFunction;
}

/* `this` of a NativeCallback. */
class CallbackContext {
  constructor(session, registers) {
    this.context = new session.CpuContext(registers);
    this.returnAddress = new session.NativePointer(registers.request.u64('return_address'));
    this.threadId = registers.request.i32('tid');
    Object.defineProperty(this, 'errno', {
      get: () => session.errno.get(),
      set: (value) => session.errno.set(value),
    });
  }
}

function makeCallbackClass(session) {
  class NativeCallback extends session.NativePointer {
    constructor(implementation, result, types) {
      if (typeof implementation !== 'function')
        throw new TypeError('expected a function');
      const signature = new Signature(session.arch, result, types, session.NativePointer);
      const {address, id} = session.target.callback();
      super(address);
      callbacks.add(this);
      session.callbacks.set(id, {implementation, signature, callback: this});
    }
  }
  return NativeCallback;
}

/* A request of a function of the target that calls one of ours. */
function handleCallback(session, request) {
  const registers = new Registers(request, session.arch, session.memory);
  const entry = session.callbacks.get(request.u32('id'));
  if (!entry)
    return registers;
  const {implementation, signature, callback} = entry;
  const word = (where, index) => where === 'general' ? registers.argument(index)
    : where === 'stack' ? registers.stackWord(index)
      : session.target.readVector(request, index).readBigUInt64LE(0);
  const place = registers.resultPlace();
  session.guard(() => {
    const args = signature.getArguments(word, (address, size) => session.memory.read(address, size));
    const value = session.inside(callback, () => implementation.apply(new CallbackContext(session, registers), args));
    const words = signature.putResult(value, place, (address, bytes) => session.memory.write(address, bytes));
    words.general.forEach((part, i) => registers.setResult(part, i));
    words.vector.forEach((part, i) => {
      const bytes = Buffer.alloc(16);
      bytes.writeBigUInt64LE(BigInt.asUintN(64, part));
      session.target.writeVector(request, i, bytes);
    });
    registers.changed = true;
  });
  return registers;
}

module.exports = {makeFunctionClass, makeCallbackClass, handleCallback, isNativeCallback};
