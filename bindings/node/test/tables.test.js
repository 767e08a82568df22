/* SPDX-License-Identifier: Apache-2.0 */
/* Process, Module, DebugSymbol, ApiResolver, Thread on tables; CModule's compiler. */
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const {fakeSession} = require('./fake');
const {compile, undefinedNames} = require('../lib/cmodule');
const {FLAG} = require('../lib/modules');
const {spawnSync} = require('node:child_process');

const symbol = (name, address, more = {}) =>
  ({name, version: '', address, size: 16, slot: 0n, flags: FLAG.FUNCTION | FLAG.GLOBAL, section: 1, ...more});

function loaded() {
  const fake = fakeSession();
  const {target} = fake;
  target.moduleList = [
    {base: 0x400000n, size: 0x3000, bias: 0n, path: '/usr/bin/program'},
    {base: 0x7000000n, size: 0x2000, bias: 0x7000000n, path: '/lib/ld-linux-x86-64.so.2'},
    {base: 0x7100000n, size: 0x5000, bias: 0x7100000n, path: '/lib/libc.so.6'},
  ];
  target.symbolLists = {
    '4194304 imports': [symbol('open', 0n, {version: 'libc.so.6', slot: 0x402000n}),
      symbol('strlen', 0x7104000n, {slot: 0x402008n})],
    '4194304 symbols': [symbol('main', 0x400100n), symbol('counter', 0x402800n, {flags: 0})],
    '117440512 exports': [symbol('malloc', 0x7000100n)],
    '118489088 exports': [symbol('malloc', 0x7100100n), symbol('open', 0x7100200n), symbol('open64', 0x7100200n),
      symbol('environ', 0x7101000n, {flags: FLAG.GLOBAL}),
      symbol('strlen', 0x7100300n, {flags: FLAG.IFUNC | FLAG.GLOBAL})],
  };
  target.rangeList = [
    {start: 0x400000n, end: 0x401000n, offset: 0, protection: 5, path: '/usr/bin/program'},
    {start: 0x401000n, end: 0x402000n, offset: 4096, protection: 5, path: '/usr/bin/program'},
    {start: 0x402000n, end: 0x403000n, offset: 8192, protection: 3, path: '/usr/bin/program'},
  ];
  target.places.set(0x400108n, {function: 0x400100n, moduleBase: 0x400000n, name: 'main', module: 'program',
    file: '/src/main.c', line: 12, column: 3});
  target.functions = {main: [0x400100n], 'op*': [0x7100200n]};
  return fake;
}

test('modules, exports, imports and symbols', () => {
  const {Process, Module} = loaded();
  assert.equal(Process.mainModule.name, 'program');
  assert.deepEqual(Process.enumerateModules().map(({name}) => name), ['program', 'ld-linux-x86-64.so.2', 'libc.so.6']);
  const libc = Process.getModuleByName('libc.so.6');
  assert.equal(libc.base.toString(), '0x7100000');
  assert.equal(libc.getExportByName('open').toString(), '0x7100200');
  assert.equal(libc.findExportByName('nothing'), null);
  assert.throws(() => libc.getExportByName('nothing'), /unable to find export 'nothing' in libc\.so\.6/);
  assert.equal(Module.getGlobalExportByName('malloc').toString(), '0x7100100', 'the dynamic linker comes last');
  assert.equal(Module.getGlobalExportByName('strlen').toString(), '0x7104000', 'where an ifunc is bound to');
  assert.equal(Module.findExportByName(null, 'open').toString(), '0x7100200');
  assert.equal(Module.findExportByName('libc.so.6', 'open').toString(), '0x7100200');
  assert.equal(Module.findGlobalExportByName('nothing'), null);
  assert.throws(() => Module.getExportByName(null, 'nothing'), /unable to find export 'nothing'/);
  assert.equal(Module.findBaseAddress('program').toString(), '0x400000');
  assert.deepEqual(libc.enumerateExports().find(({name}) => name === 'environ').type, 'variable');
  assert.equal(Process.mainModule.enumerateImports()[0].module, 'libc.so.6');
  assert.equal(Process.mainModule.enumerateSymbols()[0].name, 'main');
  assert.equal(Process.mainModule.getSymbolByName('main').toString(), '0x400100');
  assert.equal(Module.enumerateExports('libc.so.6').length, 5);
  assert.equal(Process.findModuleByAddress('0x7100fff').name, 'libc.so.6');
  assert.equal(Process.findModuleByAddress(1), null);
  assert.throws(() => Process.getModuleByName('x.so'), /unable to find module 'x\.so'/);
});

test('mappings', () => {
  const {Process, Memory, ptr} = loaded();
  assert.equal(Process.enumerateRanges('r-x').length, 2);
  assert.equal(Process.enumerateRanges({protection: 'r-x', coalesce: true})[0].size, 0x2000);
  assert.equal(Process.enumerateRanges('---').length, 3);
  assert.equal(Process.getRangeByAddress(ptr(0x402010)).protection, 'rw-');
  assert.throws(() => Process.getRangeByAddress(ptr(1)), /unable to find range/);
  assert.equal(Memory.queryProtection(ptr(0x400000)), 'r-x');
  assert.equal(Process.mainModule.enumerateRanges('rw-').length, 1);
});

test('names of addresses, and addresses of names', () => {
  const {target, DebugSymbol, ApiResolver, ptr} = loaded();
  const place = DebugSymbol.fromAddress(ptr(0x400108));
  assert.equal(place.toString(), '0x400108 program!main+0x8 main.c:12');
  target.places.set(0x400222n, {function: 0x400220n, moduleBase: 0x400000n, module: 'program', name: ''});
  assert.equal(DebugSymbol.fromAddress(0x400222).toString(), '0x400222 program!0x222'); /* no name is known */
  assert.equal(DebugSymbol.fromAddress(ptr(5)).toString(), '0x5');
  assert.equal(DebugSymbol.getFunctionByName('main').toString(), '0x400100');
  assert.deepEqual(DebugSymbol.findFunctionsMatching('op*').map(String), ['0x7100200']);
  assert.throws(() => DebugSymbol.getFunctionByName('no'), /unable to find function/);
  const resolver = new ApiResolver('module');
  assert.deepEqual(resolver.enumerateMatches('exports:*libc*!open*').map(({name}) => name),
    ['/lib/libc.so.6!open', '/lib/libc.so.6!open64']);
  assert.equal(resolver.enumerateMatches('exports:*!OPEN/i').length, 1);
  assert.throws(() => resolver.enumerateMatches('open'), /is no query/);
  assert.throws(() => new ApiResolver('objc'), /'module' is/);
});

test('threads and their stacks', () => {
  const {target, Process, Thread, Backtracer} = loaded();
  const [thread] = Process.enumerateThreads();
  assert.deepEqual([thread.id, thread.name, thread.state], [100, 'main', 'waiting']);
  assert.equal(thread.context.pc.toString(), '0x1000');
  assert.deepEqual(Thread.backtrace(thread.context, Backtracer.FUZZY).map(String), ['0x1000', '0x2000', '0x3000']);
  assert.deepEqual(target.log.pop(), ['backtrace', 100, true]);
  assert.throws(() => Thread.backtrace({}), /expected this\.context/);
  assert.throws(() => Process.getCurrentThreadId(), /in callbacks only/);
  assert.equal(Process.id, 4711);
  assert.equal(Process.platform, 'linux');
});

test('a CModule is compiled, and its names are bound', (t) => {
  if (process.arch !== 'x64' || spawnSync('cc', ['--version']).error)
    return t.skip('no C compiler of x86_64');
  const {target, CModule, ptr} = loaded();
  const source = 'extern int counter; extern int open(const char *, int);\n' +
    'int hot(int n) { counter += n; return open("x", 0); }\n';
  target.loadedSymbols = {hot: 0x9000n};
  const module = new CModule(source, {counter: ptr(0x402800)});
  assert.equal(module.hot.toString(), '0x9000');
  assert.deepEqual(target.loaded.names, {counter: 0x402800n, open: 0x7100200n});
  assert.deepEqual(undefinedNames(compile(source, 'x64').bytes).sort(), ['counter', 'open']);
  assert.throws(() => new CModule('int broken('), /the C code does not compile:\n.*module\.c:1/s);
  assert.throws(() => new CModule(3), /expected C code/);
});
