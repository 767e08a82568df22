/* SPDX-License-Identifier: Apache-2.0 */
/* X86Writer: machine code of x86_64, one method per form.
 *
 * `sink` decides what an address means: {here(): address of the next byte or null, pointer(value): BigInt}. Without an
 * address of its own the code reaches others through literals. */
'use strict';

const {toBigInt} = require('../int64');
const {register, condition} = require('./registers');

const RAX = 0, RSP = 4, RBP = 5;
const ARGUMENTS = ['rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9'];

function fits(value, bits) {
  return BigInt.asIntN(bits, value) === value;
}

function signed32(value) {
  const wide = toBigInt(value);
  if (!fits(wide, 32) && BigInt.asUintN(32, wide) !== wide)
    throw new RangeError(`${value} needs more than 32 bits`);
  return BigInt.asIntN(32, wide);
}

/* Writes one byte or four of distance; `at` is where the distance is, which ends the instruction. */
function fix8(bytes, at, distance) {
  if (distance - 1 < -128 || distance - 1 > 127)
    throw new RangeError('a short jump does not reach its label; use the near form');
  bytes[at] = (distance - 1) & 0xff;
}

function fix32(bytes, at, distance) {
  const value = distance - 4;
  for (let i = 0; i < 4; i++)
    bytes[at + i] = value >> (8 * i) & 0xff;
}

/* What instructions are made of. Each `put` returns the writer. */
class X86Encoder {
  constructor(buffer, here) {
    this.buffer = buffer;
    this.here = here;
  }

  rex(wide, reg, index, base, force = false) {
    const byte = 0x40 | (wide ? 8 : 0) | (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3;
    if (byte !== 0x40 || force)
      this.buffer.u8(byte);
  }

  /* opcode with two registers; opcodes of two bytes are [0x0f, x]. */
  registers(opcode, wide, reg, rm) {
    this.rex(wide, reg, 0, rm);
    this.buffer.u8(...[opcode].flat(), 0xc0 | (reg & 7) << 3 | rm & 7);
  }

  /* opcode with memory at [base + offset]. */
  memory(opcode, wide, reg, base, offset, prefix = []) {
    const distance = signed32(offset);
    this.buffer.u8(...prefix);
    this.rex(wide, reg, 0, base);
    const mode = distance === 0n && (base & 7) !== RBP ? 0 : fits(distance, 8) ? 1 : 2;
    this.buffer.u8(...[opcode].flat(), mode << 6 | (reg & 7) << 3 | base & 7);
    if ((base & 7) === RSP)
      this.buffer.u8(0x24);
    this.#displacement(mode, distance);
  }

  indexed(opcode, wide, reg, base, index, scale, offset) {
    const shift = [1, 2, 4, 8].indexOf(scale);
    if (shift < 0 || index === RSP)
      throw new RangeError('an index is scaled by 1, 2, 4 or 8, and is not rsp');
    const distance = signed32(offset);
    const mode = distance === 0n && (base & 7) !== RBP ? 0 : fits(distance, 8) ? 1 : 2;
    this.rex(wide, reg, index, base);
    this.buffer.u8(...[opcode].flat(), mode << 6 | (reg & 7) << 3 | RSP, shift << 6 | (index & 7) << 3 | base & 7);
    this.#displacement(mode, distance);
  }

  #displacement(mode, distance) {
    if (mode === 1)
      this.buffer.u8(Number(distance));
    else if (mode === 2)
      this.buffer.u32(distance);
  }

  /* opcode with memory near the code. `after`: bytes of the instruction behind the distance. */
  near(opcode, wide, reg, address, after = 0, prefix = []) {
    this.buffer.u8(...prefix);
    this.rex(wide, reg, 0, 0);
    this.buffer.u8(...[opcode].flat(), (reg & 7) << 3 | 5);
    this.buffer.u32(this.distance(address, 4 + after));
  }

  /* A number of up to 32 bits, or an address that only this form can hold. */
  absolute(opcode, wide, reg, address, prefix = []) {
    this.buffer.u8(...prefix);
    this.rex(wide, reg, 0, 0);
    this.buffer.u8(...[opcode].flat(), (reg & 7) << 3 | RSP, 0x25);
    this.buffer.u32(signed32(address));
  }

  distance(address, length) {
    const here = this.here();
    if (here === null)
      throw new Error('code in a block has no address of its own that another could be near to');
    const distance = toBigInt(address, 'an address') - (here + BigInt(length));
    if (!fits(distance, 32))
      throw new RangeError(`${address} is too far away`);
    return distance;
  }

  reaches(address, length) {
    const here = this.here();
    return here !== null && fits(toBigInt(address) - (here + BigInt(length)), 32);
  }
}

const ARITHMETIC = {Add: 0, Or: 1, And: 4, Sub: 5, Xor: 6, Cmp: 7};

/* Methods that any writer of x86_64 has; what is special in a transform is left to the class (jumpTo, labelAt). */
class X86Forms {
  #code;

  constructor(buffer, here) {
    this.#code = new X86Encoder(buffer, here);
    this.#buffer = buffer;
  }

  #buffer;

  #put(...bytes) {
    this.#buffer.u8(...bytes);
    return this;
  }

  #pair(opcode, to, from) {
    const a = register(to), b = register(from);
    if (a.bits !== b.bits)
      throw new TypeError(`${to} and ${from} are not of one width`);
    this.#code.registers(opcode, a.bits === 64, b.number, a.number);
    return this;
  }

  #immediate(operation, name, value) {
    const {number, bits} = register(name);
    const small = signed32(value);
    this.#code.registers(fits(small, 8) ? 0x83 : 0x81, bits === 64, operation, number);
    if (fits(small, 8))
      this.#buffer.u8(Number(small));
    else
      this.#buffer.u32(small);
    return this;
  }

  #single(opcode, digit, name, wide) {
    const {number, bits} = register(name);
    this.#code.registers(opcode, wide ?? bits === 64, digit, number);
    return this;
  }

  #load(opcode, name, base, offset, prefix) {
    const {number, bits} = register(name);
    this.#code.memory(opcode, bits === 64, number, register(base).number, offset, prefix);
    return this;
  }

  /* ---- labels and jumps ---- */

  putLabel(id) {
    this.#buffer.label(id);
    return this;
  }

  #toLabel(opcode, id, fix, size) {
    this.#buffer.u8(...[opcode].flat());
    const at = this.#buffer.length;
    this.#buffer.u8(...new Array(size).fill(0));
    this.#buffer.reference(id, at, fix);
    return this;
  }

  putJmpShortLabel(id) {
    return this.#toLabel(0xeb, id, fix8, 1);
  }

  putJmpNearLabel(id) {
    return this.#toLabel(0xe9, id, fix32, 4);
  }

  putJccShortLabel(jump, id) {
    return this.#toLabel(0x70 | condition(jump), id, fix8, 1);
  }

  putJccNearLabel(jump, id) {
    return this.#toLabel([0x0f, 0x80 | condition(jump)], id, fix32, 4);
  }

  putCallNearLabel(id) {
    return this.#toLabel(0xe8, id, fix32, 4);
  }

  putCallIndirectLabel(id) {
    return this.#toLabel([0xff, 0x15], id, fix32, 4);
  }

  putJccShort(jump, target) {
    const distance = this.#code.distance(target, 2);
    if (!fits(distance, 8))
      throw new RangeError('a short jump does not reach its target');
    return this.#put(0x70 | condition(jump), Number(distance));
  }

  putJccNear(jump, target) {
    const distance = this.#code.distance(target, 6);
    this.#put(0x0f, 0x80 | condition(jump));
    this.#buffer.u32(distance);
    return this;
  }

  putJmpAddress(address) {
    if (this.#code.reaches(address, 5)) {
      const distance = this.#code.distance(address, 5);
      this.#put(0xe9);
      this.#buffer.u32(distance);
    } else {
      this.#put(0xff, 0x25, 0, 0, 0, 0);
      this.#buffer.u64(toBigInt(address, 'an address'));
    }
    return this;
  }

  putCallAddress(address) {
    if (this.#code.reaches(address, 5)) {
      const distance = this.#code.distance(address, 5);
      this.#put(0xe8);
      this.#buffer.u32(distance);
    } else {
      this.#put(0xff, 0x15, 2, 0, 0, 0, 0xeb, 8); /* call [rip + 2]; jmp over the literal */
      this.#buffer.u64(toBigInt(address, 'an address'));
    }
    return this;
  }

  putCallReg(name) {
    return this.#single(0xff, 2, name, false);
  }

  putCallRegOffsetPtr(name, offset) {
    this.#code.memory(0xff, false, 2, register(name).number, offset);
    return this;
  }

  putCallIndirect(address) {
    this.#code.near(0xff, false, 2, address);
    return this;
  }

  putJmpReg(name) {
    return this.#single(0xff, 4, name, false);
  }

  putJmpRegPtr(name) {
    return this.putJmpRegOffsetPtr(name, 0);
  }

  putJmpRegOffsetPtr(name, offset) {
    this.#code.memory(0xff, false, 4, register(name).number, offset);
    return this;
  }

  putJmpNearPtr(address) {
    this.#code.near(0xff, false, 4, address);
    return this;
  }

  /* Arguments are register names or numbers, pointers. */
  putCallAddressWithArguments(address, args) {
    this.#putArguments(args);
    return this.putCallAddress(address);
  }

  putCallAddressWithAlignedArguments(address, args) {
    return this.#aligned(() => this.putCallAddressWithArguments(address, args));
  }

  putCallRegWithArguments(name, args) {
    this.#putArguments(args, name);
    return this.putCallReg(name);
  }

  putCallRegWithAlignedArguments(name, args) {
    return this.#aligned(() => this.putCallRegWithArguments(name, args));
  }

  putCallRegOffsetPtrWithArguments(name, offset, args) {
    this.#putArguments(args, name);
    return this.putCallRegOffsetPtr(name, offset);
  }

  putCallRegOffsetPtrWithAlignedArguments(name, offset, args) {
    return this.#aligned(() => this.putCallRegOffsetPtrWithArguments(name, offset, args));
  }

  #aligned(call) {
    this.putPushReg('rbp').putMovRegReg('rbp', 'rsp').putAndRegU32('rsp', 0xfffffff0);
    call();
    return this.putMovRegReg('rsp', 'rbp').putPopReg('rbp');
  }

  /* Registers go through the stack, so that none is overwritten before it is read. */
  #putArguments(args, kept) {
    if (args.length > ARGUMENTS.length)
      throw new RangeError(`at most ${ARGUMENTS.length} arguments`);
    if (kept && ARGUMENTS.slice(0, args.length).some((name) => register(name).number === register(kept).number))
      throw new Error(`${kept} is needed for an argument`);
    const named = args.map((value, i) => ({value, to: ARGUMENTS[i]})).filter(({value}) => typeof value === 'string' &&
      !/^[-0-9]/.test(value));
    named.forEach(({value}) => this.putPushReg(value));
    named.reverse().forEach(({to}) => this.putPopReg(to));
    args.forEach((value, i) => {
      if (!named.some(({to}) => to === ARGUMENTS[i]))
        this.putMovRegU64(ARGUMENTS[i], value);
    });
  }

  putLeave() {
    return this.#put(0xc9);
  }

  putRet() {
    return this.#put(0xc3);
  }

  putRetImm(bytes) {
    return this.#put(0xc2, bytes, bytes >> 8);
  }

  /* ---- arithmetic ---- */

  putAddRegImm(name, value) {
    return this.#immediate(ARITHMETIC.Add, name, value);
  }

  putSubRegImm(name, value) {
    return this.#immediate(ARITHMETIC.Sub, name, value);
  }

  putAndRegU32(name, value) {
    return this.#immediate(ARITHMETIC.And, name, value);
  }

  putCmpRegI32(name, value) {
    return this.#immediate(ARITHMETIC.Cmp, name, value);
  }

  putAddRegReg(to, from) {
    return this.#pair(0x01, to, from);
  }

  putSubRegReg(to, from) {
    return this.#pair(0x29, to, from);
  }

  putAndRegReg(to, from) {
    return this.#pair(0x21, to, from);
  }

  putXorRegReg(to, from) {
    return this.#pair(0x31, to, from);
  }

  putCmpRegReg(left, right) {
    return this.#pair(0x39, left, right);
  }

  putTestRegReg(left, right) {
    return this.#pair(0x85, left, right);
  }

  putMovRegReg(to, from) {
    return this.#pair(0x89, to, from);
  }

  putTestRegU32(name, value) {
    this.#single(0xf7, 0, name);
    this.#buffer.u32(signed32(value));
    return this;
  }

  #arithmeticNear(opcode, name, address) {
    const {number, bits} = register(name);
    this.#code.near(opcode, bits === 64, number, address, 0);
    return this;
  }

  putAddRegNearPtr(name, address) {
    return this.#arithmeticNear(0x03, name, address);
  }

  putSubRegNearPtr(name, address) {
    return this.#arithmeticNear(0x2b, name, address);
  }

  putIncReg(name) {
    return this.#single(0xff, 0, name);
  }

  putDecReg(name) {
    return this.#single(0xff, 1, name);
  }

  #countPtr(digit, size, base) {
    const opcode = size === 'byte' ? 0xfe : 0xff;
    this.#code.memory(opcode, size === 'qword', digit, register(base).number, 0);
    return this;
  }

  putIncRegPtr(size, base) {
    return this.#countPtr(0, size, base);
  }

  putDecRegPtr(size, base) {
    return this.#countPtr(1, size, base);
  }

  #shift(digit, name, bits) {
    this.#single(0xc1, digit, name);
    return this.#put(bits);
  }

  putShlRegU8(name, bits) {
    return this.#shift(4, name, bits);
  }

  putShrRegU8(name, bits) {
    return this.#shift(5, name, bits);
  }

  putLockXaddRegPtrReg(base, name) {
    return this.#load([0x0f, 0xc1], name, base, 0, [0xf0]);
  }

  putLockCmpxchgRegPtrReg(base, name) {
    return this.#load([0x0f, 0xb1], name, base, 0, [0xf0]);
  }

  #lockCount(digit, address) {
    if (this.#code.reaches(address, 7))
      this.#code.near(0xff, false, digit, address, 0, [0xf0]);
    else
      this.#code.absolute(0xff, false, digit, address, [0xf0]);
    return this;
  }

  putLockIncImm32Ptr(address) {
    return this.#lockCount(0, address);
  }

  putLockDecImm32Ptr(address) {
    return this.#lockCount(1, address);
  }

  putCmpRegOffsetPtrReg(base, offset, name) {
    return this.#load(0x39, name, base, offset);
  }

  putCmpImmPtrImmU32(address, value) {
    if (this.#code.reaches(address, 10))
      this.#code.near(0x81, false, ARITHMETIC.Cmp, address, 4);
    else
      this.#code.absolute(0x81, false, ARITHMETIC.Cmp, address);
    this.#buffer.u32(signed32(value));
    return this;
  }

  /* ---- moves ---- */

  putMovRegU32(name, value) {
    const {number} = register(name);
    this.#code.rex(false, 0, 0, number);
    this.#put(0xb8 | number & 7);
    this.#buffer.u32(toBigInt(value));
    return this;
  }

  /* In the shortest form. */
  putMovRegU64(name, value) {
    const {number, bits} = register(name);
    const wide = BigInt.asUintN(bits, toBigInt(value, 'a number or a pointer'));
    if (wide <= 0xffffffffn)
      return this.putMovRegU32(name, wide);
    this.#code.rex(true, 0, 0, number);
    if (fits(BigInt.asIntN(64, wide), 32)) {
      this.#put(0xc7, 0xc0 | number & 7);
      this.#buffer.u32(wide);
    } else {
      this.#put(0xb8 | number & 7);
      this.#buffer.u64(wide);
    }
    return this;
  }

  putMovRegAddress(name, address) {
    return this.putMovRegU64(name, address);
  }

  putMovRegPtrU32(base, value) {
    return this.putMovRegOffsetPtrU32(base, 0, value);
  }

  putMovRegOffsetPtrU32(base, offset, value) {
    this.#code.memory(0xc7, false, 0, register(base).number, offset);
    this.#buffer.u32(toBigInt(value));
    return this;
  }

  putMovRegPtrReg(base, from) {
    return this.#load(0x89, from, base, 0);
  }

  putMovRegOffsetPtrReg(base, offset, from) {
    return this.#load(0x89, from, base, offset);
  }

  putMovRegRegPtr(to, base) {
    return this.#load(0x8b, to, base, 0);
  }

  putMovRegRegOffsetPtr(to, base, offset) {
    return this.#load(0x8b, to, base, offset);
  }

  putMovRegBaseIndexScaleOffsetPtr(to, base, index, scale, offset) {
    const {number, bits} = register(to);
    this.#code.indexed(0x8b, bits === 64, number, register(base).number, register(index).number, scale, offset);
    return this;
  }

  putMovRegNearPtr(to, address) {
    const {number, bits} = register(to);
    this.#code.near(0x8b, bits === 64, number, address);
    return this;
  }

  putMovNearPtrReg(address, from) {
    const {number, bits} = register(from);
    this.#code.near(0x89, bits === 64, number, address);
    return this;
  }

  #vector(prefix, opcode, base, offset) {
    this.#code.memory([0x0f, opcode], false, 0, base, offset, [prefix]);
    return this;
  }

  putMovqXmm0EspOffsetPtr(offset) {
    return this.#vector(0xf3, 0x7e, RSP, offset);
  }

  putMovqEaxOffsetPtrXmm0(offset) {
    return this.#vector(0x66, 0xd6, RAX, offset);
  }

  putMovdquXmm0EspOffsetPtr(offset) {
    return this.#vector(0xf3, 0x6f, RSP, offset);
  }

  putMovdquEaxOffsetPtrXmm0(offset) {
    return this.#vector(0xf3, 0x7f, RAX, offset);
  }

  #segment(prefix, opcode, name, offset) {
    const {number, bits} = register(name);
    this.#code.absolute(opcode, bits === 64, number, offset, [prefix]);
    return this;
  }

  putMovFsU32PtrReg(offset, from) {
    return this.#segment(0x64, 0x89, from, offset);
  }

  putMovRegFsU32Ptr(to, offset) {
    return this.#segment(0x64, 0x8b, to, offset);
  }

  putMovGsU32PtrReg(offset, from) {
    return this.#segment(0x65, 0x89, from, offset);
  }

  putMovRegGsU32Ptr(to, offset) {
    return this.#segment(0x65, 0x8b, to, offset);
  }

  putMovFsRegPtrReg(base, from) {
    return this.#load(0x89, from, base, 0, [0x64]);
  }

  putMovRegFsRegPtr(to, base) {
    return this.#load(0x8b, to, base, 0, [0x64]);
  }

  putMovGsRegPtrReg(base, from) {
    return this.#load(0x89, from, base, 0, [0x65]);
  }

  putMovRegGsRegPtr(to, base) {
    return this.#load(0x8b, to, base, 0, [0x65]);
  }

  putLeaRegRegOffset(to, base, offset) {
    return this.#load(0x8d, to, base, offset);
  }

  putXchgRegRegPtr(name, base) {
    return this.#load(0x87, name, base, 0);
  }

  /* ---- stack ---- */

  putPushU32(value) {
    this.#put(0x68);
    this.#buffer.u32(toBigInt(value));
    return this;
  }

  putPushNearPtr(address) {
    this.#code.near(0xff, false, 6, address);
    return this;
  }

  putPushImmPtr(address) {
    this.#code.absolute(0xff, false, 6, address);
    return this;
  }

  #stack(opcode, name) {
    const {number, bits} = register(name);
    if (bits !== 64)
      throw new TypeError(`${name} cannot be pushed: only registers of 64 bits can`);
    this.#code.rex(false, 0, 0, number);
    return this.#put(opcode | number & 7);
  }

  putPushReg(name) {
    return this.#stack(0x50, name);
  }

  putPopReg(name) {
    return this.#stack(0x58, name);
  }

  /* All general registers but rsp. */
  putPushax() {
    for (const name of EVERY)
      this.putPushReg(name);
    return this;
  }

  putPopax() {
    for (const name of [...EVERY].reverse())
      this.putPopReg(name);
    return this;
  }

  putFxsaveRegPtr(base) {
    this.#code.memory([0x0f, 0xae], false, 0, register(base).number, 0);
    return this;
  }

  putFxrstorRegPtr(base) {
    this.#code.memory([0x0f, 0xae], false, 1, register(base).number, 0);
    return this;
  }

  /* ---- bytes ---- */

  putU8(value) {
    return this.#put(value);
  }

  putS8(value) {
    return this.#put(value);
  }

  putBytes(data) {
    this.#buffer.bytes(data instanceof ArrayBuffer ? new Uint8Array(data) : data);
    return this;
  }

  putPadding(count) {
    return this.#put(...new Array(count).fill(0xcc));
  }

  putNopPadding(count) {
    for (let left = count; left > 0; left -= NOPS.length)
      this.#put(...NOPS[Math.min(left, NOPS.length) - 1]);
    return this;
  }
}

const EVERY = ['rax', 'rcx', 'rdx', 'rbx', 'rbp', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11', 'r12', 'r13', 'r14', 'r15'];

/* By length, from 1 byte on. */
const NOPS = [
  [0x90], [0x66, 0x90], [0x0f, 0x1f, 0x00], [0x0f, 0x1f, 0x40, 0], [0x0f, 0x1f, 0x44, 0, 0],
  [0x66, 0x0f, 0x1f, 0x44, 0, 0], [0x0f, 0x1f, 0x80, 0, 0, 0, 0], [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
];

/* Instructions without operands. */
const SIMPLE = {
  putPushfx: [0x9c], putPopfx: [0x9d], putSahf: [0x9e], putLahf: [0x9f], putClc: [0xf8], putStc: [0xf9],
  putCld: [0xfc], putStd: [0xfd], putCpuid: [0x0f, 0xa2], putLfence: [0x0f, 0xae, 0xe8], putRdtsc: [0x0f, 0x31],
  putPause: [0xf3, 0x90], putNop: [0x90], putBreakpoint: [0xcc],
};
for (const [name, bytes] of Object.entries(SIMPLE))
  Object.defineProperty(X86Forms.prototype, name, {
    configurable: true,
    writable: true,
    value() {
      return this.putBytes(bytes);
    },
  });

module.exports = {X86Forms};
