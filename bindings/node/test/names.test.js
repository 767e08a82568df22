/* SPDX-License-Identifier: Apache-2.0 */
/* Names that scripts bring with them: maps and observers of modules, patterns, files, checksums, and what is not
 * there. */
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {fakeSession} = require('./fake');
const {KIND} = require('../lib/target');

const MODULES = [
  {base: 0x400000n, size: 0x1000, bias: 0x400000n, path: '/bin/program'},
  {base: 0x7f0000n, size: 0x2000, bias: 0x7f0000n, path: '/lib/libz.so.1.2.13'},
];

function withModules() {
  const all = fakeSession();
  all.target.moduleList = [...MODULES];
  return all;
}

test('ModuleMap knows the modules of the moment it was made', () => {
  const {target, ModuleMap, ptr} = withModules();
  const map = new ModuleMap(), libraries = new ModuleMap(({name}) => name.startsWith('lib'));
  assert.equal(map.getName(ptr(0x400fff)), 'program');
  assert.equal(map.find(ptr(0x401000)), null);
  assert.deepEqual([map.has(ptr(0x3fffff)), map.has(0x7f0000)], [false, true]);
  assert.equal(libraries.has(ptr(0x400000)), false);
  assert.equal(libraries.findPath(ptr(0x7f1fff)), '/lib/libz.so.1.2.13');
  assert.deepEqual(map.values().map(({name}) => name), ['program', 'libz.so.1.2.13']);
  target.moduleList = MODULES.slice(0, 1);
  assert.equal(map.findName(ptr(0x7f0000)), 'libz.so.1.2.13');
  map.update();
  assert.equal(map.findName(ptr(0x7f0000)), null);
  assert.throws(() => map.get(ptr(16)), /unable to find module containing 0x10/);
  assert.throws(() => new ModuleMap('x'), /expected a function/);
});

test('a library is found by the name that programs are linked with', () => {
  const {Process, Module} = withModules();
  assert.equal(Process.getModuleByName('libz.so.1').path, '/lib/libz.so.1.2.13');
  assert.equal(Process.findModuleByName('libz'), null);
  assert.equal(Process.findModuleByName('libz.so.2'), null);
  assert.equal(Module.findBaseAddress('LIBZ.SO.1.2.13').toString(), '0x7f0000');
});

test('observers of modules: those there are, then what comes and goes', () => {
  const {target, Process} = withModules();
  const seen = [];
  const observer = Process.attachModuleObserver({
    onAdded: ({name}) => seen.push(`+${name}`), onRemoved: ({name}) => seen.push(`-${name}`)});
  assert.deepEqual(seen.splice(0), ['+program', '+libz.so.1.2.13']);
  target.moduleList = [MODULES[0], {base: 0x900000n, size: 16, bias: 0n, path: '/lib/new.so'}];
  target.request({kind: KIND.modules});
  assert.deepEqual(seen.splice(0), ['-libz.so.1.2.13', '+new.so']);
  observer.detach();
  target.moduleList = [...MODULES];
  target.request({kind: KIND.modules});
  assert.deepEqual(seen, []);
  assert.deepEqual(target.log, [['watchModules', true], ['modulesSeen'], ['watchModules', false], ['modulesSeen']]);
  assert.throws(() => Process.attachModuleObserver({}), /onAdded or onRemoved/);
});

test('an observer that throws lets the thread go on', () => {
  const {target, Process, messages} = withModules();
  let first = true;
  Process.attachModuleObserver({onAdded() {
    if (!first)
      throw new Error('in the observer');
  }});
  first = false;
  target.moduleList.push({base: 0x900000n, size: 16, bias: 0n, path: '/lib/new.so'});
  target.request({kind: KIND.modules});
  assert.match(messages[0].description, /in the observer/);
  assert.deepEqual(target.log.at(-1), ['modulesSeen']);
});

test('patterns: compiled ones, regular expressions, pointers', () => {
  const {target, Memory, MatchPattern, ptr} = fakeSession();
  target.map(0x1000n, Buffer.from('..one  two..onetwo..'.padEnd(4096, '.')));
  const offsets = (pattern) => Memory.scanSync(ptr(0x1000), 64, pattern).map(({address, size}) =>
    [address.sub(0x1000).toInt32(), size]);
  assert.deepEqual(offsets('/one\\s*two/'), [[2, 8], [12, 6]]);
  assert.deepEqual(offsets(new MatchPattern('6f 6e ?5')), [[2, 3], [12, 3]]);
  assert.throws(() => new MatchPattern('xx'), /is no pattern/);
  ptr(0x1100).writePointer(ptr(0x123456));
  ptr(0x1209).writePointer(ptr(0x123456)); /* not where pointers are */
  ptr(0x1ff8).writePointer(ptr('0x8000000000123456'));
  const found = (options) => Memory.findPointers({base: ptr(0x1001), size: 4095}, [ptr(0x123456)], options)
    .map(({address, value}) => `${address} ${value}`);
  assert.deepEqual(found(), ['0x1100 0x123456']);
  assert.deepEqual(found({mask: ptr('0x7fffffffffffffff')}), ['0x1100 0x123456', '0x1ff8 0x8000000000123456']);
});

test('File and Checksum', () => {
  const {File, Checksum} = fakeSession();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'contrail-'));
  try {
    const name = path.join(folder, 'log');
    const file = new File(name, 'w+');
    file.write('first\nsecond\n');
    file.write(Uint8Array.of(0x33, 10).buffer);
    assert.equal(file.tell(), 15);
    assert.equal(file.seek(-2, File.SEEK_END), 13);
    assert.equal(file.readText(), '3\n');
    file.seek(0);
    assert.deepEqual([file.readLine(), file.readText(3), file.readLine(), file.readLine(), file.readLine()],
      ['first\n', 'sec', 'ond\n', '3\n', '']);
    file.flush();
    file.close();
    assert.throws(() => file.write('x'), /is closed/);
    const more = new File(name, 'a');
    more.write('end');
    more.close();
    assert.equal(File.readAllText(name), 'first\nsecond\n3\nend');
    assert.equal(File.readAllBytes(name).byteLength, 18);
    assert.throws(() => new File(name, 'x'), /expected the name of a file/);
    assert.throws(() => new File(folder + '/no/file', 'r'), /no such file/);
  } finally {
    fs.rmSync(folder, {recursive: true});
  }
  assert.equal(Checksum.compute('md5', 'hello'), '5d41402abc4b2a76b9719d911017c592');
  const sum = new Checksum('sha1').update('hel');
  const copy = sum.copy();
  assert.equal(sum.peekString(), copy.getString());
  assert.equal(sum.update([0x6c, 0x6f]).getString(), 'aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d');
  assert.equal(sum.getDigest().byteLength, 20);
  assert.throws(() => sum.update('x'), /computed already/);
  assert.throws(() => new Checksum('crc'), /there is no checksum "crc"/);
});

test('what is not there says what there is instead', () => {
  const all = fakeSession();
  assert.deepEqual([all.ObjC.available, all.Java.available, all.Kernel.available], [false, false, false]);
  assert.throws(() => all.Java.perform(() => {}), /there is no Java here/);
  assert.throws(() => new all.Socket(), /there is no Socket here: node:net/);
  assert.throws(() => all.SqliteDatabase.open('x'), /there is no SqliteDatabase here/);
  assert.throws(() => all.MemoryAccessMonitor.enable([], {}), /setExceptionHandler/);
  assert.throws(() => all.Script.bindWeak({}, () => {}), /FinalizationRegistry/);
  assert.throws(() => all.Process.enumerateThreads()[0].setHardwareBreakpoint(0, 0), /is not there/);
  assert.equal(typeof all.X86Relocator, 'function');
});

test('Script loads code', async () => {
  const {Script} = fakeSession();
  assert.equal(Script.evaluate('/own.js', '6 * 7'), 42);
  assert.throws(() => Script.evaluate('/own.js', 'throw new Error("x")'), (error) => /own\.js:1/.test(error.stack));
  assert.equal((await Script.load('/module.js', 'export const answer = 42;')).answer, 42);
});

test('threads by number, and functions on them', async () => {
  const {target, Process, Stalker} = fakeSession();
  assert.equal(Process.getThreadById(100).name, 'main');
  assert.equal(Process.findThreadById(101), null);
  assert.throws(() => Process.getThreadById(101), /unable to find thread 101/);
  Stalker.follow(100, {});
  await assert.rejects(Process.runOnThread(100, () => 1), /is followed/);
  Stalker.unfollow(100);
  target.log.length = 0;
  await assert.rejects(Process.runOnThread(100, 5), /expected a function/);
  const ran = Process.runOnThread(100, () => Process.getCurrentThreadId());
  const second = Process.runOnThread(100, () => {
    throw new Error('in the thread');
  });
  assert.deepEqual(target.log.map(([what]) => what), ['follow']);
  const {Struct} = require('../lib/struct');
  target.insns = [new Struct(target.layout.insn).set32('length', 1).setBytes('bytes', Buffer.of(0x90))];
  target.request({kind: KIND.transform});
  const callout = new Struct(target.layout.edit, target.edits);
  assert.equal(callout.u32('kind'), 3);
  target.request({kind: KIND.callout, id: BigInt(callout.u32('id'))});
  assert.equal(await ran, 100);
  await assert.rejects(second, /in the thread/);
  target.request({kind: KIND.callout, id: BigInt(callout.u32('id'))}); /* nothing more */
  assert.deepEqual(target.log.map(([what]) => what), ['follow', 'unfollow']);
});
