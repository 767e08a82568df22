/* SPDX-License-Identifier: Apache-2.0 */
/* Names and operands of the x86_64 instructions that compilers emit most, by opcode.
 *
 * A form is "mnemonic operands": E rm, G modrm.reg, Z low bits of the opcode, I immediate, J target, M memory, O an
 * address in the instruction, X rm as vector register, Y modrm.reg as vector register; then a width: b w d q y (32 or
 * 64) v (16, 32, 64) s (64, or 16) x (128), or none where memory has no width. rax, al, cl, 1 and other small words are
 * themselves. */
'use strict';

const {CONDITIONS} = require('./registers');

const ONE = new Map(), TWO = new Map();
/* Vector instructions of map 0f, by mandatory prefix: none, 66, f3, f2. */
const VECTOR = new Map();
/* Groups: the mnemonic is chosen by modrm.reg. */
const GROUPS = new Map();

function add(map, first, last, form) {
  for (let opcode = first; opcode <= last; opcode++)
    map.set(opcode, typeof form === 'function' ? form(opcode) : form);
}

['add', 'or', 'adc', 'sbb', 'and', 'sub', 'xor', 'cmp'].forEach((name, i) => {
  ['Eb Gb', 'Ev Gv', 'Gb Eb', 'Gv Ev', 'al Ib', 'rax:v Iv'].forEach((operands, k) =>
    ONE.set(8 * i + k, `${name} ${operands}`));
});
add(ONE, 0x50, 0x57, 'push Zs');
add(ONE, 0x58, 0x5f, 'pop Zs');
ONE.set(0x63, 'movsxd Gv Ed');
ONE.set(0x68, 'push Is').set(0x6a, 'push Is').set(0x69, 'imul Gv Ev Iv').set(0x6b, 'imul Gv Ev Iv');
add(ONE, 0x70, 0x7f, (opcode) => `j${CONDITIONS[opcode & 15]} J`);
ONE.set(0x84, 'test Eb Gb').set(0x85, 'test Ev Gv').set(0x86, 'xchg Eb Gb').set(0x87, 'xchg Ev Gv');
ONE.set(0x88, 'mov Eb Gb').set(0x89, 'mov Ev Gv').set(0x8a, 'mov Gb Eb').set(0x8b, 'mov Gv Ev');
ONE.set(0x8d, 'lea Gv M').set(0x8f, 'pop Es');
add(ONE, 0x91, 0x97, 'xchg Zv rax:v');
ONE.set(0x9b, 'wait').set(0x9c, 'pushfq').set(0x9d, 'popfq').set(0x9e, 'sahf').set(0x9f, 'lahf');
ONE.set(0xa0, 'movabs al Ob').set(0xa1, 'movabs rax:v Ov').set(0xa2, 'movabs Ob al').set(0xa3, 'movabs Ov rax:v');
ONE.set(0xa8, 'test al Ib').set(0xa9, 'test rax:v Iv');
add(ONE, 0xb0, 0xb7, 'mov Zb Ib');
add(ONE, 0xb8, 0xbf, 'mov Zv Iv');
ONE.set(0xc2, 'ret Iw').set(0xc3, 'ret').set(0xc6, 'mov Eb Ib').set(0xc7, 'mov Ev Iv');
ONE.set(0xc8, 'enter').set(0xc9, 'leave').set(0xca, 'retf Iw').set(0xcb, 'retf').set(0xcc, 'int3').set(0xcd, 'int Ib');
ONE.set(0xe0, 'loopne J').set(0xe1, 'loope J').set(0xe2, 'loop J').set(0xe3, 'jrcxz J');
ONE.set(0xe8, 'call J').set(0xe9, 'jmp J').set(0xeb, 'jmp J').set(0xf1, 'int1').set(0xf4, 'hlt').set(0xf5, 'cmc');
ONE.set(0xf8, 'clc').set(0xf9, 'stc').set(0xfa, 'cli').set(0xfb, 'sti').set(0xfc, 'cld').set(0xfd, 'std');

const SHIFTS = ['rol', 'ror', 'rcl', 'rcr', 'shl', 'shr', 'shl', 'sar'];
const ARITHMETIC = ['add', 'or', 'adc', 'sbb', 'and', 'sub', 'xor', 'cmp'];
GROUPS.set(0x80, ARITHMETIC.map((name) => `${name} Eb Ib`));
GROUPS.set(0x81, ARITHMETIC.map((name) => `${name} Ev Iv`));
GROUPS.set(0x83, ARITHMETIC.map((name) => `${name} Ev Iv`));
for (const [opcode, operands] of [[0xc0, 'Eb Ib'], [0xc1, 'Ev Ib'], [0xd0, 'Eb 1'], [0xd1, 'Ev 1'], [0xd2, 'Eb cl'],
  [0xd3, 'Ev cl']])
  GROUPS.set(opcode, SHIFTS.map((name) => `${name} ${operands}`));
GROUPS.set(0xf6, ['test Eb Ib', 'test Eb Ib', ...['not', 'neg', 'mul', 'imul', 'div', 'idiv'].map((n) => `${n} Eb`)]);
GROUPS.set(0xf7, ['test Ev Iv', 'test Ev Iv', ...['not', 'neg', 'mul', 'imul', 'div', 'idiv'].map((n) => `${n} Ev`)]);
GROUPS.set(0xfe, ['inc Eb', 'dec Eb']);
GROUPS.set(0xff, ['inc Ev', 'dec Ev', 'call Es', null, 'jmp Es', null, 'push Es']);
GROUPS.set(0x1ba, [null, null, null, null, 'bt Ev Ib', 'bts Ev Ib', 'btr Ev Ib', 'btc Ev Ib']);

TWO.set(0x05, 'syscall').set(0x0b, 'ud2').set(0x31, 'rdtsc').set(0x34, 'sysenter').set(0xa2, 'cpuid');
TWO.set(0x1f, 'nop Ev');
add(TWO, 0x40, 0x4f, (opcode) => `cmov${CONDITIONS[opcode & 15]} Gv Ev`);
add(TWO, 0x80, 0x8f, (opcode) => `j${CONDITIONS[opcode & 15]} J`);
add(TWO, 0x90, 0x9f, (opcode) => `set${CONDITIONS[opcode & 15]} Eb`);
TWO.set(0xa3, 'bt Ev Gv').set(0xab, 'bts Ev Gv').set(0xb3, 'btr Ev Gv').set(0xbb, 'btc Ev Gv');
TWO.set(0xa4, 'shld Ev Gv Ib').set(0xa5, 'shld Ev Gv cl').set(0xac, 'shrd Ev Gv Ib').set(0xad, 'shrd Ev Gv cl');
TWO.set(0xaf, 'imul Gv Ev').set(0xb0, 'cmpxchg Eb Gb').set(0xb1, 'cmpxchg Ev Gv');
TWO.set(0xb6, 'movzx Gv Eb').set(0xb7, 'movzx Gv Ew').set(0xbe, 'movsx Gv Eb').set(0xbf, 'movsx Gv Ew');
TWO.set(0xbc, 'bsf Gv Ev').set(0xbd, 'bsr Gv Ev').set(0xc0, 'xadd Eb Gb').set(0xc1, 'xadd Ev Gv');
TWO.set(0xc3, 'movnti Ey Gy');
add(TWO, 0xc8, 0xcf, 'bswap Zy');

function vector(opcode, forms) {
  VECTOR.set(opcode, forms);
}
const SCALARS = ['x', 'x', 'd', 'q'];
const SUFFIXES = ['ps', 'pd', 'ss', 'sd'];
for (const [opcode, name] of [[0x51, 'sqrt'], [0x58, 'add'], [0x59, 'mul'], [0x5c, 'sub'], [0x5d, 'min'], [0x5e, 'div'],
  [0x5f, 'max']])
  vector(opcode, SUFFIXES.map((suffix, i) => `${name}${suffix} Yx X${SCALARS[i]}`));
vector(0x10, ['movups Yx Xx', 'movupd Yx Xx', 'movss Yx Xd', 'movsd Yx Xq']);
vector(0x11, ['movups Xx Yx', 'movupd Xx Yx', 'movss Xd Yx', 'movsd Xq Yx']);
vector(0x14, ['unpcklps Yx Xx', 'unpcklpd Yx Xx']);
vector(0x16, ['movhps Yx Xq', 'movhpd Yx Xq']);
vector(0x17, ['movhps Xq Yx', 'movhpd Xq Yx']);
vector(0x28, ['movaps Yx Xx', 'movapd Yx Xx']);
vector(0x29, ['movaps Xx Yx', 'movapd Xx Yx']);
vector(0x2a, [null, null, 'cvtsi2ss Yx Ey', 'cvtsi2sd Yx Ey']);
vector(0x2c, [null, null, 'cvttss2si Gy Xd', 'cvttsd2si Gy Xq']);
vector(0x2d, [null, null, 'cvtss2si Gy Xd', 'cvtsd2si Gy Xq']);
vector(0x2e, ['ucomiss Yx Xd', 'ucomisd Yx Xq']);
vector(0x2f, ['comiss Yx Xd', 'comisd Yx Xq']);
for (const [opcode, name] of [[0x54, 'and'], [0x55, 'andn'], [0x56, 'or'], [0x57, 'xor']])
  vector(opcode, [`${name}ps Yx Xx`, `${name}pd Yx Xx`]);
vector(0x5a, ['cvtps2pd Yx Xq', 'cvtpd2ps Yx Xx', 'cvtss2sd Yx Xd', 'cvtsd2ss Yx Xq']);
vector(0x6e, [null, 'mov Yx Ey']);
vector(0x7e, [null, 'mov Ey Yx', 'movq Yx Xq']);
vector(0x6f, [null, 'movdqa Yx Xx', 'movdqu Yx Xx']);
vector(0x7f, [null, 'movdqa Xx Yx', 'movdqu Xx Yx']);
vector(0x70, [null, 'pshufd Yx Xx Ib']);
vector(0xd6, [null, 'movq Xq Yx']);
vector(0xe7, [null, 'movntdq Xx Yx']);
for (const [opcode, name] of [[0x60, 'punpcklbw'], [0x61, 'punpcklwd'], [0x62, 'punpckldq'], [0x64, 'pcmpgtb'],
  [0x65, 'pcmpgtw'], [0x66, 'pcmpgtd'], [0x6c, 'punpcklqdq'], [0x6d, 'punpckhqdq'], [0x74, 'pcmpeqb'],
  [0x75, 'pcmpeqw'], [0x76, 'pcmpeqd'], [0xd4, 'paddq'], [0xda, 'pminub'], [0xdb, 'pand'], [0xde, 'pmaxub'],
  [0xdf, 'pandn'], [0xeb, 'por'], [0xef, 'pxor'], [0xf8, 'psubb'], [0xf9, 'psubw'], [0xfa, 'psubd'],
  [0xfb, 'psubq'], [0xfc, 'paddb'], [0xfd, 'paddw'], [0xfe, 'paddd']])
  vector(opcode, [null, `${name} Yx Xx`]);
vector(0xd7, [null, 'pmovmskb Gd Xx']);

/* With a prefix that is part of the opcode. */
const PREFIXED = {
  f3: {0xb8: 'popcnt Gv Ev', 0xbc: 'tzcnt Gv Ev', 0xbd: 'lzcnt Gv Ev'},
};

const STRINGS = new Map([[0xa4, 'movs'], [0xa6, 'cmps'], [0xaa, 'stos'], [0xac, 'lods'], [0xae, 'scas']]);

module.exports = {ONE, TWO, VECTOR, GROUPS, PREFIXED, STRINGS};
