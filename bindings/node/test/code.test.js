/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions and writers. The writers are checked with the decoder: what is written is read back. */
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const {fakeSession} = require('./fake');
const {decodeInstruction} = require('../lib/instruction');

function textOf(arch, bytes, address = 0x1000n) {
  const {NativePointer} = fakeSession(arch);
  const lines = [];
  for (let at = 0; at < bytes.length;) {
    const insn = decodeInstruction(arch, bytes.subarray(at), address + BigInt(at), NativePointer);
    lines.push(insn.toString());
    at += insn.size;
  }
  return lines;
}

function written(arch, write, options) {
  const {target, X86Writer, Arm64Writer, ptr} = fakeSession(arch);
  target.map(0x1000n, Buffer.alloc(4096));
  const writer = new (arch === 'x64' ? X86Writer : Arm64Writer)(ptr(0x1000), options);
  write(writer, ptr);
  writer.flush();
  return textOf(arch, target.read(0x1000n, writer.offset));
}

test('Instruction.parse tells mnemonic, operands, registers and groups', () => {
  const {target, Instruction, ptr} = fakeSession();
  target.map(0x1000n, Buffer.from('488b4708e8f7ffffffc3c4', 'hex'));
  const mov = Instruction.parse(ptr(0x1000));
  assert.equal(mov.toString(), 'mov rax, qword ptr [rdi + 8]');
  assert.equal(mov.size, 4);
  assert.equal(mov.next.toString(), '0x1004');
  assert.deepEqual(mov.regsRead, ['rdi']);
  assert.deepEqual(mov.regsWritten, ['rax']);
  assert.deepEqual(mov.operands[1].value, {base: 'rdi', index: null, scale: 1, disp: 8});
  const call = Instruction.parse(mov.next);
  assert.equal(call.toString(), 'call 0x1000');
  assert.equal(call.target.toString(), '0x1000');
  assert.ok(call.groups.includes('call'));
  assert.equal(Instruction.parse(ptr(0x1009)).mnemonic, 'ret');
  target.map(0x2000n, Buffer.from([0x06]));
  assert.throws(() => Instruction.parse(ptr(0x2000)), /no valid instruction at 0x2000/);
  assert.throws(() => Instruction.parse(ptr(0x5000)), /access violation/);
});

test('text of x86_64 in the syntax of Intel', () => {
  const expected = {
    '55': 'push rbp', '4157': 'push r15', '4883ec18': 'sub rsp, 0x18', '31c0': 'xor eax, eax', 'f30f1efa': 'endbr64',
    '488d05e6100000': 'lea rax, [rip + 0x10e6]', 'ff25f0000000': 'jmp qword ptr [rip + 0xf0]', '7405': 'je 0x1007',
    '0f8500010000': 'jne 0x1106', '64488b042528000000': 'mov rax, qword ptr fs:[0x28]', '660f6fc1': 'movdqa xmm0, xmm1',
    'f20f584510': 'addsd xmm0, qword ptr [rbp + 0x10]', 'f348ab': 'rep stosq',
    'f0480fb10f': 'lock cmpxchg qword ptr [rdi], rcx',
    '0f94c0': 'sete al', '48b88877665544332211': 'movabs rax, 0x1122334455667788', '83f8ff': 'cmp eax, -1',
    '0f05': 'syscall', '660f1f440000': 'nop word ptr [rax + rax]', '41ffd4': 'call r12',
    '0fb606': 'movzx eax, byte ptr [rsi]',
    '8b048d00100000': 'mov eax, dword ptr [rcx*4 + 0x1000]', '4898': 'cdqe', 'c5f877': 'insn', 'd1e8': 'shr eax, 1',
  };
  for (const [bytes, text] of Object.entries(expected))
    assert.deepEqual(textOf('x64', Buffer.from(bytes, 'hex')), [text], bytes);
});

test('text of arm64', () => {
  assert.deepEqual(textOf('arm64', Buffer.from('fd7bbfa9c0035fd6', 'hex')), ['stp x29, x30, [sp, #-16]!', 'ret']);
});

test('X86Writer writes what its methods say', () => {
  const lines = written('x64', (w, ptr) => {
    w.putPushReg('rbp').putPushReg('r12');
    w.putMovRegReg('rbp', 'rsp');
    w.putSubRegImm('rsp', 0x20);
    w.putMovRegU64('rax', '0x1122334455667788').putMovRegU64('rcx', 5).putMovRegU64('rdx', -1).putMovRegU32('eax', 7);
    w.putMovRegRegOffsetPtr('rsi', 'rsp', 8).putMovRegOffsetPtrReg('r13', 0, 'rdi').putMovRegPtrU32('rbx', 9);
    w.putLeaRegRegOffset('rdi', 'rbp', -0x100).putAddRegImm('r9', 1000).putAndRegU32('eax', 0xff);
    w.putCmpRegI32('eax', 60).putTestRegReg('rax', 'rax').putXorRegReg('ecx', 'ecx').putShlRegU8('rax', 3);
    w.putIncReg('rax').putDecReg('r8d').putLockXaddRegPtrReg('rdi', 'rax').putCallReg('r11').putJmpRegPtr('rax');
    w.putMovRegFsU32Ptr('rax', 0x28).putPushfx().putPopfx().putCpuid().putNop().putBreakpoint();
    w.putMovRegBaseIndexScaleOffsetPtr('rax', 'rdi', 'rcx', 8, 16);
    w.putCmpImmPtrImmU32(ptr(0x2000), 9).putMovqXmm0EspOffsetPtr(8).putMovqEaxOffsetPtrXmm0(16);
    w.putMovdquXmm0EspOffsetPtr(0).putMovdquEaxOffsetPtrXmm0(-16);
    w.putCallRegOffsetPtrWithArguments('rbx', 24, ['rsi', 7]);
    w.putCallAddress(ptr(0x2000)).putJmpAddress(ptr(0x3000)).putNopPadding(3).putRetImm(8).putRet();
  });
  assert.deepEqual(lines, [
    'push rbp', 'push r12', 'mov rbp, rsp', 'sub rsp, 0x20', 'movabs rax, 0x1122334455667788', 'mov ecx, 5',
    'mov rdx, -1', 'mov eax, 7', 'mov rsi, qword ptr [rsp + 8]', 'mov qword ptr [r13], rdi', 'mov dword ptr [rbx], 9',
    'lea rdi, [rbp - 0x100]', 'add r9, 0x3e8', 'and eax, 0xff', 'cmp eax, 0x3c', 'test rax, rax', 'xor ecx, ecx',
    'shl rax, 3', 'inc rax', 'dec r8d', 'lock xadd qword ptr [rdi], rax', 'call r11', 'jmp qword ptr [rax]',
    'mov rax, qword ptr fs:[0x28]', 'pushfq', 'popfq', 'cpuid', 'nop', 'int3',
    'mov rax, qword ptr [rdi + rcx*8 + 0x10]', 'cmp dword ptr [rip + 0xf7e], 9', 'movq xmm0, qword ptr [rsp + 8]',
    'movq qword ptr [rax + 0x10], xmm0', 'movdqu xmm0, xmmword ptr [rsp]', 'movdqu xmmword ptr [rax - 0x10], xmm0',
    'push rsi', 'pop rdi', 'mov esi, 7', 'call qword ptr [rbx + 0x18]', 'call 0x2000',
    'jmp 0x3000', 'nop dword ptr [rax]', 'ret 8', 'ret']);
});

test('labels and far calls', () => {
  const lines = written('x64', (w, ptr) => {
    w.putLabel('again').putDecReg('ecx').putJccShortLabel('jne', 'again', 'no-hint').putJmpNearLabel('end');
    w.putNop().putLabel('end').putCallAddressWithArguments(ptr(0x1800), ['rdx', 5, ptr(0x10)]);
  });
  assert.deepEqual(lines, ['dec ecx', 'jne 0x1000', 'jmp 0x100a', 'nop', 'push rdx', 'pop rdi', 'mov esi, 5',
    'mov edx, 0x10', 'call 0x1800']);
  assert.throws(() => written('x64', (w) => w.putJmpShortLabel('nowhere')), /there is no label nowhere/);
  assert.throws(() => written('x64', (w) => w.putLabel('a').putNopPadding(200).putJmpShortLabel('a')),
    /does not reach/);
  assert.throws(() => written('x64', (w) => w.putMovRegReg('rax', 'ecx')), /not of one width/);
  assert.throws(() => written('x64', (w) => w.putPushReg('al')), /no register "al"/);
  assert.throws(() => written('x64', (w) => w.putJccShortLabel('jx', 'a')), /no conditional jump/);
  const {target, X86Writer, ptr} = fakeSession();
  target.map(0x1000n, Buffer.alloc(4096));
  const writer = new X86Writer(ptr(0x1000), {pc: ptr('0x7f0000001000')});
  writer.putCallAddress(ptr(0x5000));
  writer.flush();
  assert.equal(target.read(0x1000n, 16).toString('hex'), 'ff1502000000eb080050000000000000');
});

/* As aarch64-linux-gnu-as makes them. */
test('Arm64Writer: words of the rarer forms', () => {
  const {target, Arm64Writer, ptr} = fakeSession('arm64');
  target.map(0x1000n, Buffer.alloc(4096));
  const wordsOf = (write) => {
    const w = new Arm64Writer(ptr(0x1000));
    write(w);
    w.flush();
    const bytes = target.read(0x1000n, w.offset);
    return Array.from({length: bytes.length / 4}, (_, i) => bytes.readUInt32LE(4 * i).toString(16).padStart(8, '0'))
      .join(' ');
  };
  assert.equal(wordsOf((w) => w.putCbzRegImm('x3', ptr(0x1100)).putCbnzRegImm('w4', ptr(0x1104))), 'b4000803 35000804');
  assert.equal(wordsOf((w) => w.putTbzRegImmImm('x5', 33, ptr(0x1040)).putTbnzRegImmImm('w6', 3, ptr(0xfc4))),
    'b6080205 371ffe06');
  assert.match(wordsOf((w) => w.putPushAllQRegisters().putPopAllQRegisters()), /^adbf07e0 .* acc17ffe .* acc107e0$/);
  assert.equal(wordsOf((w) => w.putLdrRegRegOffsetMode('x1', 'x2', 8, 'post-adjust')
    .putLdrRegRegOffsetMode('w1', 'x2', -4, 'pre-adjust').putLdrRegRegOffsetMode('x1', 'x2', -16, 'signed-offset')
    .putLdrRegRegOffsetMode('x1', 'x2', 16, 'signed-offset').putStrRegRegOffsetMode('x1', 'x2', -8, 'post-adjust')
    .putStrRegRegOffsetMode('x7', 'x8', 24, 'pre-adjust').putStrRegRegOffsetMode('w1', 'x2', -3, 'signed-offset')
    .putLdrswRegRegOffset('x1', 'x2', 8)),
  'f8408441 b85fcc41 f85f0041 f9400841 f81f8441 f8018d07 b81fd041 b9800841');
  assert.equal(wordsOf((w) => w.putMovkRegImm('x3', 0x1234, 16).putMovkRegImm('w3', 0x1234, 0)), 'f2a24683 72824683');
  assert.equal(wordsOf((w) => w.putAndRegRegImm('x0', 'x1', 0xff).putAndRegRegImm('w0', 'w1', 0xfffffffe)
    .putAndRegRegImm('x0', 'x1', '0x00ff00ff00ff00ff').putAndRegRegImm('x0', 'x1', -16)
    .putTstRegImm('x2', '0x8000000000000001')), '92401c20 121f7820 92009c20 927cec20 f241045f');
  assert.equal(wordsOf((w) => w.putUbfm('x1', 'x2', 10, 3).putLslRegImm('x1', 'x2', 5).putLslRegImm('w1', 'w2', 31)
    .putLsrRegImm('x1', 'x2', 7).putLsrRegImm('w3', 'w4', 1)), 'd3432841 d37be841 53010041 d347fc41 53017c83');
  assert.equal(wordsOf((w) => w.putXpaciReg('x5').putPaciaRegReg('x6', 'x7')), 'dac143e5 dac100e6');
  assert.equal(wordsOf((w) => w.putStpRegRegRegOffset('d8', 'd9', 'sp', 16, 'signed-offset')), '6d0127e8');
  assert.equal(wordsOf((w) => w.putLdrRegU32('w1', -1).putLdrRegU64Ptr('x2', 0x1000).putLdrRegU32Ptr('w3', 0x2000)),
    '12800001 d2820002 f9400042 d2840003 b9400063');
  const w = new Arm64Writer(ptr(0x1000));
  for (const value of [0, -1, 5, 0x1234])
    assert.throws(() => w.putAndRegRegImm('x0', 'x0', value), /is no run of ones/);
  assert.throws(() => w.putMovkRegImm('x0', 1, 5), /multiple of 16/);
  assert.throws(() => w.putLslRegImm('w0', 'w0', 32), /from 0 to 31/);
  assert.throws(() => w.putLdrRegRef('x0'), /putLdrRegU64/);
});

test('Arm64Writer writes what its methods say', () => {
  const lines = written('arm64', (w, ptr) => {
    w.putPushRegReg('x29', 'x30').putMovRegReg('x29', 'sp').putMovRegReg('x0', 'x1').putMovRegReg('w2', 'w3');
    w.putLdrRegU64('x0', 5).putLdrRegU64('x1', '0x1122334455667788').putLdrRegU64('x2', -2).putLdrRegU64('x3', 0);
    w.putLdrRegRegOffset('x4', 'sp', 16).putStrRegRegOffset('w5', 'x6', 4).putAddRegRegImm('x0', 'x0', 1);
    w.putSubRegRegReg('x1', 'x2', 'x3').putCmpRegImm('w0', 60).putBCondLabel('lo', 'end').putCbzRegLabel('x7', 'end');
    w.putTbnzRegImmLabel('x1', 40, 'end').putBlImm(ptr(0x2000)).putBrReg('x16').putBlrReg('x17').putNop();
    w.putLabel('end').putPopRegReg('x29', 'x30').putRet();
  });
  assert.deepEqual(lines.map((line) => line.replace(/\s+/g, ' ')), [
    'stp x29, x30, [sp, #-16]!', 'mov x29, sp', 'mov x0, x1', 'mov w2, w3', 'mov x0, #0x5',
    'mov x1, #0x7788', 'movk x1, #0x5566, lsl #16', 'movk x1, #0x3344, lsl #32', 'movk x1, #0x1122, lsl #48',
    'mov x2, #0xfffffffffffffffe', 'mov x3, #0x0', 'ldr x4, [sp, #16]', 'str w5, [x6, #4]', 'add x0, x0, #0x1',
    'sub x1, x2, x3', 'cmp w0, #0x3c', 'b.cc 0x105c', 'cbz x7, 0x105c', 'tbnz x1, #40, 0x105c', 'bl 0x2000', 'br x16',
    'blr x17', 'nop', 'ldp x29, x30, [sp], #16', 'ret']);
});
