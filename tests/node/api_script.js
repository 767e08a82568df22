/* SPDX-License-Identifier: Apache-2.0 */
/* Each member of the API on a real process: examples/scripts/sample.c, started by `contrail script`. Checks run at the
 * moments they need (before the program runs, in a callback, beside the running program). The last line says how many
 * there were; a check that fails is named. */
'use strict';

const assert = require('node:assert/strict');

const results = [];

function check(name, run) {
  try {
    run();
    results.push(null);
  } catch (error) {
    results.push(`${name}: ${error.stack}`);
  }
}

const main = Process.mainModule;
const functionOf = (name) => main.getSymbolByName(name);
const libc = Process.enumerateModules().find(({name}) => /^libc\.so|^libc-|^libc\.musl|^ld-musl/.test(name));

check('Process', () => {
  assert.ok(Process.id > 1);
  assert.equal(Process.platform, 'linux');
  assert.equal(Process.pointerSize, 8);
  assert.equal(main.name, 'sample');
  assert.equal(Process.enumerateThreads().length, 1, 'the program has not begun');
  assert.equal(Process.getModuleByAddress(functionOf('price')).name, 'sample');
  assert.ok(Process.enumerateRanges('r-x').length >= 2);
  assert.equal(Process.getRangeByAddress(functionOf('price')).protection, 'r-x');
  assert.throws(() => Process.getCurrentThreadId());
});

check('Module', () => {
  assert.ok(main.enumerateSymbols().some(({name, type}) => name === 'look_into' && type === 'function'));
  assert.ok(main.enumerateImports().some(({name}) => /^open(64)?$/.test(name)));
  assert.ok(libc.enumerateExports().length > 500);
  assert.equal(libc.getExportByName('open').toString(), Module.getGlobalExportByName('open').toString());
  assert.equal(Module.findExportByName('no such module', 'open'), null);
  assert.equal(Module.findGlobalExportByName('no such function'), null);
  for (const name of ['memcpy', 'strlen', 'memset']) { /* glibc chooses them at run time, of several versions */
    const own = DebugSymbol.fromAddress(libc.getExportByName(name));
    assert.match(own.name ?? '', /mem|str/, own.toString());
    assert.ok(!Process.enumerateModules().some(({name: file}) => file.startsWith('libc.so')) ||
      own.name !== name, `${own} is not the resolver`);
  }
  const [match] = new ApiResolver('module').enumerateMatches('exports:*libc*!getpid');
  assert.ok(match === undefined || match.address.equals(libc.getExportByName('getpid')));
});

const checkNames = () => {
  const symbol = DebugSymbol.fromAddress(functionOf('price').add(1));
  assert.equal(symbol.name, 'price');
  assert.equal(symbol.moduleName, 'sample');
  assert.match(symbol.fileName, /sample\.c$/);
  assert.ok(symbol.lineNumber > 10);
  assert.ok(DebugSymbol.getFunctionByName('walk').equals(functionOf('walk')));
  assert.equal(DebugSymbol.fromAddress(ptr(16)).name, null);
};

check('forms of earlier versions', () => {
  const names = [];
  Process.enumerateModules({onMatch: ({name}) => names.push(name), onComplete: () => names.push('end')});
  assert.deepEqual(names, [...Process.enumerateModulesSync().map(({name}) => name), 'end']);
  let first = null;
  Module.enumerateExports(libc.name, {onMatch: (found) => (first = found, 'stop'), onComplete() {}});
  assert.equal(first.name, Module.enumerateExportsSync(libc.name)[0].name);
  assert.equal(main.enumerateSymbolsSync().length, main.enumerateSymbols().length);
  assert.ok(Process.enumerateRangesSync('r-x').length >= 2);
  assert.equal(Memory.readU8(main.base), 0x7f);
  assert.ok(!Java.available && !ObjC.available);
});

check('what cannot be done before the program runs', () => {
  assert.equal(Process.isDebuggerAttached(), false);
  assert.throws(() => new NativeFunction(libc.getExportByName('getpid'), 'int', [])(), /has not begun.*callback/);
});

check('Memory', () => {
  const place = Memory.alloc(3 * Process.pageSize);
  assert.equal(place.add(Process.pageSize).writeUtf8String('far').readUtf8String(), 'far');
  assert.equal(Memory.allocUtf8String('text').readCString(), 'text');
  assert.equal(Memory.scanSync(main.base, Process.pageSize, '7f 45 4c 46')[0].address.toString(), main.base.toString());
  assert.equal(Memory.protect(place, Process.pageSize, 'r--'), true);
  assert.equal(Memory.queryProtection(place), 'r--');
  assert.throws(() => ptr(8).readU8(), /access violation accessing 0x8/);
  assert.throws(() => ptr(8).writeU8(1), /access violation accessing 0x8/);
  assert.equal(functionOf('price').readByteArray(4).byteLength, 4);
});

check('Instruction', () => {
  let count = 0;
  for (let at = functionOf('price'); count < 50; count++) {
    const insn = Instruction.parse(at);
    if (insn.mnemonic === 'ret')
      break;
    at = insn.next;
  }
  assert.ok(count > 1 && count < 50, `${count} instructions`);
});

check('bad targets of hooks', () => {
  assert.throws(() => Interceptor.attach(ptr(16), {onEnter() {}}), /unable to intercept function at 0x10/);
  assert.throws(() => Interceptor.attach(functionOf('price').add(3), {onEnter() {}}), /unable to intercept/);
});

/* ---- in callbacks ---- */

const once = new Set();
function firstTime(name) {
  return !once.has(name) && once.add(name);
}

Interceptor.attach(functionOf('licence_is_valid'), {
  onEnter(args) {
    if (firstTime('licence'))
      check('arguments, registers, stack', () => {
        assert.equal(args[0].readUtf8String(), 'guess');
        assert.equal(this.threadId, Process.id);
        assert.equal(Process.getCurrentThreadId(), Process.id);
        assert.ok(this.context.pc.equals(functionOf('licence_is_valid')));
        assert.equal(DebugSymbol.fromAddress(this.returnAddress).name, 'main');
        const stack = Thread.backtrace(this.context, Backtracer.ACCURATE);
        assert.equal(DebugSymbol.fromAddress(stack[0]).name, 'main');
        assert.ok(Thread.backtrace(this.context, Backtracer.FUZZY).length > 0);
      });
    this.key = Memory.allocUtf8String('let me in');
    args[0] = this.key;
  },
  onLeave(retval) {
    if (firstTime('licence left'))
      check('a changed argument has its effect', () => assert.equal(retval.toInt32(), 1));
    retval.replace(ptr(1));
  },
});

const walk = new NativeFunction(functionOf('walk'), 'int', ['int']);
const inner = [], keeps = [];
Interceptor.attach(functionOf('step'), {
  onEnter(args) {
    if (this.depth > 0 && inner.length < 3)
      inner.push(args[0].toInt32());
  },
});

Interceptor.attach(functionOf('price'), {
  onEnter(args) {
    if (!firstTime('price'))
      return;
    check('calls of the waiting thread, and callbacks inside of them', () => {
      inner.length = 0;
      assert.equal(walk(3), 9);
      assert.deepEqual(inner, [0, 1, 2]);
    });
    check('a function that was hooked a moment ago is called', () => {
      const keep = new NativeFunction(functionOf('keep'), 'pointer', ['size_t']);
      const listener = Interceptor.attach(keep, {onEnter: (own) => keeps.push(own[0].toInt32())});
      keep(77);
      listener.detach();
      keep(78);
      assert.deepEqual(keeps, [77]);
    });
    check('errno, system calls, floating point', () => {
      const open = new SystemFunction(Module.getGlobalExportByName('open'), 'int', ['pointer', 'int', '...']);
      assert.deepEqual(open(Memory.allocUtf8String('/no such file'), 0), {value: -1, errno: 2});
      this.errno = 33;
      assert.equal(this.errno, 33);
      const strtod = new NativeFunction(Module.getGlobalExportByName('strtod'), 'double', ['pointer', 'pointer']);
      assert.equal(strtod(Memory.allocUtf8String('2.5'), NULL), 2.5);
      const snprintf = new NativeFunction(Module.getGlobalExportByName('snprintf'), 'int',
        ['pointer', 'size_t', 'pointer', '...', 'int', 'double', 'pointer', 'long', 'long', 'long', 'long']);
      const out = Memory.alloc(100);
      snprintf(out, 100, Memory.allocUtf8String('%d %.2f %s %ld %ld %ld %ld'), -7, 1.25, Memory.allocUtf8String('x'),
        1, 2, 3, 4);
      assert.equal(out.readUtf8String(), '-7 1.25 x 1 2 3 4');
    });
    check('the target calls back', () => {
      const qsort = new NativeFunction(Module.getGlobalExportByName('qsort'), 'void',
        ['pointer', 'size_t', 'size_t', 'pointer']);
      const numbers = Memory.alloc(16);
      [3, 1, 4, 2].forEach((n, i) => numbers.add(4 * i).writeS32(n));
      const compare = new NativeCallback((a, b) => b.readS32() - a.readS32(), 'int', ['pointer', 'pointer']);
      qsort(numbers, 4, 4, compare);
      assert.deepEqual([0, 1, 2, 3].map((i) => numbers.add(4 * i).readS32()), [4, 3, 2, 1]);
    });
    args[0] = ptr(200);
  },
});

Interceptor.replace(functionOf('look_into'), new NativeCallback((path) => {
  if (firstTime('look_into'))
    check('a replaced function reaches its original', () => {
      const original = new NativeFunction(functionOf('look_into'), 'size_t', ['pointer']);
      assert.equal(original(Memory.allocUtf8String('/no such file')).toNumber(), 0);
      assert.ok(original(path).toNumber() > 0);
    });
  return 0;
}, 'size_t', ['pointer']));

/* ---- beside the running program ---- */

setTimeout(() => {
  check('DebugSymbol', checkNames);
  check('calls of a worker', () => {
    const getpid = new NativeFunction(Module.getGlobalExportByName('getpid'), 'int', []);
    assert.equal(getpid(), Process.id);
    assert.equal(walk(4), 16);
  });
  check('threads', () => {
    const threads = Process.enumerateThreads();
    assert.ok(threads.length >= 2);
    assert.ok(!threads[1].context.pc.isNull() && !threads[1].context.sp.isNull());
    assert.ok(Thread.backtrace(threads[1].context).length > 0);
    Thread.sleep(0.01);
  });
  const failed = results.filter(Boolean);
  console.log(failed.join('\n'));
  console.log(`${results.length} checks, ${failed.length} failed`);
  Interceptor.detachAll();
  Contrail.detach();
}, 300);
