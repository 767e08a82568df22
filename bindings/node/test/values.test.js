/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, pointers, memory, hexdump. */
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const {fakeSession} = require('./fake');
const {Int64, UInt64} = require('../lib/int64');

test('Int64 and UInt64 wrap at 64 bits', () => {
  assert.equal(new Int64('0x7fffffffffffffff').add(1).toString(), '-9223372036854775808');
  assert.equal(new UInt64(0).sub(1).toString(16), 'ffffffffffffffff');
  assert.equal(new UInt64('12').shl(4).or(3).toNumber(), 195);
  assert.equal(new Int64(-1).shr(1).toString(), '-1');
  assert.equal(new UInt64(5).compare(7), -1);
  assert.equal(new Int64(-1).equals(new UInt64('0xffffffffffffffff')), true);
  assert.equal(JSON.stringify({a: new UInt64('18446744073709551615')}), '{"a":"18446744073709551615"}');
  assert.equal(new Int64(20) + 2, 22);
  assert.throws(() => new Int64('twelve'), /expected a 64-bit number, not "twelve"/);
  assert.throws(() => new Int64({}), TypeError);
});

test('pointers: arithmetic, comparison, text', () => {
  const {ptr, NULL, NativePointer} = fakeSession();
  const p = ptr('0x1000');
  assert.equal(p.add(0x10).toString(), '0x1010');
  assert.equal(p.sub('8').toString(), '0xff8');
  assert.equal(p.and(0xf00f).or(1).xor(3).toString(), '0x1002');
  assert.equal(p.shl(4).shr(8).toString(), '0x100');
  assert.equal(NULL.not().toString(), '0xffffffffffffffff');
  assert.equal(p.equals(ptr(4096)), true);
  assert.equal(p.compare('0x2000'), -1);
  assert.equal(ptr('0xffffffff').toInt32(), -1);
  assert.equal(ptr('0x1ffffffff').toUInt32(), 0xffffffff);
  assert.equal(p.toString(10), '4096');
  assert.equal(ptr(-1).toString(), '0xffffffffffffffff');
  assert.equal(ptr('0x1122').toMatchPattern(), '22 11 00 00 00 00 00 00');
  assert.equal(NULL.isNull(), true);
  assert.equal(JSON.stringify([p]), '["0x1000"]');
  assert.equal('at ' + p, 'at 0x1000');
  assert.equal([`${p}`, String(p), p == '0x1000', p < ptr(0x2000), p > 5].join(), '0x1000,0x1000,true,true,true');
  assert.ok(p instanceof NativePointer);
  assert.throws(() => ptr('here'), /expected a pointer, not "here"/);
  assert.throws(() => ptr(undefined), /expected a pointer/);
  assert.equal(ptr({handle: p}).toString(), '0x1000');
});

test('pointers read and write numbers of all widths', () => {
  const {target, ptr} = fakeSession();
  target.map(0x1000n, Buffer.alloc(8192));
  const p = ptr(0x1000);
  const values = [['S8', -5], ['U8', 250], ['S16', -300], ['U16', 65000], ['S32', -70000], ['U32', 4000000000],
    ['Float', 0.5], ['Double', Math.PI], ['Short', -2], ['UShort', 3], ['Int', -4], ['UInt', 5]];
  for (const [name, value] of values)
    assert.equal(p['write' + name](value)['read' + name](), value, name);
  for (const name of ['S64', 'U64', 'Long', 'ULong'])
    assert.equal(p['write' + name](new UInt64('123456789012345678'))['read' + name]().toString(), '123456789012345678');
  assert.equal(p.writePointer(ptr('0x7fff00001234')).readPointer().toString(), '0x7fff00001234');
  p.writeByteArray([1, 2, 3]);
  assert.deepEqual(new Uint8Array(p.readByteArray(4)), Uint8Array.of(1, 2, 3, 0));
  assert.throws(() => ptr(0x9000).readU8(), /access violation accessing 0x9000/);
  assert.throws(() => ptr(0x2ffe).readU32(), /access violation accessing 0x3000/);
  assert.throws(() => p.readByteArray(-1), TypeError);
});

test('pointers read and write texts', () => {
  const {target, ptr, NULL, Memory} = fakeSession();
  target.map(0x1000n, Buffer.alloc(8192));
  const p = ptr(0x1ffc);
  assert.equal(p.writeUtf8String('grün, größer').readUtf8String(), 'grün, größer');
  assert.equal(p.readCString(3), 'gr\ufffd');
  assert.equal(ptr(0x1000).writeUtf16String('𝄞 clef').readUtf16String(), '𝄞 clef');
  assert.equal(NULL.readCString(), null);
  assert.equal(NULL.readUtf8String(), null);
  ptr(0x1100).writeByteArray([0xff, 0xfe, 0]);
  assert.throws(() => ptr(0x1100).readUtf8String(), /no UTF-8 text/);
  ptr(0x2fff).writeU8(65);
  assert.throws(() => ptr(0x2fff).readCString(), /access violation accessing 0x3000/);
  assert.equal(ptr(0x2fff).readCString(1), 'A');
  assert.equal(Memory.readUtf8String(p), 'grün, größer');
});

test('pages are kept during a callback, and dropped by writes', () => {
  const {target, session, ptr} = fakeSession();
  target.map(0x1000n, Buffer.alloc(8192, 7));
  ptr(0x1000).readU8();
  ptr(0x1001).readU8();
  assert.equal(target.reads, 2);
  session.memory.enter();
  for (let i = 0; i < 100; i++)
    ptr(0x1000 + i).readU8();
  ptr(0x1ffe).readU32();
  assert.equal(target.reads, 4);
  ptr(0x1000).writeU8(9);
  assert.equal(ptr(0x1000).readU8(), 9);
  assert.equal(target.reads, 5);
  session.memory.leave();
});

test('Memory allocates, copies, searches and patches', async () => {
  const {target, ptr, Memory} = fakeSession();
  const text = Memory.allocUtf8String('hello');
  assert.equal(text.readCString(), 'hello');
  const other = Memory.alloc(100);
  assert.equal(target.log.length, 1, 'small pieces come from one allocation');
  assert.deepEqual(new Uint8Array(other.readByteArray(100)), new Uint8Array(100));
  Memory.copy(other, text, 6);
  assert.equal(other.readUtf8String(), 'hello');
  assert.equal(Memory.dup(text, 6).readCString(), 'hello');
  target.map(0x10000n, Buffer.from([1, 0x13, 0x37, 9, 0x13, 0x37, 0xff, 0x13]));
  const found = Memory.scanSync(ptr(0x10000), 8, '13 37 ??').map(({address, size}) => `${address} ${size}`);
  assert.deepEqual(found, ['0x10001 3', '0x10004 3']);
  assert.deepEqual(Memory.scanSync(ptr(0x10000), 8, '1? 37 : f0 ff').length, 2);
  const seen = [];
  await Memory.scan(ptr(0x10000), 8, '13', {onMatch: (address) => seen.push(String(address)) && 'stop',
    onComplete: () => seen.push('complete')});
  assert.deepEqual(seen, ['0x10001', 'complete']);
  assert.throws(() => Memory.scanSync(ptr(0x10000), 8, '1'), /no pattern/);
  Memory.patchCode(ptr(0x10000), 2, (code) => code.writeU8(0x90).add(1).writeU8(0xc3));
  assert.equal(ptr(0x10000).readU16(), 0xc390);
  assert.throws(() => Memory.protect(ptr(0), 1, 'abc'), /no protection/);
  assert.equal(Memory.protect(ptr(0x10000), 8, 'r-x'), true);
  assert.deepEqual(target.log.at(-1), ['protect', 0x10000n, 8, 5]);
  assert.throws(() => Memory.alloc(0), TypeError);
});

test('hexdump', () => {
  const {target, ptr, hexdump} = fakeSession();
  target.map(0x1000n, Buffer.from('Hello, world!\0\x01\xff and more', 'latin1'));
  const lines = hexdump(ptr(0x1000), {length: 20}).split('\n');
  assert.equal(lines.length, 3);
  assert.match(lines[0], /^ {10} 0 {2}1 .* F {2}0123456789ABCDEF$/);
  assert.equal(lines[1], '00001000  48 65 6c 6c 6f 2c 20 77 6f 72 6c 64 21 00 01 ff  Hello, world!...');
  assert.equal(lines[2].trimEnd(), '00001010  20 61 6e 64' + ' '.repeat(38) + ' and');
  assert.equal(hexdump(Uint8Array.of(1, 2).buffer, {header: false}).slice(0, 15), '00000000  01 02');
  assert.match(hexdump(Uint8Array.of(65), {ansi: true}), /\x1b\[/);
});
