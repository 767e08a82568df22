/* SPDX-License-Identifier: Apache-2.0 */
/* Interceptor, Stalker and messages on a target of tables. */
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const {fakeSession} = require('./fake');
const {KIND} = require('../lib/target');

test('listeners get arguments, registers and results, and change them', () => {
  const {target, Interceptor, ptr, messages} = fakeSession();
  target.map(0x8000n, Buffer.alloc(4096));
  const seen = [];
  const listener = Interceptor.attach(ptr(0x4000), {
    onEnter(args) {
      this.first = args[0].toInt32();
      seen.push([this.threadId, this.depth, this.returnAddress.toString(), args[6].toString()]);
      args[1] = ptr(99);
      args[7] = ptr(0x77);
      this.context.rbx = 5;
    },
    onLeave(retval) {
      seen.push([this.first, retval.toInt32()]);
      retval.replace(8);
      seen.push(retval.toInt32());
    },
  });
  Interceptor.flush();
  const id = [...target.hooks.keys()][0];
  assert.equal(target.hooks.get(id).flags, 3);
  target.map(0x9000n, Buffer.from(Uint8Array.of(...Array(8).fill(0), 0x66, 0, 0, 0, 0, 0, 0, 0)));
  const registers = {rdi: 7n, rsi: 1n, rsp: 0x9000n};
  const enter = target.request({kind: KIND.enter, id, call: 12n, depth: 2, return_address: 0x1234n, registers});
  assert.equal(enter.u64('gpr', 6), 99n);
  assert.equal(enter.u64('gpr', 3), 5n);
  assert.equal(target.read(0x9010n, 8).readBigUInt64LE(0), 0x77n);
  const leave = target.request({kind: KIND.leave, id, call: 12n, registers: {rax: 3n}});
  assert.equal(leave.u64('gpr', 0), 8n);
  assert.deepEqual(seen, [[100, 2, '0x1234', '0x66'], [7, 3], 8]);
  assert.deepEqual(target.answers.map(({changed}) => changed), [true, true]);
  listener.detach();
  assert.equal(target.hooks.size, 0);
  assert.deepEqual(messages, []);
});

test('what a listener throws is reported, and the thread goes on unchanged', () => {
  const {target, Interceptor, ptr, messages} = fakeSession();
  Interceptor.attach(ptr(0x4000), {onEnter() {
    throw new Error('broken listener');
  }});
  target.request({kind: KIND.enter, id: 1, call: 1n});
  assert.equal(target.answers.at(-1).changed, false);
  assert.equal(messages[0].type, 'error');
  assert.match(messages[0].description, /broken listener/);
  assert.ok(messages[0].lineNumber > 0);
});

test('listeners of one function share its hook', () => {
  const {target, Interceptor, ptr} = fakeSession();
  const order = [];
  const make = (name) => ({onEnter: () => order.push(`in ${name}`), onLeave: () => order.push(`out ${name}`)});
  const a = Interceptor.attach(ptr(0x4000), make('a'));
  Interceptor.attach(ptr(0x4000), {onEnter: () => order.push('b')});
  Interceptor.flush();
  assert.equal(target.hooks.size, 1);
  target.request({kind: KIND.enter, id: 1, call: 5n});
  target.request({kind: KIND.leave, id: 1, call: 5n});
  assert.deepEqual(order, ['in a', 'b', 'out a']);
  a.detach();
  assert.equal(target.hooks.get(1).flags, 1);
  Interceptor.detachAll();
  assert.equal(target.hooks.size, 0);
  target.request({kind: KIND.enter, id: 1, call: 6n});
  assert.equal(order.length, 3, 'a request of a hook that is gone does nothing');
});

test('the first hook of all has the number 0, and goes as others do', () => {
  const {target, Interceptor, ptr} = fakeSession();
  target.nextHook = 0;
  for (let i = 0; i < 2; i++) {
    const listener = Interceptor.attach(ptr(0x4000), {onEnter() {}});
    Interceptor.flush();
    assert.equal(target.hooks.get(i).flags, 1);
    Interceptor.attach(ptr(0x4000), {onLeave() {}});
    assert.equal(target.hooks.get(i).flags, 3);
    listener.detach();
    assert.equal(target.hooks.get(i).flags, 2);
    Interceptor.detachAll();
    assert.equal(target.hooks.size, 0);
  }
});

test('wrong uses of Interceptor are refused', () => {
  const {target, Interceptor, ptr, NULL} = fakeSession();
  assert.throws(() => Interceptor.attach(ptr(0xbad), {onEnter() {}}),
    /unable to intercept function at 0xbad: no function/);
  assert.throws(() => Interceptor.attach([ptr(0x5000), ptr(0xbad)], {onEnter() {}}), /at 0xbad/);
  assert.equal(target.hooks.size, 0, 'all, or none');
  assert.throws(() => Interceptor.attach(NULL, {}), /onEnter or onLeave/);
  assert.throws(() => Interceptor.attach(NULL, {onEnter: 3}), /are functions/);
  assert.throws(() => Interceptor.attach('x', {onEnter() {}}), /expected a pointer to a function/);
  Interceptor.attach(ptr(0x4000), {onEnter() {}});
  assert.throws(() => Interceptor.replace(ptr(0x4000), ptr(1)), /intercepted already/);
});

test('many functions are hooked at once', async () => {
  const {target, Interceptor, ptr, send, messages} = fakeSession();
  let calls = 0;
  const hook = target.hook.bind(target);
  target.hook = (bytes) => {
    calls++;
    return hook(bytes);
  };
  Interceptor.attach(Array.from({length: 1000}, (_, i) => ptr(0x4000 + 16 * i)), {onEnter() {}});
  assert.equal(target.hooks.size, 1000);
  assert.equal(calls, 1);
  const listeners = Array.from({length: 100}, (_, i) => Interceptor.attach(ptr(0x14000 + 16 * i), {onEnter() {}}));
  listeners[7].detach();
  assert.equal(calls, 1, 'nothing happens yet');
  await null;
  assert.deepEqual([calls, target.hooks.size], [2, 1099], 'the turn is over');
  const attach = (n) => Interceptor.attach(ptr(0x24000 + 16 * n), {onEnter() {}});
  attach(1);
  send('now');
  assert.deepEqual([calls, target.hooks.size], [3, 1100], 'the program hears of it');
  target.checkHook = () => 0;
  Interceptor.attach(ptr(0xbad), {onEnter() {}});
  attach(2);
  Interceptor.flush();
  assert.deepEqual([calls, target.hooks.size], [4, 1101], 'one that fails is no reason for another');
  assert.match(messages.at(-1).description, /unable to intercept function at 0xbad/);
});

test('a replacement that calls the function reaches the original', () => {
  const {target, Interceptor, NativeFunction, NativeCallback, ptr} = fakeSession();
  const seen = [];
  target.run = (call) => {
    seen.push(call.function);
    return {general: [5n, 0n], vector: [0n, 0n], error: 0, fault: 0};
  };
  const open = new NativeFunction(ptr(0x4000), 'int', ['int']);
  const replacement = new NativeCallback((n) => open(n) + 1, 'int', ['int']);
  Interceptor.replace(open, replacement);
  const id = Number(replacement.toBigInt() & 0xffffn);
  const request = target.request({kind: KIND.callback, id, registers: {rdi: 1n}});
  assert.equal(request.u64('gpr', 0), 6n);
  open(1);
  assert.deepEqual(seen, [0x1004000n, 0x4000n]);
  Interceptor.revert(open);
  assert.equal(target.hooks.size, 0);
  const original = Interceptor.replaceFast(open, replacement);
  assert.equal(original.toString(), '0x1004000');
});

test('a session that is ended in a callback ends after it', async () => {
  const {target, session, Interceptor, ptr} = fakeSession();
  Interceptor.attach(ptr(0x4000), {onEnter() {
    session.detach();
    assert.equal(target.closed, undefined);
  }});
  target.request({kind: KIND.enter, id: 1, call: 1n});
  const reason = await new Promise((resolve) => session.on('detached', resolve));
  assert.equal(reason, 'application-requested');
  assert.equal(target.closed, true);
});

test('messages go both ways, and rpc.exports answers', async () => {
  const {session, messages, send, recv, rpc, api} = fakeSession();
  send({n: 1n, p: api.ptr(16)}, Uint8Array.of(1, 2));
  assert.deepEqual(messages[0].payload, {n: '1', p: '0x10'});
  assert.deepEqual([...messages[0].data], [1, 2]);
  const got = [];
  recv('poke', (message) => got.push(message.payload));
  session.messages.post({type: 'other', payload: 1});
  session.messages.post({type: 'poke', payload: 2});
  await new Promise(setImmediate);
  assert.deepEqual(got, [2]);
  recv((message) => got.push(message.payload)).wait();
  assert.deepEqual(got, [2, 1]);
  assert.throws(() => recv('never', () => {}).wait(), /cannot wait/);
  rpc.exports = {add: (a, b) => a + b};
  assert.equal(await session.messages.exports.add(2, 3), 5);
  await assert.rejects(session.messages.exports.none(), /exports no function none/);
});

test('a listener in C and one in JavaScript do not share a callback', () => {
  const {target, Interceptor, NativePointer} = fakeSession();
  const native = new NativePointer(0x5000);
  Interceptor.attach([0x1000], {onEnter() {}});
  assert.throws(() => Interceptor.attach([0x1000], {onEnter: native}), /do not share onEnter/);
  Interceptor.attach([0x1000], {onLeave: native});
  assert.throws(() => Interceptor.attach([0x1000], {onLeave() {}}), /do not share onEnter or onLeave/);
  assert.equal([...target.hooks.values()][0].flags, 3);
});

test('an attach that fails leaves nothing behind', () => {
  const {target, Interceptor} = fakeSession();
  assert.throws(() => Interceptor.attach([0x1000, 0xbad], {onEnter() {}}), /no function begins there/);
  assert.equal(target.hooks.size, 0);
  let calls = 0;
  assert.throws(() => Interceptor.attach([0x2000, 'here'], {onEnter: () => calls++}), /expected a pointer/);
  Interceptor.attach({address: 0x2000}, {onEnter: () => calls += 10});
  Interceptor.flush();
  const [{id}] = target.hooks.values();
  target.request({kind: 1, id: BigInt(id), call: 1n});
  assert.equal(calls, 10);
});
