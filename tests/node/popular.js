/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts as people write them, word for word: popular.js CONTRAIL SAMPLE [NAME...]. Also what the command itself does
 * with scripts: kinds of files, what is printed where, exit codes. Exit status 77: processes may not be traced here. */
'use strict';

const assert = require('node:assert/strict');
const {spawn, spawnSync} = require('node:child_process');
const {once} = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const [contrail, sample, ...only] = process.argv.slice(2);
const DEADLINE = 60000 * Number(process.env.CONTRAIL_TEST_SLOW ?? 1); /* an emulated machine is slow */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'contrail-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));
const python = ['/usr/bin/python3', '/bin/python3'].find((name) => fs.existsSync(name)) ?? 'python3';

const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;

function write(name, text) {
  const file = path.join(folder, name.includes('.') ? name : `${name}.js`);
  fs.writeFileSync(file, text);
  return file;
}

function run(name, text, command, options = {}) {
  const words = ['script', '--timeout', '30s', write(name, text), '--', ...command];
  const {status, stdout, stderr} = spawnSync(contrail, words, {encoding: 'utf8', timeout: DEADLINE, ...options});
  return {status, out: stdout ?? '', err: stderr ?? ''};
}

/* On a sample that runs, for as long as the script wants. */
async function beside(name, text, rounds = '1000000') {
  const child = spawn(sample, [rounds, '1'], {stdio: ['ignore', 'pipe', 'inherit']});
  child.stdout.resume();
  await once(child.stdout, 'data');
  const node = spawn(contrail, ['script', '--timeout', '30s', write(name, text), '-p', String(child.pid)],
    {stdio: ['ignore', 'pipe', 'pipe'], timeout: DEADLINE});
  const done = {out: '', err: ''};
  node.stdout.setEncoding('utf8').on('data', (part) => done.out += part);
  node.stderr.setEncoding('utf8').on('data', (part) => done.err += part);
  [done.status] = await once(node, 'close');
  assert.equal(child.exitCode, null, `the sample lives: ${done.out}${done.err}`);
  child.kill();
  await once(child, 'close');
  return done;
}

const cases = {
  /* Text and pointers as scripts join them. */
  malloc_trace() {
    const {out} = run('malloc_trace', `
      const mallocPtr = Module.findExportByName(null, 'malloc');
      let shown = 0;
      Interceptor.attach(mallocPtr, {
        onEnter: function (args) {
          this.size = args[0].toUInt32();
          if (this.size === 4096 && shown++ === 0)
            console.log('malloc called from:\\n' + Thread.backtrace(this.context, Backtracer.ACCURATE)
              .map(DebugSymbol.fromAddress).join('\\n') + '\\n');
        },
        onLeave: function (retval) {
          console.log('malloc(' + this.size + ') -> ' + retval);
        }
      });`, [sample, '1']);
    assert.match(out, /malloc called from:\n0x[0-9a-f]+ sample!(keep|main)/);
    assert.match(out, /malloc\(4096\) -> 0x[0-9a-f]+\n/);
  },

  offset_of_base() {
    const {out, err} = run('offset_of_base', `
      var base = Module.findBaseAddress('sample');
      var offset = parseInt(Process.getModuleByName('sample').getSymbolByName('price').sub(base));
      Interceptor.attach(base.add(offset), {
        onEnter: function (args) { console.log('[+] price called with ' + args[0].toInt32()); },
        onLeave: function (retval) { retval.replace(1337); }
      });`, [sample, '2']);
    assert.match(out, /\[\+\] price called with 1000\nround 0: .*price 1337/, err);
  },

  /* The specification's replacement, of a function with a variable number of arguments. */
  replaced_open() {
    const {out} = run('replaced_open', `
      const openPtr = Module.getGlobalExportByName('open');
      const open = new NativeFunction(openPtr, 'int', ['pointer', 'int']);
      Interceptor.replace(openPtr, new NativeCallback((pathPtr, flags) => {
        const path = pathPtr.readUtf8String();
        console.log('Opening "' + path + '"');
        const fd = open(pathPtr, flags);
        console.log('Got fd: ' + fd);
        return fd;
      }, 'int', ['pointer', 'int']));`, ['cat', '/etc/hostname', '/no such file']);
    assert.match(out, /Opening "\/etc\/hostname"\nGot fd: \d+\n/);
    assert.match(out, /Opening "\/no such file"\nGot fd: -1\n/);
  },

  buffers_of_write() {
    const {out} = run('buffers_of_write', `
      Interceptor.attach(Module.getGlobalExportByName('write'), {
        onEnter(args) {
          console.log(hexdump(args[1], {offset: 0, length: args[2].toInt32(), header: true, ansi: false}));
          console.log(args[1].readByteArray(args[2].toInt32()));
        }
      });`, ['echo', 'hello dump']);
    assert.equal(out.match(/68 65 6c 6c 6f 20 64 75 6d 70 0a +hello dump\./g)?.length, 2, out);
  },

  struct_of_stat() {
    const {out} = run('struct_of_stat', `
      const libc = Process.getModuleByName('libc.so.6');
      Interceptor.attach(libc.getExportByName('fstat'), {
        onEnter(args) { this.buf = args[1]; },
        onLeave(retval) {
          if (retval.toInt32() === 0)
            console.log('size ' + this.buf.add(48).readS64() + ' errno ' + this.errno);
        }
      });`, ['cat', '/etc/hostname']);
    assert.match(out, new RegExp(`size ${fs.statSync('/etc/hostname').size} errno \\d+`));
  },

  async count_calls_of_threads() {
    const {out} = await beside('count_calls_of_threads', `
      const counts = {};
      Interceptor.attach(Process.mainModule.getSymbolByName('step'), function () {
        counts[this.threadId] = (counts[this.threadId] || 0) + 1;
        if (Object.keys(counts).length > 1)
          Contrail.detach();
      });
      process.on('exit', () => console.log(Object.keys(counts).length + ' threads'));`);
    assert.equal(out, '2 threads\n');
  },

  async call_summary() {
    const {out} = await beside('call_summary', `
      Process.enumerateThreads({
        onMatch: function (thread) {
          Stalker.follow(thread.id, {
            events: {call: true},
            onCallSummary: function (summary) {
              for (const target in summary)
                if (DebugSymbol.fromAddress(ptr(target)).name === 'step') {
                  console.log(summary[target] + ' calls of step');
                  Contrail.detach();
                }
            }
          });
        },
        onComplete: function () { setInterval(() => Stalker.flush(), 50); }
      });`);
    assert.match(out, /^\d+ calls of step/);
  },

  /* The example of a transform in the documentation that the specification names. */
  async documented_transform() {
    const {out} = await beside('documented_transform', `
      const app = Process.mainModule;
      const appStart = app.base;
      const appEnd = appStart.add(app.size);
      const mainThread = Process.enumerateThreads()[0];
      Stalker.follow(mainThread.id, {
        events: {call: false, ret: false, exec: false, block: false, compile: false},
        transform(iterator) {
          let instruction = iterator.next();
          const startAddress = instruction.address;
          const isAppCode = startAddress.compare(appStart) >= 0 && startAddress.compare(appEnd) === -1;
          const canEmitNoisyCode = iterator.memoryAccess === 'open';
          do {
            if (isAppCode && canEmitNoisyCode && instruction.mnemonic === 'ret') {
              iterator.putCmpRegI32('eax', 60);
              iterator.putJccShortLabel('jb', 'nope', 'no-hint');
              iterator.putCmpRegI32('eax', 90);
              iterator.putJccShortLabel('ja', 'nope', 'no-hint');
              iterator.putCallout(onMatch);
              iterator.putLabel('nope');
            }
            iterator.keep();
          } while ((instruction = iterator.next()) !== null);
        },
      });
      function onMatch(context) {
        console.log('Match! pc=' + context.pc + ' rax=' + context.rax.toInt32());
        Contrail.detach();
      }`);
    const values = [...out.matchAll(/Match! pc=0x[0-9a-f]+ rax=(\d+)/g)].map(([, value]) => Number(value));
    assert.ok(values.length && values.every((value) => value >= 60 && value <= 90), out);
  },

  /* Libraries that come later: hooked before their constructors have run. */
  module_observer() {
    const {status, out, err} = run('module_observer', `
      let started = false;
      const observer = Process.attachModuleObserver({
        onAdded(module) {
          if (!started || !/^libuuid/.test(module.name))
            return;
          console.log('loaded ' + Process.getModuleByName('libuuid.so.1').name);
          Interceptor.attach(module.getExportByName('uuid_generate'), {onEnter() { console.log('uuid_generate'); }});
        },
        onRemoved(module) { if (/^libuuid/.test(module.name)) console.log('unloaded'); }
      });
      started = true;`, [python, '-c', `import ctypes, _ctypes
lib = ctypes.CDLL('libuuid.so.1')
lib.uuid_generate(ctypes.create_string_buffer(16))
_ctypes.dlclose(lib._handle)`]);
    if (/cannot open shared object/.test(err))
      return 'libuuid is not installed';
    assert.match(out, /^loaded libuuid\.so[^]*uuid_generate\nunloaded\n/, err);
    assert.equal(status, 0);
    return null;
  },

  async module_load() {
    const {out, err} = await beside('module_load', `
      const seen = [];
      Process.attachModuleObserver({onAdded(module) { seen.push(module.name); }});
      const before = seen.length;
      const loaded = Module.load('libm.so.6');
      console.log(loaded.name, loaded.getExportByName('cos').isNull());
      try { Module.load('libnope.so'); } catch (error) { console.log(error.message); }
      setTimeout(() => { console.log(seen.slice(before).join()); Contrail.detach(); }, 200);`);
    assert.match(out, /libm\.so\.6 false\nthe target cannot load libnope\.so: libnope\.so: .*\nlibm\.so\.6\n/, err);
  },

  /* What cannot be seen is said. */
  dlopen_returns() {
    const {status, out, err} = run('dlopen_returns', `
      const dlopen = Module.getGlobalExportByName('dlopen');
      Interceptor.attach(dlopen, {onEnter(args) { console.log('dlopen ' + args[0].readCString()); }});
      try {
        Interceptor.attach(dlopen, {onLeave() {}});
      } catch (error) { console.log(error.message); }`, [python, '-c', 'import ctypes; ctypes.CDLL("libm.so.6")']);
    assert.match(out, /onLeave would never be called: it looks at/, err);
    assert.match(out, /\ndlopen libm\.so\.6\n/);
    assert.equal(status, 0);
  },

  async run_on_thread() {
    const {out, err} = await beside('run_on_thread', `
      const threads = Process.enumerateThreads();
      const gettid = new NativeFunction(Module.getGlobalExportByName('gettid'), 'int', []);
      Promise.all(threads.map(({id}) => Process.runOnThread(id, () => [id, gettid(), Process.getCurrentThreadId()])))
        .then((all) => {
          console.log(all.length + ' ' + all.every(([id, own, current]) => id === own && id === current));
          return Process.runOnThread(99999999, () => 0);
        }).catch((error) => { console.log(error.message); Contrail.detach(); });`);
    assert.equal(out, '2 true\nthere is no thread 99999999\n', err);
  },

  async lists_of_a_module() {
    const {out, err} = await beside('lists_of_a_module', `
      const main = Process.mainModule, price = main.getSymbolByName('price');
      const text = main.enumerateSections().find(({name}) => name === '.text');
      console.log(price.compare(text.address) >= 0 && price.compare(text.address.add(text.size)) < 0);
      console.log(main.enumerateDependencies().map(({name}) => name).includes('libc.so.6'));
      const range = Process.getFunctionRange(price.add(3));
      console.log(range.base.equals(price) && range.size > 3 && range.size < 200);
      console.log(Process.findFunctionRange(ptr(16)), new ModuleMap().getName(price));
      Contrail.detach();`);
    assert.equal(out, 'true\ntrue\ntrue\nnull sample\n', err);
  },

  /* A name in a table of symbols may have a line feed: the others keep theirs. */
  odd_symbols() {
    if (!has('objcopy'))
      return 'objcopy is not installed';
    const odd = path.join(folder, 'odd');
    const made = spawnSync('objcopy', ['--redefine-sym', 'force=od\nd', '--redefine-sym', 'walk=wa\nlk', sample, odd]);
    assert.equal(made.status, 0, String(made.stderr));
    const {out, err} = run('odd_symbols', `
      const names = Process.mainModule.enumerateSymbols();
      console.log(names.filter(({name}) => name === 'wa\\nlk').length);
      Interceptor.attach(Process.mainModule.getSymbolByName('price'), {
        onEnter(args) { console.log('price ' + args[0].toInt32()); }});`, [odd, '1']);
    assert.match(out, /^1\nprice 1000\n/, err);
    return null;
  },

  /* Where a library was, another one may be now. */
  replaced_module() {
    if (!has('cc'))
      return 'no C compiler is installed';
    const file = (name) => path.join(folder, name);
    fs.writeFileSync(file('first.c'), 'int only_first(void) { return 1; }\n');
    fs.writeFileSync(file('second.c'), 'int other(void) { return 2; } int only_second(void) { return 3; }\n');
    fs.writeFileSync(file('replaces.c'), `#include <dlfcn.h>
      __attribute__((noinline)) void look(int n) { for (volatile int i = n; i < 9; i++) __asm__ volatile(""); }
      int main(int count, char **names) {
        for (int i = 1; i < count; i++) {
          void *library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
          if (!library) return 1;
          look(i);
          dlclose(library);
        }
        return 0;
      }`);
    for (const name of ['first', 'second'])
      assert.equal(spawnSync('cc', ['-shared', '-fPIC', file(`${name}.c`), '-o', file(`${name}.so`)]).status, 0);
    const made = spawnSync('cc', ['-O1', file('replaces.c'), '-o', file('replaces'), '-ldl'], {encoding: 'utf8'});
    assert.equal(made.status, 0, made.stderr);
    const {out, err} = run('replaced_module', `
      const bases = new Set(), place = (name) => String(Module.findGlobalExportByName(name) !== null);
      Interceptor.attach(Process.mainModule.getSymbolByName('look'), {onEnter() {
        console.log(place('only_first'), place('only_second'));
        bases.add(String(Process.getModuleByName(bases.size ? 'second.so' : 'first.so').base));
        console.log(bases.size);
      }});`, [file('replaces'), file('first.so'), file('second.so')]);
    if (out.endsWith('2\n'))
      return 'the second library is loaded elsewhere';
    assert.equal(out, 'true false\n1\nfalse true\n1\n', err);
    return null;
  },

  /* More threads than can wait at once: each call has its callback all the same. */
  many_threads() {
    if (!has('cc'))
      return 'no C compiler is installed';
    const source = path.join(folder, 'threads.c'), program = path.join(folder, 'threads');
    fs.writeFileSync(source, `#include <pthread.h>
      __attribute__((noinline)) int work(int a) { __asm__ volatile(""); return a + 1; }
      static void *run(void *arg) { for (int i = 0; i < 10; i++) if (work(i) != i + 1) return arg; return 0; }
      int main(void) {
        static pthread_t t[400];
        void *bad;
        for (int i = 0; i < 400; i++) if (pthread_create(&t[i], 0, run, t)) return 1;
        for (int i = 0; i < 400; i++) if (pthread_join(t[i], &bad) || bad) return 2;
        return 0;
      }`);
    const made = spawnSync('cc', ['-O1', '-pthread', source, '-o', program], {encoding: 'utf8'});
    assert.equal(made.status, 0, made.stderr);
    const {status, out, err} = run('many_threads', `
      let calls = 0;
      const threads = new Set();
      Interceptor.attach(Process.mainModule.getSymbolByName('work'), {
        onEnter() { calls++; threads.add(this.threadId); }});
      process.on('exit', () => console.log(calls, threads.size));`, [program]);
    assert.equal(out, '4000 400\n', err);
    assert.equal(status, 0);
    return null;
  },

  /* What came too late is counted, to the end. */
  late() {
    const {out, err} = run('late', `
      Script.timeout = 20;
      Interceptor.attach(Process.mainModule.getSymbolByName('price'), {onEnter() {
        for (const end = Date.now() + 100; Date.now() < end;);
      }});`, [sample, '3']);
    assert.match(out, /round 2/);
    assert.match(err, /took longer than Script\.timeout: the thread went on/);
    assert.match(err, /contrail: [23] callbacks took longer than Script\.timeout\n/);
    const ended = run('late_exit', `
      Script.timeout = 20;
      let calls = 0;
      Interceptor.attach(Process.mainModule.getSymbolByName('price'), {onEnter() {
        for (const end = Date.now() + 100; Date.now() < end;);
        if (++calls === 3)
          process.exit(5);
      }});`, [sample, '9']);
    assert.match(ended.err, /contrail: \d+ callbacks took longer than Script\.timeout\n/);
    assert.equal(ended.status, 5);
  },

  /* A script may end Node at any moment: nothing is left in the process. */
  async process_exit() {
    const price = 'Process.mainModule.getSymbolByName("price")';
    const ways = {
      exit_beside: `Interceptor.attach(${price}, {onEnter() {}}); setTimeout(() => process.exit(5), 100);`,
      exit_inside: `Interceptor.attach(${price}, {onEnter() { process.exit(5); }});`,
      exit_deeper: `const walk = new NativeFunction(Process.mainModule.getSymbolByName('walk'), 'int', ['int']);
        Interceptor.attach(Process.mainModule.getSymbolByName('step'), {onEnter() {
          if (this.depth > 0)
            process.exit(5);
        }});
        Interceptor.attach(${price}, {onEnter() { walk(3); }});`,
      exit_last: `Interceptor.attach(${price}, {onEnter() {}}); setTimeout(() => Contrail.detach(), 100);
        rpc.exports.dispose = () => process.exit(5);`,
    };
    const child = spawn(sample, ['1000000', '1'], {stdio: ['ignore', 'pipe', 'inherit']});
    await once(child.stdout, 'data');
    child.stdout.resume();
    const maps = () => fs.readFileSync(`/proc/${child.pid}/maps`, 'utf8'), before = maps();
    for (const [name, text] of Object.entries(ways)) {
      const node = spawn(contrail, ['script', '--timeout', '30s', write(name, text), '-p', String(child.pid)],
        {stdio: 'inherit', timeout: DEADLINE});
      const [status] = await once(node, 'close');
      assert.equal(status, 5, name);
      assert.equal(maps(), before, name);
    }
    child.kill();
    await once(child, 'close');
  },

  /* ---- the command ---- */

  modules() {
    const {status, out} = run('esm.mjs', `import fs from 'node:fs';
      const ready = await Promise.resolve(fs.existsSync('/'));
      console.log('module', ready, Process.id > 0);`, [sample, '1']);
    assert.match(out, /^module true true\nround 0/);
    assert.equal(status, 0);
  },

  /* Scripts that are no files. */
  pipes() {
    const script = (words, input) => spawnSync('bash', ['-c', words, 'bash', contrail, sample],
      {encoding: 'utf8', input, timeout: DEADLINE}).stdout;
    assert.match(script('"$1" script - -- "$2" 1', 'console.log("from stdin " + Process.mainModule.name);'),
      /^from stdin sample\nround 0/);
    assert.match(script('"$1" script - -- "$2" 1', 'import fs from "node:fs"; console.log("module " + ptr(5));'),
      /^module 0x5\nround 0/);
    assert.match(script(`"$1" script <(echo 'const module = 6; console.log(module * 7);') -- "$2" 1`),
      /^42\nround 0/);
  },

  typescript() {
    const text = `interface Seen { count: number }
      const seen: Seen = {count: 1};
      console.log('typed', seen.count, ptr(5) as NativePointer);`;
    const {status, out, err} = run('typed.ts', text, [sample, '1']);
    if (status === 1)
      assert.match(err, /is TypeScript: Node v\d.* runs it when npm's package typescript is beside it/);
    else
      assert.match(out, /^typed 1 0x5\nround 0/);
    const package_ = path.join(folder, 'node_modules', 'typescript');
    fs.mkdirSync(package_, {recursive: true}); /* one that knows this script alone */
    fs.writeFileSync(path.join(package_, 'index.js'), `exports.transpileModule = (text) => ({outputText:
      text.replace(/interface.*/, '').replace(': Seen', '').replace('as NativePointer', '')});`);
    assert.match(run('typed.ts', text, [sample, '1']).out, /^typed 1 0x5\nround 0/);
  },

  /* What a script's template has: called when it is loaded, and when it leaves. */
  life() {
    const text = `rpc.exports = {
      init(stage, parameters) { console.log('init ' + stage + ' ' + JSON.stringify(parameters)); },
      dispose() { console.log('dispose'); }
    };`;
    const {status, out} = run('life', text, [sample, '1']);
    assert.match(out, /^init early {}\nround 0: .*\ndispose\n$/);
    assert.equal(status, 0);
  },

  /* Nothing begins when the script cannot be read. */
  failing() {
    const failures = {
      syntax: ['let x = ;', /failed: SyntaxError: Unexpected token ';' \(.*syntax\.js:1\)/],
      throws: ['\nthrow new Error("no");', /failed: Error: no \(.*throws\.js:2\)/],
      bundle: ['\u{1F4E6}\n12 /index.js\n', /is a bundle of modules for another tool/],
      'rejects.mjs': ['await Promise.reject(new Error("late"));', /failed: Error: late/],
    };
    for (const [name, [text, message]] of Object.entries(failures)) {
      const {status, out, err} = run(name, text, [sample, '1']);
      assert.equal(out, '', name);
      assert.match(err, message, name);
      assert.match(err, /sample has not been started\n$/, name);
      assert.equal(status, 1, name);
    }
  },

  /* The command ends with the program that it has started, and with its status, whatever the script does. */
  exit_status() {
    const shell = ['sh', '-c', 'sleep 0.3; exit 7'];
    assert.equal(run('empty', '', shell).status, 7);
    assert.equal(run('leaves', 'Contrail.detach();', shell).status, 7);
    assert.equal(run('dies', '', ['sh', '-c', 'kill -9 $$']).status, 137);
    const replaced = run('empty', '', ['sh', '-c', 'exec sh -c "sleep 0.3; exit 9"']);
    assert.match(replaced.err, /has executed another program \(.*\), and the script has ended with the one/);
    assert.equal(replaced.status, 9);
  },

  /* Whoever reads has gone: the script ends quietly, and the program as it would alone. */
  closed_pipe() {
    const file = write('closed_pipe', `
      Interceptor.attach(Process.mainModule.getSymbolByName('step'), {
        onEnter(args) { console.log('step ' + args[0].toInt32()); }});`);
    const {status, stdout, stderr} = spawnSync('bash', ['-c', 'set -o pipefail; "$@" | head -1', 'bash', contrail,
      'script', '--timeout', '30s', file, '--', sample, '100000', '1'], {encoding: 'utf8', timeout: DEADLINE});
    assert.match(stdout, /^round 0: .*\n$/);
    assert.equal(stderr, '');
    assert.equal(status, 128 + os.constants.signals.SIGPIPE);
  },

  /* Where nothing can be written, that is said, once. */
  full_disk() {
    const full = fs.openSync('/dev/full', 'w');
    const {status, err} = run('full_disk', 'console.log("one"); console.log("two");', ['sleep', '0.3'],
      {stdio: ['ignore', full, 'pipe']});
    fs.closeSync(full);
    assert.match(err, /^contrail: what the script prints cannot be written: .*ENOSPC.*\n$/);
    assert.equal(status, 1);
  },

  /* What Node changes of its own is not the program's. */
  inherited() {
    const look = ['sh', '-c', 'grep SigIgn /proc/self/status; ulimit -Sn'];
    const words = [contrail, 'script', write('inherited', ''), '--', ...look];
    const shell = (text) => spawnSync('sh', ['-c', text, 'sh', ...words], {encoding: 'utf8'}).stdout;
    assert.equal(shell('ulimit -Sn 300; "$@"'), 'SigIgn:\t0000000000000000\n300\n');
    assert.equal(shell('trap "" USR1; ulimit -Sn 400; "$@"'), 'SigIgn:\t0000000000000200\n400\n');
  },

  help() {
    const {status, stdout} = spawnSync(contrail, ['script', '--help'], {encoding: 'utf8'});
    assert.equal(status, 0);
    for (const text of ['Examples', 'contrail script watch.js -p 4711', 'Exit status', 'TypeScript'])
      assert.ok(stdout.includes(text), text);
    for (const words of [['script'], ['script', 'x.js'], ['script', 'x.js', '-p', 'abc']])
      assert.equal(spawnSync(contrail, words).status, 64, words.join(' '));
  },
};

async function main() {
  const probe = run('probe', '', ['true']);
  if (probe.status !== 0) {
    console.log(`no process can be scripted here: ${probe.err.trim()}`);
    process.exit(77);
  }
  let failed = 0;
  for (const name of only.length ? only : Object.keys(cases)) {
    const since = Date.now();
    try {
      const reason = await cases[name]();
      console.log(`${reason ? 'skipped' : 'ok     '} ${name}${reason ? `: ${reason}` : ` (${Date.now() - since} ms)`}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${name}: ${error.stack}`);
    }
  }
  process.exit(failed ? 1 : 0);
}

main();
