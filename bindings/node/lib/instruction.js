/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction: one instruction as scripts see it: mnemonic, operands, registers, groups. */
'use strict';

const {addon} = require('./addon');
const x64 = require('./x64/text');
const a64 = require('./a64/text');

const MACHINES = {x64, arm64: a64};
const LONGEST = {x64: 15, arm64: 4};

/* Groups of an instruction by its kind, with the names that people test for. */
const GROUPS = {
  jump: ['jump', 'branch_relative'],
  branch: ['jump', 'branch_relative'],
  loop: ['jump', 'branch_relative'],
  call: ['call', 'branch_relative'],
  'jump indirect': ['jump'],
  'call indirect': ['call'],
  return: ['ret'],
  far: ['ret'],
  syscall: ['int'],
  interrupt: ['int'],
  breakpoint: ['int'],
};

function namesOf(mask, machine) {
  const names = [];
  for (let i = 0; i < 32; i++)
    if (mask >>> i & 1)
      names.push(machine.registerOf(i));
  return names;
}

class Instruction {
  #text;

  constructor(arch, fields, bytes, address, NativePointer) {
    const machine = MACHINES[arch];
    const {mnemonic, operands, opStr} = machine.textOf(fields, bytes, address);
    const toPointer = (value) => new NativePointer(value);
    this.address = toPointer(address);
    this.next = toPointer(address + BigInt(fields.length));
    this.size = fields.length;
    this.mnemonic = mnemonic;
    this.opStr = opStr;
    this.operands = operands;
    this.kind = fields.kind;
    this.target = fields.target === undefined ? null : toPointer(fields.target);
    this.regsRead = namesOf(fields.registersRead, machine);
    this.regsWritten = namesOf(fields.registersWritten, machine);
    this.regsAccessed = {read: this.regsRead, written: this.regsWritten};
    this.groups = GROUPS[fields.kind] ?? [];
    this.bytes = bytes.subarray(0, fields.length);
    this.#text = opStr ? `${mnemonic} ${opStr}` : mnemonic;
  }

  toString() {
    return this.#text;
  }

  toJSON() {
    const {address, next, size, mnemonic, opStr, operands, regsAccessed, groups} = this;
    return {address, next, size, mnemonic, opStr, operands, regsAccessed, groups};
  }

  [Symbol.for('nodejs.util.inspect.custom')]() {
    return `${this.address}: ${this.#text}`;
  }
}

/* Of bytes that are at `address` (a BigInt). */
function decodeInstruction(arch, bytes, address, NativePointer) {
  let fields;
  try {
    fields = addon().decode(arch === 'arm64', bytes, address);
  } catch (error) {
    throw new Error(`there is no valid instruction at 0x${address.toString(16)}: ${error.message}`);
  }
  return new Instruction(arch, fields, Buffer.from(bytes), address, NativePointer);
}

module.exports = {Instruction, decodeInstruction, LONGEST};
