/* SPDX-License-Identifier: Apache-2.0 */
/* Types and calling conventions: NativeFunction and NativeCallback. */
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const {fakeSession} = require('./fake');
const {Signature} = require('../lib/convention');
const {KIND} = require('../lib/target');

function bits(value) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value, true);
  return view.getBigUint64(0, true);
}

test('arguments are in the places of the convention', () => {
  const {NativePointer} = fakeSession();
  const x64 = new Signature('x64', 'void', ['int', 'double', 'pointer', 'float', 'int8', 'uint8', 'long', 'bool',
    'int64', 'uint16'], NativePointer);
  const words = x64.putArguments([-1, 0.5, '0x1234', 1, -2, 254, 7, true, '-9', 65535]);
  assert.deepEqual(words.general, [0xffffffffffffffffn, 0x1234n, 0xfffffffffffffffen, 254n, 7n, 1n]);
  assert.deepEqual(words.vector, [bits(0.5), 0x3f800000n]);
  assert.deepEqual(words.stack, [0xfffffffffffffff7n, 65535n]);
  const arm64 = new Signature('arm64', 'void', Array(10).fill('int'), NativePointer);
  const many = arm64.putArguments([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(many.general.length, 8);
  assert.deepEqual(many.stack, [8n, 9n]);
});

test('variadic arguments are promoted, structures are taken apart', () => {
  const {NativePointer} = fakeSession();
  const printf = new Signature('x64', 'int', ['pointer', '...', 'float', 'int'], NativePointer);
  assert.equal(printf.isVariadic, true);
  assert.deepEqual(printf.putArguments([0, 0.25, 3]).vector, [bits(0.25)]);
  const mixed = new Signature('x64', ['double', 'int'], [['int', 'int', 'double'], ['float', 'float']], NativePointer);
  const words = mixed.putArguments([[1, 2, 0.5], [1, 2]]);
  assert.deepEqual(words.general, [0x200000001n]);
  assert.deepEqual(words.vector, [bits(0.5), 0x400000003f800000n]);
  assert.deepEqual(mixed.getResult((where, i) => where === 'vector' ? bits(2.5) : i === 0 ? 7n : 0n), [2.5, 7]);
  const three = new Signature('x64', 'void', [['long', 'long', 'long'], 'int'], NativePointer);
  const large = three.putArguments([[1, 2, 3], 4]);
  assert.deepEqual([large.stack, large.general], [[1n, 2n, 3n], [4n]]);
  const reals = new Signature('arm64', 'void', [['float', 'float', 'float']], NativePointer);
  assert.equal(reals.putArguments([[1, 2, 3]]).vector.length, 3);
});

test('large structures are in memory', () => {
  const {NativePointer} = fakeSession();
  const copies = [];
  const copy = (bytes) => BigInt(0x5000 + 0x100 * (copies.push(bytes) - 1));
  const read = (address, size) => copies[Number(address - 0x5000n >> 8n)].subarray(0, size);
  const three = ['long', 'int', 'double'], asWords = [7n, 3n, bits(0.5)];
  const toWords = (bytes) => [0, 8, 16].map((at) => bytes.readBigUInt64LE(at));
  const x64 = new Signature('x64', three, ['int', three], NativePointer);
  const onStack = x64.putArguments([4, [7, 3, 0.5]], copy);
  assert.deepEqual([onStack.general, onStack.stack, onStack.place], [[0x5000n, 4n], asWords, 0x5000n]);
  copies[0].set(Buffer.from(new BigInt64Array([1n, 2n, bits(3)]).buffer));
  assert.deepEqual(x64.getResult(null, 0x5000n, read).map(Number), [1, 2, 3]);
  const arm64 = new Signature('arm64', three, [...Array(7).fill('int'), three, three], NativePointer);
  const byAddress = arm64.putArguments([0, 1, 2, 3, 4, 5, 6, [7, 3, 0.5], [8, 3, 0.5]], copy);
  assert.deepEqual([byAddress.general[7], byAddress.stack, byAddress.place], [0x5200n, [0x5300n], 0x5100n]);
  assert.deepEqual([toWords(copies[2]), toWords(copies[3])], [asWords, [8n, 3n, bits(0.5)]]);
  const heard = arm64.getArguments((where, i) => byAddress[where][i], read);
  assert.deepEqual(heard.slice(7).map((value) => value.map(Number)), [[7, 3, 0.5], [8, 3, 0.5]]);
  for (const [signature, general] of [[x64, [9n]], [arm64, []]]) {
    let written;
    const words = signature.putResult([7, 3, 0.5], 9n, (address, bytes) => written = [address, toWords(bytes)]);
    assert.deepEqual([words.general, written], [general, [9n, asWords]]);
  }
});

test('results of arm64 with up to four numbers are in registers', () => {
  const {NativePointer} = fakeSession();
  const four = new Signature('arm64', ['double', 'double', 'double', 'double'], [], NativePointer);
  assert.deepEqual(four.getResult((where, i) => where === 'vector' ? bits(i + 0.5) : 0n), [0.5, 1.5, 2.5, 3.5]);
  const two = new Signature('arm64', ['int', 'long'], [['int', 'double'], 'int'], NativePointer);
  assert.deepEqual(two.putArguments([[1, 0.5], 3]).general, [1n, bits(0.5), 3n]);
  assert.deepEqual(two.getResult((where, i) => where === 'general' ? [7n, 8n][i] : 0n).map(Number), [7, 8]);
});

test('registers of arm64, vectors too', () => {
  const {target, NativeCallback} = fakeSession('arm64');
  const seen = {};
  const callback = new NativeCallback(function (first) {
    Object.assign(seen, {first, d0: this.context.d0, q0: Buffer.from(this.context.q0).readDoubleLE(0),
      x1: this.context.x1.toInt32(), fp: this.context.fp.toInt32()});
    this.context.s1 = 0.25;
    this.context.q2 = new Uint8Array(16).fill(7).buffer;
    this.context.x8 = 5;
  }, 'void', ['int']);
  target.setVector(0, 0.75);
  const request = target.request({kind: KIND.callback, id: Number(callback.toBigInt() & 0xffffn),
    registers: {x0: 3n, x1: 4n}});
  assert.deepEqual(seen, {first: 3, d0: 0.75, q0: 0.75, x1: 4, fp: 0});
  assert.equal(target.readVector(null, 1).readFloatLE(0), 0.25);
  assert.deepEqual([...target.readVector(null, 2)], Array(16).fill(7));
  assert.equal(request.u64('gpr', 8), 5n);
});

test('wrong types are refused', () => {
  const {NativeFunction, ptr, NativeCallback} = fakeSession();
  assert.throws(() => new NativeFunction(ptr(1), 'int', ['strange']), /there is no type "strange"/);
  assert.throws(() => new NativeFunction(ptr(1), 'int', ['void']), /only a function can be/);
  assert.throws(() => new NativeFunction(ptr(1), 'int', 'int'), /array of argument types/);
  assert.throws(() => new NativeFunction(ptr(1), 'int', ['int'])(), /expected 1 arguments, not 0/);
  assert.throws(() => new NativeFunction(ptr(1), 'int', ['pointer'])('x'), /expected a pointer, not "x"/);
  assert.throws(() => new NativeCallback(3, 'int', []), /expected a function/);
  assert.throws(() => new NativeFunction('nowhere', 'int', []), /expected a pointer to a function/);
});

test('NativeFunction is a function and a pointer', () => {
  const {target, NativeFunction, SystemFunction, NativePointer, ptr} = fakeSession();
  const seen = [];
  target.functions.__errno_location = [0x77n];
  target.run = (call) => {
    seen.push(call);
    return {general: [BigInt.asUintN(64, -5n), 0n], vector: [bits(1.5), 0n], error: 2, fault: 0};
  };
  const add = new NativeFunction(ptr(0x4000), 'int', ['int', 'pointer']);
  assert.equal(add(1, null), -5);
  assert.deepEqual(seen[0].general, [1n, 0n]);
  assert.equal(seen[0].function, 0x4000n);
  assert.ok(add instanceof NativePointer && add instanceof NativeFunction);
  assert.equal(add.add(4).toString(), '0x4004');
  assert.equal(add.call(null, 1, ptr(2)), -5);
  assert.equal(add.apply(null, [1, ptr(2)]), -5);
  assert.equal(new NativeFunction(add, 'double', [])(), 1.5);
  assert.equal(new NativeFunction(add, 'pointer', [])().toString(), '0xfffffffffffffffb');
  assert.equal(new NativeFunction(add, 'uint64', [])().toString(), '18446744073709551611');
  assert.deepEqual(new SystemFunction(add, 'int', [])(), {value: -5, errno: 2});
  assert.equal(seen.at(-1).errnoFunction, 0x77n);
});

test('NativeCallback gets its arguments and gives its result', () => {
  const {target, NativeCallback, messages} = fakeSession();
  let seen;
  const callback = new NativeCallback(function (a, b, c) {
    seen = {a, b, c: c.toString(), tid: this.threadId, rdi: this.context.rdi.toString()};
    return 42;
  }, 'int', ['int', 'double', 'pointer']);
  target.setVector(0, 0.75);
  const id = Number(callback.toBigInt() & 0xffffn);
  const request = target.request({kind: KIND.callback, id, registers: {rdi: -3n, rsi: 0x9000n}});
  assert.deepEqual(seen, {a: -3, b: 0.75, c: '0x9000', tid: 100, rdi: '0xfffffffffffffffd'});
  assert.equal(request.u64('gpr', 0), 42n);
  assert.equal(target.answers.at(-1).changed, true);
  const real = new NativeCallback(() => 2.5, 'double', []);
  target.request({kind: KIND.callback, id: Number(real.toBigInt() & 0xffffn)});
  assert.equal(target.readVector(null, 0).readDoubleLE(0), 2.5);
  const bad = new NativeCallback(() => {
    throw new Error('no');
  }, 'int', []);
  target.request({kind: KIND.callback, id: Number(bad.toBigInt() & 0xffffn)});
  assert.equal(target.answers.at(-1).changed, false);
  assert.match(messages[0].description, /no/);
  assert.match(messages[0].fileName, /native\.test\.js$/);
});
