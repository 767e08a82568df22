/* SPDX-License-Identifier: Apache-2.0 */
/* Arm64Writer: machine code of arm64, one method per form. */
'use strict';

const {toBigInt} = require('../int64');
const {register, condition} = require('./registers');
const {maskOf} = require('./immediates');

const SCRATCH = 16; /* ip0, which calls may change */
const ARGUMENTS = 8;

function fits(value, bits) {
  return BigInt.asIntN(bits, value) === value;
}

function wide(name) {
  const found = register(name);
  if (found.bits !== 64 || found.vector)
    throw new TypeError(`${name} is not a general register of 64 bits`);
  return found.number;
}

/* Fills a distance of `bits` bits, counted in words, into the word at `at`. */
function fixBranch(bits, shift) {
  return (bytes, at, distance) => {
    const words = distance >> 2;
    if (words < -(1 << (bits - 1)) || words >= 1 << (bits - 1))
      throw new RangeError('the label is too far away');
    let word = bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24;
    word = (word | (words & (2 ** bits - 1)) << shift) >>> 0;
    for (let i = 0; i < 4; i++)
      bytes[at + i] = word >>> (8 * i) & 0xff;
  };
}

class Arm64Forms {
  #buffer;
  #here;

  constructor(buffer, here) {
    this.#buffer = buffer;
    this.#here = here;
  }

  #word(word) {
    this.#buffer.u32(word >>> 0);
    return this;
  }

  #toLabel(word, id, bits, shift) {
    const at = this.#buffer.length;
    this.#word(word);
    this.#buffer.reference(id, at, fixBranch(bits, shift));
    return this;
  }

  #distance(address) {
    const here = this.#here();
    return here === null ? null : toBigInt(address, 'an address') - here;
  }

  #branch(word, address, bits, shift) {
    const distance = this.#distance(address);
    if (distance === null)
      throw new Error('code in a block has no address of its own that another could be near to');
    if (distance & 3n || !fits(distance >> 2n, bits))
      throw new RangeError(`${address} is too far away`);
    return this.#word(word | Number(BigInt.asUintN(bits, distance >> 2n)) * 2 ** shift);
  }

  /* ---- labels and branches ---- */

  putLabel(id) {
    this.#buffer.label(id);
    return this;
  }

  putBLabel(id) {
    return this.#toLabel(0x14000000, id, 26, 0);
  }

  putBlLabel(id) {
    return this.#toLabel(0x94000000, id, 26, 0);
  }

  putBCondLabel(test, id) {
    return this.#toLabel(0x54000000 | condition(test), id, 19, 5);
  }

  #compareBranch(opcode, name, id) {
    const {number, bits} = register(name);
    return this.#toLabel((bits === 64 ? 0x80000000 : 0) | opcode | number, id, 19, 5);
  }

  putCbzRegLabel(name, id) {
    return this.#compareBranch(0x34000000, name, id);
  }

  putCbnzRegLabel(name, id) {
    return this.#compareBranch(0x35000000, name, id);
  }

  #testBranch(opcode, name, bit, id) {
    return this.#toLabel((bit > 31 ? 0x80000000 : 0) | opcode | (bit & 31) << 19 | register(name).number, id, 14, 5);
  }

  putTbzRegImmLabel(name, bit, id) {
    return this.#testBranch(0x36000000, name, bit, id);
  }

  putTbnzRegImmLabel(name, bit, id) {
    return this.#testBranch(0x37000000, name, bit, id);
  }

  putCbzRegImm(name, address) {
    return this.#compareAddress(0x34000000, name, address);
  }

  putCbnzRegImm(name, address) {
    return this.#compareAddress(0x35000000, name, address);
  }

  #compareAddress(opcode, name, address) {
    const {number, bits} = register(name);
    return this.#branch((bits === 64 ? 0x80000000 : 0) | opcode | number, address, 19, 5);
  }

  putTbzRegImmImm(name, bit, address) {
    return this.#testAddress(0x36000000, name, bit, address);
  }

  putTbnzRegImmImm(name, bit, address) {
    return this.#testAddress(0x37000000, name, bit, address);
  }

  #testAddress(opcode, name, bit, address) {
    const word = (bit > 31 ? 0x80000000 : 0) | opcode | (bit & 31) << 19 | register(name).number;
    return this.#branch(word, address, 14, 5);
  }

  putBImm(address) {
    return this.#branch(0x14000000, address, 26, 0);
  }

  putBlImm(address) {
    return this.#branch(0x94000000, address, 26, 0);
  }

  canBranchDirectlyBetween(from, to) {
    const distance = toBigInt(to) - toBigInt(from);
    return !(distance & 3n) && fits(distance >> 2n, 26);
  }

  /* Through ip0 where a branch does not reach. */
  putBranchAddress(address) {
    if (this.#reaches(address))
      return this.putBImm(address);
    return this.#move(SCRATCH, toBigInt(address, 'an address')).#word(0xd61f0000 | SCRATCH << 5);
  }

  putCallAddress(address) {
    if (this.#reaches(address))
      return this.putBlImm(address);
    return this.#move(SCRATCH, toBigInt(address, 'an address')).#word(0xd63f0000 | SCRATCH << 5);
  }

  #reaches(address) {
    const distance = this.#distance(address);
    return distance !== null && !(distance & 3n) && fits(distance >> 2n, 26);
  }

  /* Arguments are register names or numbers, pointers; registers go through the stack. */
  putCallAddressWithArguments(address, args) {
    this.#putArguments(args);
    return this.putCallAddress(address);
  }

  putCallRegWithArguments(name, args) {
    if (args.length > wide(name))
      throw new Error(`${name} is needed for an argument`);
    this.#putArguments(args);
    return this.putBlrReg(name);
  }

  #putArguments(args) {
    if (args.length > ARGUMENTS)
      throw new RangeError(`at most ${ARGUMENTS} arguments`);
    const isName = (value) => typeof value === 'string' && !/^[-0-9]/.test(value);
    const named = args.map((value, i) => ({value, i})).filter(({value}) => isName(value));
    named.forEach(({value}) => this.putPushRegReg(value, 'xzr'));
    named.reverse().forEach(({i}) => this.putPopRegReg('x' + i, 'xzr'));
    args.forEach((value, i) => {
      if (!isName(value))
        this.#move(i, toBigInt(value, 'a number or a pointer'));
    });
  }

  putBrReg(name) {
    return this.#word(0xd61f0000 | wide(name) << 5);
  }

  putBlrReg(name) {
    return this.#word(0xd63f0000 | wide(name) << 5);
  }

  putBrRegNoAuth(name) {
    return this.putBrReg(name);
  }

  putBlrRegNoAuth(name) {
    return this.putBlrReg(name);
  }

  putRet() {
    return this.putRetReg('x30');
  }

  putRetReg(name) {
    return this.#word(0xd65f0000 | wide(name) << 5);
  }

  /* ---- stack ---- */

  putPushRegReg(first, second) {
    return this.putStpRegRegRegOffset(first, second, 'sp', -16, 'pre-adjust');
  }

  putPopRegReg(first, second) {
    return this.putLdpRegRegRegOffset(first, second, 'sp', 16, 'post-adjust');
  }

  putPushAllXRegisters() {
    for (let i = 0; i < 30; i += 2)
      this.putPushRegReg('x' + i, 'x' + (i + 1));
    return this.putPushRegReg('x30', 'xzr');
  }

  putPopAllXRegisters() {
    this.putPopRegReg('x30', 'xzr');
    for (let i = 28; i >= 0; i -= 2)
      this.putPopRegReg('x' + i, 'x' + (i + 1));
    return this;
  }

  putPushAllQRegisters() {
    for (let i = 0; i < 32; i += 2)
      this.putStpRegRegRegOffset('q' + i, 'q' + (i + 1), 'sp', -32, 'pre-adjust');
    return this;
  }

  putPopAllQRegisters() {
    for (let i = 30; i >= 0; i -= 2)
      this.putLdpRegRegRegOffset('q' + i, 'q' + (i + 1), 'sp', 32, 'post-adjust');
    return this;
  }

  /* ---- loads and stores ---- */

  #single(load, name, base, offset) {
    const {number, bits, vector} = register(name);
    const size = bits / 8, distance = Number(offset);
    if (distance % size || distance < 0 || distance / size > 4095)
      throw new RangeError(`an offset is a multiple of ${size} from 0 to ${4095 * size}`);
    const opcode = vector ? (bits === 32 ? 0xbd000000 : bits === 64 ? 0xfd000000 : 0x3d800000)
      : bits === 64 ? 0xf9000000 : 0xb9000000;
    return this.#word(opcode | (load ? 0x00400000 : 0) | (distance / size) << 10 | wide(base) << 5 | number);
  }

  putLdrRegRegOffset(name, base, offset) {
    return this.#single(true, name, base, offset);
  }

  putStrRegRegOffset(name, base, offset) {
    return this.#single(false, name, base, offset);
  }

  putLdrRegReg(name, base) {
    return this.#single(true, name, base, 0);
  }

  putStrRegReg(name, base) {
    return this.#single(false, name, base, 0);
  }

  /* With a base that is adjusted, or an offset that is no multiple. */
  #indexed(load, name, base, offset, mode) {
    const {number, bits, vector} = register(name), distance = Number(offset);
    const index = {'signed-offset': 0, 'post-adjust': 0x400, 'pre-adjust': 0xc00}[mode];
    if (index === undefined)
      throw new TypeError('the mode is post-adjust, signed-offset or pre-adjust');
    if (mode === 'signed-offset' && distance >= 0 && distance % (bits / 8) === 0)
      return this.#single(load, name, base, distance);
    if (vector || !Number.isInteger(distance) || distance < -256 || distance > 255)
      throw new RangeError('such an offset is from -256 to 255, for a general register');
    return this.#word((bits === 64 ? 0xf8000000 : 0xb8000000) | index | (load ? 0x00400000 : 0) |
      (distance & 0x1ff) << 12 | wide(base) << 5 | number);
  }

  putLdrRegRegOffsetMode(name, base, offset, mode) {
    return this.#indexed(true, name, base, offset, mode);
  }

  putStrRegRegOffsetMode(name, base, offset, mode) {
    return this.#indexed(false, name, base, offset, mode);
  }

  putLdrswRegRegOffset(name, base, offset) {
    const distance = Number(offset);
    if (distance % 4 || distance < 0 || distance > 4 * 4095)
      throw new RangeError('an offset is a multiple of 4 from 0 to 16380');
    return this.#word(0xb9800000 | (distance / 4) << 10 | wide(base) << 5 | wide(name));
  }

  /* What is at an address: the register has the address meanwhile. */
  putLdrRegU32Ptr(name, address) {
    const {number} = register(name);
    return this.#move(number, toBigInt(address, 'an address')).putLdrRegReg(`w${number}`, `x${number}`);
  }

  putLdrRegU64Ptr(name, address) {
    return this.#move(wide(name), toBigInt(address, 'an address')).putLdrRegReg(name, name);
  }

  #pair(load, first, second, base, offset, mode) {
    const {number, bits, vector} = register(first);
    const size = bits / 8, distance = Number(offset) / size;
    const opcode = vector ? {32: 0x2c000000, 64: 0x6c000000, 128: 0xac000000}[bits]
      : bits === 64 ? 0xa8000000 : 0x28000000;
    const index = {'post-adjust': 0x00800000, 'signed-offset': 0x01000000, 'pre-adjust': 0x01800000}[mode];
    if (index === undefined)
      throw new TypeError('the mode is post-adjust, signed-offset or pre-adjust');
    if (!Number.isInteger(distance) || distance < -64 || distance > 63)
      throw new RangeError(`an offset is a multiple of ${size} from ${-64 * size} to ${63 * size}`);
    return this.#word(opcode | index | (load ? 0x00400000 : 0) |
      (distance & 0x7f) << 15 | register(second).number << 10 | wide(base) << 5 | number);
  }

  putLdpRegRegRegOffset(first, second, base, offset, mode) {
    return this.#pair(true, first, second, base, offset, mode);
  }

  putStpRegRegRegOffset(first, second, base, offset, mode) {
    return this.#pair(false, first, second, base, offset, mode);
  }

  putLdrRegAddress(name, address) {
    return this.#move(wide(name), toBigInt(address, 'an address'));
  }

  putLdrRegU64(name, value) {
    const {number, bits} = register(name);
    return this.#move(number, BigInt.asUintN(bits, toBigInt(value)), bits);
  }

  putLdrRegU32(name, value) {
    const {number, bits} = register(name);
    return this.#move(number, BigInt.asUintN(32, toBigInt(value)), bits);
  }

  putLdrRegRef() {
    throw new Error('there are no words beside the code here: putLdrRegU64 and putLdrRegAddress load numbers');
  }

  putLdrRegValue() {
    return this.putLdrRegRef();
  }

  putMovkRegImm(name, value, shift) {
    const {number, bits} = register(name);
    if (shift % 16 || shift < 0 || shift >= bits || value < 0 || value > 0xffff)
      throw new RangeError('a number of 16 bits is put at a multiple of 16');
    return this.#word((bits === 64 ? 0xf2800000 : 0x72800000) | shift / 16 << 21 | value << 5 | number);
  }

  /* In the fewest movz or movn, and movk. */
  #move(number, value, bits = 64) {
    const left = BigInt.asUintN(bits, value);
    const pieces = [];
    for (let i = 0; i < bits / 16; i++)
      pieces.push(Number(left >> BigInt(16 * i) & 0xffffn));
    const ones = pieces.filter((piece) => piece === 0xffff).length;
    const zeroes = pieces.filter((piece) => piece === 0).length;
    const inverted = ones > zeroes, skip = inverted ? 0xffff : 0;
    const size = bits === 64 ? 0x80000000 : 0;
    let first = true;
    const known = pieces.some((piece) => piece !== skip);
    pieces.forEach((piece, i) => {
      if (piece === skip && (known || i > 0))
        return;
      const opcode = !first ? 0x72800000 : inverted ? 0x12800000 : 0x52800000;
      this.#word(size | opcode | i << 21 | (first && inverted ? piece ^ 0xffff : piece) << 5 | number);
      first = false;
    });
    return this;
  }

  putAdrpRegAddress(name, address) {
    const here = this.#here();
    if (here === null)
      throw new Error('code in a block has no address of its own that another could be near to');
    const pages = (toBigInt(address) >> 12n) - (here >> 12n);
    if (!fits(pages, 21))
      throw new RangeError(`${address} is too far away`);
    const field = Number(BigInt.asUintN(21, pages));
    return this.#word(0x90000000 | (field & 3) << 29 | field >> 2 << 5 | wide(name));
  }

  /* ---- arithmetic ---- */

  putMovRegReg(to, from) {
    const a = register(to), b = register(from);
    const size = a.bits === 64 ? 0x80000000 : 0;
    if (/sp$/.test(to) || /sp$/.test(from))
      return this.#word(size | 0x11000000 | b.number << 5 | a.number);
    return this.#word(size | 0x2a0003e0 | b.number << 16 | a.number);
  }

  #immediate(opcode, to, left, value) {
    const {number, bits} = register(to);
    const amount = Number(value);
    if (amount < 0 || amount > 0xffffff || (amount > 0xfff && amount & 0xfff))
      throw new RangeError('a number has 12 bits, or 12 bits and 12 zeroes');
    const shifted = amount > 0xfff;
    return this.#word((bits === 64 ? 0x80000000 : 0) | opcode | (shifted ? 1 << 22 : 0) |
      (shifted ? amount >> 12 : amount) << 10 | register(left).number << 5 | number);
  }

  putAddRegRegImm(to, left, value) {
    return value < 0 ? this.putSubRegRegImm(to, left, -value) : this.#immediate(0x11000000, to, left, value);
  }

  putSubRegRegImm(to, left, value) {
    return value < 0 ? this.putAddRegRegImm(to, left, -value) : this.#immediate(0x51000000, to, left, value);
  }

  putCmpRegImm(left, value) {
    return this.#immediate(0x71000000, register(left).bits === 64 ? 'xzr' : 'wzr', left, value);
  }

  #three(opcode, to, left, right) {
    const {number, bits} = register(to);
    return this.#word((bits === 64 ? 0x80000000 : 0) | opcode | register(right).number << 16 |
      register(left).number << 5 | number);
  }

  putAddRegRegReg(to, left, right) {
    return this.#three(0x0b000000, to, left, right);
  }

  putSubRegRegReg(to, left, right) {
    return this.#three(0x4b000000, to, left, right);
  }

  putEorRegRegReg(to, left, right) {
    return this.#three(0x4a000000, to, left, right);
  }

  #logical(opcode, to, left, value) {
    const {number, bits} = register(to);
    return this.#word((bits === 64 ? 0x80000000 : 0) | opcode | maskOf(toBigInt(value), bits) |
      register(left).number << 5 | number);
  }

  putAndRegRegImm(to, left, value) {
    return this.#logical(0x12000000, to, left, value);
  }

  putTstRegImm(left, value) {
    return this.#logical(0x72000000, register(left).bits === 64 ? 'xzr' : 'wzr', left, value);
  }

  putUbfm(to, from, imms, immr) {
    const {number, bits} = register(to);
    return this.#word((bits === 64 ? 0xd3400000 : 0x53000000) | (immr & 0x3f) << 16 | (imms & 0x3f) << 10 |
      register(from).number << 5 | number);
  }

  #checkShift(name, shift) {
    const {bits} = register(name);
    if (!Number.isInteger(shift) || shift < 0 || shift >= bits)
      throw new RangeError(`a shift is from 0 to ${bits - 1}`);
    return bits;
  }

  putLslRegImm(to, from, shift) {
    const bits = this.#checkShift(to, shift);
    return this.putUbfm(to, from, bits - 1 - shift, (bits - shift) % bits);
  }

  putLsrRegImm(to, from, shift) {
    return this.putUbfm(to, from, this.#checkShift(to, shift) - 1, shift);
  }

  putXpaciReg(name) {
    return this.#word(0xdac143e0 | wide(name));
  }

  putPaciaRegReg(name, modifier) {
    return this.#word(0xdac10000 | wide(modifier) << 5 | wide(name));
  }

  putCmpRegReg(left, right) {
    return this.#three(0x6b000000, register(left).bits === 64 ? 'xzr' : 'wzr', left, right);
  }

  putTstRegReg(left, right) {
    return this.#three(0x6a000000, register(left).bits === 64 ? 'xzr' : 'wzr', left, right);
  }

  putUxtwRegReg(to, from) {
    return this.#word(0x2a0003e0 | register(from).number << 16 | register(to).number);
  }

  putMovRegNzcv(name) {
    return this.#word(0xd53b4200 | wide(name));
  }

  putMovNzcvReg(name) {
    return this.#word(0xd51b4200 | wide(name));
  }

  putMrs(name, system) {
    return this.#word(0xd5300000 | (system & 0x7fff) << 5 | wide(name));
  }

  /* ---- others ---- */

  putNop() {
    return this.#word(0xd503201f);
  }

  putBrkImm(number) {
    return this.#word(0xd4200000 | number << 5);
  }

  putInstruction(word) {
    return this.#word(Number(word));
  }

  putBytes(data) {
    this.#buffer.bytes(data instanceof ArrayBuffer ? new Uint8Array(data) : data);
    return this;
  }

  sign(value) {
    return value;
  }
}

module.exports = {Arm64Forms};
