/* SPDX-License-Identifier: Apache-2.0 */
/* What a script may do wrong, and the sentence that it gets. */
'use strict';

const assert = require('node:assert/strict');

const price = Process.mainModule.getSymbolByName('price');
const nothing = {onEnter() {}};

const cases = [
  [() => NULL.readU8(), /access violation accessing 0x0/],
  [() => ptr('0xffffffff81000000').writeU64(1), /access violation accessing 0xffffffff81000000/],
  [() => ptr('0x8000000000000000').readUtf8String(), /access violation/],
  [() => ptr('hello'), /expected a pointer, not "hello"/],
  [() => ptr({}), /expected a pointer/],
  [() => ptr(NaN), /not NaN/],
  [() => price.readByteArray(-1), /expected a number of bytes/],
  [() => price.writeByteArray('x'), /expected an ArrayBuffer/],
  [() => Memory.alloc(-1), /expected a number of bytes/],
  [() => Memory.alloc(1e18), /cannot be allocated/],
  [() => Memory.protect(price, 10, 'abc'), /is no protection/],
  [() => Memory.scanSync(ptr(16), 100, '00'), /access violation/],
  [() => Memory.scanSync(price, 16, 'zz'), /is no pattern/],
  [() => Memory.copy(price, ptr(1), 10), /access violation accessing 0x1/],
  [() => Memory.patchCode(ptr(1), 4, () => {}), /access violation/],
  [() => Interceptor.attach(null, nothing), /expected a pointer to a function/],
  [() => Interceptor.attach(price, {}), /expected an object with onEnter or onLeave/],
  [() => Interceptor.attach(price, {onEnter: 5}), /are functions/],
  [() => Interceptor.attach(Memory.alloc(16), nothing), /unable to intercept.*no function begins there/],
  [() => Interceptor.attach(price.add(2), nothing), /unable to intercept.*no function begins there/],
  [() => Interceptor.replace(price, {}), /expected a NativeCallback/],
  [() => Interceptor.replace(price.add(1), ptr(1)), /no function begins there/],
  [() => new NativeFunction(price, 'nint', []), /there is no type "nint"/],
  [() => new NativeFunction(price, 'int', ['void']), /only a function can be/],
  [() => NativeFunction(price, 'int', []), /made with new/],
  [() => new NativeFunction(price, 'long', ['long'])(), /expected 1 arguments, not 0/],
  [() => new NativeFunction(price, 'long', ['long'])({}), /expected a number/],
  [() => new NativeFunction(ptr(0x10), 'int', [])(), /access violation executing 0x10/],
  [() => new NativeFunction(Process.enumerateRanges('rw-')[0].base, 'int', [])(), /no code is there/],
  [() => new NativeCallback(5, 'int', []), /expected a function/],
  [() => Process.getModuleByName('x'), /unable to find module 'x'/],
  [() => Module.getGlobalExportByName('nope'), /unable to find global export 'nope'/],
  [() => Stalker.follow(99999999, {}), /there is no thread 99999999/],
  [() => Stalker.follow('x'), /the number of a thread/],
  [() => Stalker.follow(Process.id, {events: {foo: true}}), /there is no event "foo"/],
  [() => Stalker.follow(Process.id, {onReceive: 3}), /onReceive is a function/],
  [() => Stalker.parse('x'), /expected events/],
  [() => Stalker.removeCallProbe(77), /there is no probe 77/],
  [() => Stalker.addCallProbe(price, 3), /expected a function/],
  [() => Stalker.exclude({}), /a range/],
  [() => Stalker.trustThreshold = -5, /trustThreshold is a whole number from -1 on, not -5/],
  [() => Stalker.queueCapacity = 0, /queueCapacity is a whole number from 1 on/],
  [() => Stalker.queueDrainInterval = 'x', /queueDrainInterval is a whole number/],
  [() => Script.timeout = -1, /a time limit is a number of milliseconds/],
  [() => new CModule(5), /expected C code/],
  [() => Instruction.parse(ptr(1)), /access violation accessing 0x1/],
  [() => hexdump(ptr(1)), /access violation/],
  [() => new ApiResolver('objc'), /no resolver of type 'objc'/],
  [() => new ApiResolver('module').enumerateMatches('foo'), /is no query/],
  [() => recv('x', () => {}).wait(), /cannot wait/],
  [() => Thread.backtrace(), /expected this\.context/],
  [() => Process.setExceptionHandler(5), /expected a function/],
  [() => Process.getCurrentThreadId(), /no thread of the target/],
  [() => new Trace('/nope'), /there is no trace/],
  [() => int64('abc'), /expected a 64-bit number/],
  [() => new X86Writer(Memory.alloc(16)).putMovRegReg('rax', 'foo'), /no register "foo"/],
];

let wrong = 0;
for (const [run, message] of cases)
  try {
    assert.throws(run, message);
  } catch (error) {
    wrong++;
    console.log(`${run}: ${error.message}`);
  }
assert.equal(Memory.protect(ptr(4096), 4096, 'rwx'), false);
console.log(wrong ? `bad input: ${wrong} wrong` : 'bad input: all right');
Contrail.detach();
