/* SPDX-License-Identifier: Apache-2.0 */
/* Stalker: options, events, probes and transforms. */
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const {fakeSession, LAYOUT} = require('./fake');
const {Struct} = require('../lib/struct');
const {EDIT} = require('../lib/transform');
const {KIND} = require('../lib/target');

function events(list) {
  const data = new ArrayBuffer(32 * list.length);
  const words = new BigUint64Array(data), halves = new Int32Array(data);
  list.forEach(([kind, depth, location, target], i) => {
    halves[8 * i] = kind;
    halves[8 * i + 1] = depth;
    words[4 * i + 1] = location;
    words[4 * i + 2] = target;
  });
  return data;
}

test('events are parsed with and without kinds, as text and as pointers', () => {
  const {Stalker, NativePointer} = fakeSession();
  const data = events([[1, -1, 0x10n, 0x20n], [2, 3, 0x30n, 0x40n], [4, 0, 0x50n, 0n], [8, 0, 0x60n, 0x70n],
    [16, 0, 0x80n, 0x90n]]);
  assert.deepEqual(Stalker.parse(data, {annotate: true, stringify: true}), [['call', '0x10', '0x20', -1],
    ['ret', '0x30', '0x40', 3], ['exec', '0x50'], ['block', '0x60', '0x70'], ['compile', '0x80', '0x90']]);
  assert.deepEqual(Stalker.parse(data, {annotate: false, stringify: true})[0], ['0x10', '0x20', -1]);
  assert.ok(Stalker.parse(data)[0][1] instanceof NativePointer);
  assert.throws(() => Stalker.parse(new ArrayBuffer(5)), /expected events/);
});

test('follow takes a thread, or the one that waits', () => {
  const {target, Stalker, Interceptor, ptr} = fakeSession();
  assert.throws(() => Stalker.follow({events: {call: true}}), /outside of callbacks name one/);
  Stalker.follow(55, {events: {call: true, ret: true, block: false}, onReceive() {}});
  assert.deepEqual(target.log.pop(), ['follow', 55, 3, 0, 0]);
  Stalker.follow(56, {onCallSummary() {}});
  assert.deepEqual(target.log.pop(), ['follow', 56, 1, 1, 0]);
  Interceptor.attach(ptr(0x4000), {onEnter() {
    Stalker.follow({transform() {}});
    Stalker.unfollow();
  }});
  target.request({kind: KIND.enter, id: 1, call: 1n});
  assert.deepEqual(target.log.splice(0), [['follow', null, 0, 0, 1], ['unfollow', null]]);
  assert.throws(() => Stalker.follow(1, {events: {calls: true}}), /there is no event "calls"/);
  assert.throws(() => Stalker.follow(1, {onReceive: 1}), /onReceive is a function/);
  Stalker.trustThreshold = 0;
  Stalker.exclude({base: ptr(0x1000), size: 16});
  assert.deepEqual(target.log, [['trust', 0], ['exclude', 0x1000n, 16n]]);
  assert.equal(Stalker.trustThreshold, 0);
});

test('batches reach the callbacks of their thread', () => {
  const {target, session, Stalker} = fakeSession();
  const got = [], warnings = [];
  session.on('warning', (text) => warnings.push(text));
  Stalker.follow(7, {events: {call: true}, onReceive: (data) => got.push(data.byteLength),
    onCallSummary: (summary) => got.push(summary)});
  const data = events([[1, 0, 1n, 0x20n], [1, 0, 2n, 0x20n], [2, 0, 3n, 0x40n], [1, 0, 2n, 0x30n]]);
  target.batches = [{tid: 7, summary: false, count: 4, lost: 3, data},
    {tid: 8, summary: false, count: 4, lost: 0, data}];
  target.request({kind: KIND.events, slot: 0xffffffff});
  assert.deepEqual(got, [128, {'0x20': 2, '0x30': 1}]);
  assert.match(warnings[0], /^3 events are lost/);
  Stalker.follow(9, {onCallSummary: (summary) => got.push(summary)});
  const counts = new BigUint64Array([0x50n, 5n, 0x60n, 6n]).buffer;
  target.batches = [{tid: 9, summary: true, count: 2, lost: 0, data: counts}];
  Stalker.flush();
  assert.deepEqual(got.at(-1), {'0x50': 5, '0x60': 6});
});

test('probes are called with arguments and data', () => {
  const {target, Stalker, ptr} = fakeSession();
  const seen = [];
  const id = Stalker.addCallProbe(ptr(0x4000), function (args) {
    seen.push(args[0].toInt32(), this.data, this.context.pc.toString());
  }, 'some data');
  target.request({kind: KIND.probe, id, registers: {rdi: 5n, pc: 0x4000n}});
  assert.deepEqual(seen, [5, 'some data', '0x4000']);
  Stalker.removeCallProbe(id);
  assert.throws(() => Stalker.removeCallProbe(id), /there is no probe/);
});

function insn(address, bytes) {
  const item = new Struct(LAYOUT.insn);
  return item.set64('address', address).set32('length', bytes.length).setBytes('bytes', Buffer.from(bytes));
}

function editsOf(bytes) {
  return Array.from({length: bytes.length / LAYOUT.edit.size}, (_, i) => {
    const item = new Struct(LAYOUT.edit, bytes, i * LAYOUT.edit.size);
    return {kind: item.u32('kind'), insn: item.u32('insn'), id: item.u32('id'), user: item.u64('user'),
      bytes: item.getBytes('bytes', item.u32('length')).toString('hex')};
  });
}

test('a transform keeps, inserts and jumps over callouts', () => {
  const {target, Stalker, Interceptor, ptr, messages} = fakeSession();
  const seen = [];
  Interceptor.attach(ptr(0x4000), {onEnter() {
    Stalker.follow({
      transform(iterator) {
        let instruction = iterator.next();
        do {
          if (instruction.mnemonic === 'ret') {
            iterator.putCmpRegI32('eax', 60);
            iterator.putJccShortLabel('jb', 'nope', 'no-hint');
            iterator.putCallout((context) => seen.push(context.rax.toInt32()));
            iterator.putLabel('nope');
          }
          iterator.keep();
        } while ((instruction = iterator.next()) !== null);
      },
    });
  }});
  target.request({kind: KIND.enter, id: 1, call: 1n});
  target.insns = [insn(0x4000n, [0x89, 0xf8]), insn(0x4002n, [0xc3])];
  target.request({kind: KIND.transform});
  assert.deepEqual(messages, []);
  const edits = editsOf(target.edits);
  assert.deepEqual(edits.map(({kind}) => kind),
    [EDIT.keep, EDIT.bytes, EDIT.jump, EDIT.callout, EDIT.label, EDIT.keep]);
  assert.equal(edits[1].bytes, '83f83c');
  assert.equal(edits[2].user, 2n);
  assert.equal(edits[2].id, edits[4].id);
  assert.equal(edits[5].insn, 1);
  target.request({kind: KIND.callout, id: edits[3].id, registers: {rax: 77n}});
  assert.deepEqual(seen, [77]);
});

test('a transform on arm64: branches of all forms, and exclusive accesses', () => {
  const {target, Stalker, messages} = fakeSession('arm64');
  const access = [];
  Stalker.follow(100, {transform(iterator) {
    for (let instruction = iterator.next(); instruction !== null; instruction = iterator.next()) {
      access.push([instruction.mnemonic, iterator.memoryAccess]);
      if (instruction.mnemonic === 'ret') {
        iterator.putCbzRegLabel('x1', 'end').putTbnzRegImmLabel('w2', 3, 'end').putBCondLabel('lo', 'end');
        iterator.putCmpRegImm('w0', 60).putLabel('end');
      }
      iterator.keep();
    }
  }});
  target.insns = ['207c5fc8', '00040091', '207c02c8', 'c0035fd6']
    .map((hex, i) => insn(0x4000n + BigInt(4 * i), [...Buffer.from(hex, 'hex')]));
  target.request({kind: KIND.transform});
  assert.deepEqual(messages, []);
  assert.deepEqual(access, [['ldxr', 'open'], ['add', 'exclusive'], ['stxr', 'exclusive'], ['ret', 'open']]);
  const edits = editsOf(target.edits);
  assert.deepEqual(edits.map(({kind}) => kind), [EDIT.keep, EDIT.keep, EDIT.keep, EDIT.bytes, EDIT.jump, EDIT.bytes,
    EDIT.jump, EDIT.jump, EDIT.bytes, EDIT.label, EDIT.keep]);
  assert.deepEqual([3, 5, 8].map((i) => edits[i].bytes), ['410000b5', '42001836', '1ff00071']);
  assert.deepEqual([4, 6, 7].map((i) => edits[i].user), [16n, 16n, 3n]);
});

test('a transform that throws leaves the block as it is', () => {
  const {target, Stalker, messages} = fakeSession();
  Stalker.follow(100, {transform() {
    throw new Error('bad transform');
  }});
  target.insns = [insn(0x4000n, [0xc3])];
  target.edits = 'untouched';
  target.request({kind: KIND.transform});
  assert.equal(target.edits, null);
  assert.match(messages[0].description, /bad transform/);
});
