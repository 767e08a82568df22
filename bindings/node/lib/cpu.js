/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of a thread that waits: `this.context`, arguments and results. What is written takes effect with the answer
 * to the request. */
'use strict';

const {VALUE} = require('./pointer');
const {pointerOf} = require('./types');

/* Kinds of requests (KIND in target.js) that are made when a function is entered. */
const ENTRIES = [1, 3, 5];
const VECTORS = 32, VECTOR_BYTES = 16; /* of arm64 */
const X64 = ['rax', 'rcx', 'rdx', 'rbx', 'rsp', 'rbp', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11', 'r12', 'r13',
  'r14', 'r15'];

/* name: [field, index] in the request */
function x64Registers() {
  const table = {};
  X64.forEach((name, i) => table[name] = ['gpr', i]);
  return {...table, sp: ['gpr', 4], rip: ['pc', 0], pc: ['pc', 0], rflags: ['flags', 0]};
}

function arm64Registers() {
  const table = {};
  for (let i = 0; i < 29; i++)
    table['x' + i] = i < 16 ? ['gpr', i] : ['more', i - 16];
  return {...table, fp: ['more', 13], lr: ['more', 14], sp: ['more', 15], pc: ['pc', 0], nzcv: ['flags', 0]};
}

const MACHINES = {
  x64: {
    registers: x64Registers(), general: ['rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9'], result: ['rax', 'rdx'],
    resultPlace: 'rdi', stackAtEntry: 8n,
  },
  arm64: {
    registers: arm64Registers(), general: ['x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7'], result: ['x0', 'x1'],
    resultPlace: 'x8', stackAtEntry: 0n,
  },
};

/* The registers of a request by name; `changed` says that one was written. */
class Registers {
  changed = false;

  constructor(request, arch, memory) {
    this.request = request;
    this.machine = MACHINES[arch];
    this.memory = memory;
  }

  get(name) {
    const [field, index] = this.machine.registers[name];
    return this.request.u64(field, index);
  }

  set(name, value) {
    const [field, index] = this.machine.registers[name];
    this.request.set64(field, value, index);
    this.changed = true;
  }

  #stackSlot(index) {
    return this.get('sp') + this.machine.stackAtEntry + 8n * BigInt(index);
  }

  /* Argument n at the entry of a function, when all are whole numbers or pointers. */
  argument(n) {
    const {general} = this.machine;
    return n < general.length ? this.get(general[n]) : this.stackWord(n - general.length);
  }

  setArgument(n, value) {
    const {general} = this.machine;
    if (n < general.length)
      return this.set(general[n], value);
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt.asUintN(64, value));
    this.memory.write(this.#stackSlot(n - general.length), bytes);
  }

  stackWord(index) {
    return this.memory.read(this.#stackSlot(index), 8).readBigUInt64LE(0);
  }

  result(index = 0) {
    return this.get(this.machine.result[index]);
  }

  /* At the entry of a function whose result is in memory: where. */
  resultPlace() {
    return this.get(this.machine.resultPlace);
  }

  setResult(value, index = 0) {
    this.set(this.machine.result[index], value);
  }
}

/* Vector registers of arm64: q0 (an ArrayBuffer), d0 and s0 (numbers), and so on. `access(context)` has their bytes.
 * What is written to d0 or s0 clears the rest of q0, as the machine does. */
function defineVectors(prototype, access) {
  const views = {
    q: {get: (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + VECTOR_BYTES),
      put: (bytes, value) => bytes.set(Buffer.from(value).subarray(0, VECTOR_BYTES))},
    d: {get: (bytes) => bytes.readDoubleLE(0), put: (bytes, value) => bytes.writeDoubleLE(value)},
    s: {get: (bytes) => bytes.readFloatLE(0), put: (bytes, value) => bytes.writeFloatLE(value)},
  };
  for (let n = 0; n < VECTORS; n++)
    for (const [letter, {get, put}] of Object.entries(views))
      Object.defineProperty(prototype, letter + n, {
        get() {
          return get(access(this).read(n));
        },
        set(value) {
          const bytes = Buffer.alloc(VECTOR_BYTES);
          put(bytes, value);
          access(this).write(n, bytes);
        },
      });
}

/* this.context: a property for each register. */
function makeContextClass(arch, NativePointer, target) {
  class CpuContext {
    #registers;

    constructor(registers) {
      this.#registers = registers;
    }

    static of(registers) {
      return new CpuContext(registers);
    }

    static tidOf(context) {
      return #registers in context ? context.#registers.request.i32('tid') : undefined;
    }

    /* Is the thread at the first instruction of a function? */
    static isOfEntry(context, waiting) {
      const request = context !== null && #registers in context ? context.#registers.request : context ? null : waiting;
      return request !== null && ENTRIES.includes(request.u32('kind'));
    }

    toJSON() {
      return Object.fromEntries(Object.keys(MACHINES[arch].registers).map((name) => [name, this[name]]));
    }

    static {
      if (arch === 'arm64')
        defineVectors(CpuContext.prototype, (context) => ({
          read: (n) => target.readVector(context.#registers.request, n),
          write: (n, bytes) => target.writeVector(context.#registers.request, n, bytes),
        }));
      for (const name of Object.keys(MACHINES[arch].registers))
        Object.defineProperty(CpuContext.prototype, name, {
          enumerable: true,
          get() {
            return new NativePointer(this.#registers.get(name));
          },
          set(value) {
            this.#registers.set(name, pointerOf(value));
          },
        });
    }
  }
  return CpuContext;
}

/* args: an object whose members 0, 1, ... are read and written as they are used. */
function makeArguments(registers, NativePointer) {
  const indexOf = (name) => typeof name === 'string' && /^[0-9]+$/.test(name) ? Number(name) : -1;
  return new Proxy([], {
    get(list, name) {
      const index = indexOf(name);
      return index < 0 ? Reflect.get(list, name) : new NativePointer(registers.argument(index));
    },
    set(list, name, value) {
      const index = indexOf(name);
      if (index < 0)
        return Reflect.set(list, name, value);
      registers.setArgument(index, pointerOf(value));
      return true;
    },
  });
}

/* retval: a pointer that can be replaced. */
function makeResultClass(NativePointer) {
  return class InvocationReturnValue extends NativePointer {
    #registers;

    constructor(registers) {
      super(registers.result());
      this.#registers = registers;
    }

    replace(value) {
      this[VALUE] = BigInt.asUintN(64, typeof value === 'boolean' ? BigInt(value) : pointerOf(value));
      this.#registers.setResult(this[VALUE]);
    }
  };
}

module.exports = {Registers, MACHINES, makeContextClass, makeArguments, makeResultClass};
