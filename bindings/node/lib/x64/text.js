/* SPDX-License-Identifier: Apache-2.0 */
/* The text of x86_64 instructions in Intel's syntax, from what the project's decoder reports. Instructions whose names
 * are not in opcodes.js have the name "insn" and no operands; their length, kind, registers and groups are known. */
'use strict';

const {Int64} = require('../int64');
const {registerName} = require('./registers');
const {ONE, TWO, VECTOR, GROUPS, PREFIXED, STRINGS} = require('./opcodes');

const PREFIX = {LOCK: 1, REP: 2, REPNE: 4, OPSIZE: 8, ADDRSIZE: 16, FS: 32, GS: 64};
const RIP = 16, NONE = 0xff;
const BITS = {b: 8, w: 16, d: 32, q: 64, x: 128};
const WORDS = {8: 'byte', 16: 'word', 32: 'dword', 64: 'qword', 128: 'xmmword'};

function hex(value) {
  const size = value < 0n ? -value : value;
  return (value < 0n ? '-' : '') + (size < 10n ? size.toString() : '0x' + size.toString(16));
}

function widthOf(fields, code) {
  const wide = fields.rex & 8, small = fields.prefixes & PREFIX.OPSIZE;
  if (code === 'v')
    return wide ? 64 : small ? 16 : 32;
  if (code === 'y')
    return wide ? 64 : 32;
  if (code === 's')
    return small ? 16 : 64;
  return BITS[code];
}

function memoryText({base, index, scale, disp, rip}, address, bits, segment) {
  const parts = [];
  if (rip !== undefined)
    parts.push('rip');
  else if (base !== null)
    parts.push(base);
  if (index !== null)
    parts.push(scale > 1 ? `${index}*${scale}` : index);
  let text = parts.join(' + ');
  if (disp !== 0n || !parts.length)
    text = parts.length ? `${text} ${disp < 0n ? '-' : '+'} ${hex(disp < 0n ? -disp : disp)}` : hex(disp);
  const size = WORDS[bits] ? `${WORDS[bits]} ptr ` : '';
  return `${size}${segment}[${text}]`;
}

function memoryOperand(fields, address, bits) {
  const {base, index, scale, disp} = fields.memory;
  const width = fields.prefixes & PREFIX.ADDRSIZE ? 32 : 64;
  const nameOf = (number) => number === NONE ? null : number === RIP ? 'rip' : registerName(number, width);
  const segment = fields.prefixes & PREFIX.FS ? 'fs:' : fields.prefixes & PREFIX.GS ? 'gs:' : '';
  const value = {base: nameOf(base), index: nameOf(index), scale, disp};
  const text = memoryText({...value, rip: base === RIP ? fields.ripAddress : undefined}, address, bits, segment);
  return {text, operand: {type: 'mem', value: {...value, disp: Number(disp)}, size: bits ? bits / 8 : undefined}};
}

function registerOperand(name, bits) {
  return {text: name, operand: {type: 'reg', value: name, size: bits / 8}};
}

function immediateOperand(fields, bits) {
  /* Bits of the operand, as the processor extends them. */
  const value = BigInt.asIntN(Math.min(bits, 64), fields.imm);
  const shown = value < 0n && value > -0x80000000n && bits > 8 ? value : BigInt.asUintN(bits, value);
  return {text: hex(shown), operand: {type: 'imm', value: new Int64(value), size: bits / 8}};
}

const FIXED = {al: ['al', 8], cl: ['cl', 8]};

function operandOf(word, fields, bytes, address) {
  if (FIXED[word])
    return registerOperand(...FIXED[word]);
  if (word === '1')
    return {text: '1', operand: {type: 'imm', value: new Int64(1), size: 1}};
  const [kind, code] = word.startsWith('rax:') ? ['A', word[4]] : word;
  const bits = widthOf(fields, code);
  switch (kind) {
  case 'A':
    return registerOperand(registerName(0, bits), bits);
  case 'G':
    return registerOperand(registerName((fields.modrm >> 3 & 7) | (fields.rex & 4) << 1, bits, fields.hasRex), bits);
  case 'Y':
    return registerOperand(`xmm${(fields.modrm >> 3 & 7) | (fields.rex & 4) << 1}`, 128);
  case 'Z':
    return registerOperand(registerName((fields.opcode & 7) | (fields.rex & 1) << 3, bits, fields.hasRex), bits);
  case 'J':
    return {text: hex(fields.target), operand: {type: 'imm', value: new Int64(fields.target), size: 8}};
  case 'I':
    return immediateOperand(fields, bits);
  case 'E':
  case 'X':
    if (fields.modrm >> 6 === 3) {
      const number = (fields.modrm & 7) | (fields.rex & 1) << 3;
      return kind === 'X' ? registerOperand(`xmm${number}`, 128)
        : registerOperand(registerName(number, bits, fields.hasRex), bits);
    }
    return memoryOperand(fields, address, bits);
  default: /* M, O */
    return memoryOperand(fields, address, bits);
  }
}

function mandatory(fields) {
  const {prefixes} = fields;
  return prefixes & PREFIX.REPNE ? 3 : prefixes & PREFIX.REP ? 2 : prefixes & PREFIX.OPSIZE ? 1 : 0;
}

/* String instructions: their operands are always the same registers. */
function stringForm(fields) {
  const name = STRINGS.get(fields.opcode & 0xfe);
  if (!name || fields.map !== 0)
    return null;
  const letter = fields.opcode & 1 ? {64: 'q', 32: 'd', 16: 'w'}[widthOf(fields, 'v')] : 'b';
  const repeats = /cmps|scas/.test(name) ? 'repe' : 'rep';
  const prefix = fields.prefixes & PREFIX.REP ? `${repeats} ` : fields.prefixes & PREFIX.REPNE ? 'repne ' : '';
  return `${prefix}${name}${letter}`;
}

function extension(fields) {
  const names = {0x98: ['cbw', 'cwde', 'cdqe'], 0x99: ['cwd', 'cdq', 'cqo']}[fields.opcode];
  return fields.map === 0 && names ? names[{16: 0, 32: 1, 64: 2}[widthOf(fields, 'v')]] : null;
}

function legacyForm(fields) {
  const {map, opcode, prefixes} = fields;
  if (fields.kind === 'landing')
    return fields.modrm === 0xfa ? 'endbr64' : 'endbr32';
  if (map === 0 && opcode === 0x90 && !(fields.rex & 1))
    return prefixes & PREFIX.REP ? 'pause' : 'nop';
  const digit = fields.modrm >> 3 & 7;
  const group = GROUPS.get(map === 1 ? 0x100 | opcode : opcode);
  if (group && map < 2)
    return group[digit] ?? null;
  if (map === 0)
    return extension(fields) ?? ONE.get(opcode) ?? null;
  if (map !== 1)
    return null;
  const vector = VECTOR.get(opcode);
  if (vector)
    return vectorForm(fields, vector[mandatory(fields)]);
  return (prefixes & PREFIX.REP ? PREFIXED.f3[opcode] : null) ?? TWO.get(opcode) ?? null;
}

/* movd and movq of general registers are one opcode; movhlps and movlhps are forms of others. */
function vectorForm(fields, form) {
  if (!form)
    return null;
  const register = fields.modrm >> 6 === 3;
  if (form.startsWith('mov '))
    return `mov${fields.rex & 8 ? 'q' : 'd'} ${form.slice(4)}`;
  if (form === 'movhps Yx Xq' && register)
    return 'movlhps Yx Xx';
  return form;
}

/* {mnemonic, operands, opStr} of what the decoder has found at `address`. */
function textOf(fields, bytes, address) {
  const string = fields.encoding === 0 ? stringForm(fields) : null;
  if (string)
    return {mnemonic: string, operands: [], opStr: ''};
  let form = fields.encoding === 0 ? legacyForm(fields) : null;
  if (form === null)
    return {mnemonic: 'insn', operands: [], opStr: ''};
  if (fields.map === 0 && fields.opcode >= 0xb8 && fields.opcode <= 0xbf && fields.immSize === 8)
    form = form.replace('mov ', 'movabs ');
  const [name, ...words] = form.split(' ');
  const operands = words.map((word) => operandOf(word, fields, bytes, address));
  const locked = fields.prefixes & PREFIX.LOCK ? 'lock ' : '';
  return {
    mnemonic: locked + name,
    operands: operands.map(({operand}) => operand),
    opStr: operands.map(({text}) => text).join(', '),
  };
}

module.exports = {textOf, registerOf: (number) => registerName(number & 15, 64)};
