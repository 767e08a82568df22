/* SPDX-License-Identifier: Apache-2.0 */
/* Process.setExceptionHandler: faults.js CONTRAIL PROGRAM, with PROGRAM made of faults.c. A program whose script only
 * looks at faults prints and returns what it does alone. Exit status 77: processes may not be traced here. */
'use strict';

const assert = require('node:assert/strict');
const {spawn, spawnSync} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const [contrail, program, ...only] = process.argv.slice(2);
const DEADLINE = 60000 * Number(process.env.CONTRAIL_TEST_SLOW ?? 1); /* an emulated machine is slow */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'contrail-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));

/* The whole way of a process: what it printed, and how it ended. */
function ending({status, signal, stdout, stderr}) {
  return {status: signal ? 128 + os.constants.signals[signal] : status, out: stdout, err: stderr};
}

function alone(words) {
  return ending(spawnSync(program, words, {encoding: 'utf8', timeout: DEADLINE}));
}

function scripted(name, text, words) {
  const file = path.join(folder, name + '.js');
  fs.writeFileSync(file, text);
  return ending(spawnSync(contrail, ['script', '--timeout', '30s', file, '--', program, ...words],
    {encoding: 'utf8', timeout: DEADLINE}));
}

const LOOKS = `Process.setExceptionHandler((details) => {
  console.error('seen', details.type, details.memory?.operation, details.memory?.address, details.nativeContext > 0);
  return false;
});`;

function sameAsAlone(words, expected, script = LOOKS) {
  const plain = alone(words), watched = scripted('looks', script, words);
  assert.equal(watched.out, plain.out, watched.err);
  assert.equal(watched.status, plain.status, watched.err);
  const seen = watched.err.split('\n').filter((line) => line.startsWith('seen')).map((line) => line.slice(5));
  assert.deepEqual(seen, expected, watched.err);
}

const SEEN = {
  4: 'illegal-instruction undefined undefined true', 5: 'breakpoint undefined undefined true',
  6: 'abort undefined undefined true', 8: 'arithmetic undefined undefined true',
  11: 'access-violation read 0x10 true',
};
const SIGNALS = [4, 5, 6, 7, 8, 11];

/* A fault's instruction has 2 bytes, or 4. The division of arm64 is a signal that the program sends itself. */
const MACHINE = `const [SIZE, RESULT] = Process.arch === 'x64' ? [2, 'rax'] : [4, 'x0'];
`;
const CHANGES = MACHINE + `
const fixes = {
  'access-violation'({memory, context}) {
    if (memory.operation === 'read' && memory.address.equals(0x20)) { /* addsd: xmm0 is what counts */
      context.pc = context.pc.add(4);
      return;
    }
    if (memory.operation === 'read')
      context[RESULT] = 42;
    context.pc = context.pc.add(SIZE);
  },
  arithmetic({context}) {
    context[Process.arch === 'x64' ? 'rcx' : RESULT] = 1; /* and once more */
  },
  'illegal-instruction'({context}) {
    context.pc = context.pc.add(SIZE);
  },
  breakpoint({context}) {
    context.pc = context.pc.add(Process.arch === 'x64' ? 0 : SIZE);
  },
  abort() {},
};
const name = new NativeFunction(Module.findGlobalExportByName('getpid')
  ?? Process.mainModule.getSymbolByName('getpid'), 'int', []);
Process.setExceptionHandler((details) => {
  const place = DebugSymbol.fromAddress(details.address).name;
  console.error(details.type, details.signal, details.memory?.operation, place, name() === Process.id,
    Thread.backtrace(details.context).map(DebugSymbol.fromAddress).some((f) => f.name === 'main'));
  fixes[details.type](details);
  return true;
});`;

const cases = {
  handled() {
    const {out, err, status} = scripted('handled', LOOKS, ['handled']);
    assert.deepEqual({out, status}, (({out, status}) => ({out, status}))(alone(['handled'])), err);
    for (const signal of SIGNALS.filter((signal) => SEEN[signal]))
      assert.ok(err.includes('seen ' + SEEN[signal]), err);
  },

  threads() {
    sameAsAlone(['threads'], Array(3).fill(SEEN[11]));
  },

  /* The program sees the actions that it has set, and no others. */
  actions() {
    const plain = alone(['actions']), watched = scripted('looks', LOOKS, ['actions']);
    assert.equal(watched.out, plain.out, watched.err);
    assert.equal(watched.status, 0);
  },

  defaults() {
    for (const signal of SIGNALS) {
      const {status, err} = scripted('looks', LOOKS, ['fault', String(signal)]);
      assert.equal(status, 128 + signal, err);
      assert.match(err, /seen/);
    }
    sameAsAlone(['send', '8'], [SEEN[8]]);
  },

  children() {
    sameAsAlone(['children'], []);
  },

  blocked() {
    sameAsAlone(['blocked', '11'], []);
    sameAsAlone(['blocked', '8'], []);
  },

  changes() {
    const {status, out, err} = scripted('changes', CHANGES, ['changes']);
    assert.equal(out, 'read 42\ndivided: 1\nread 42 beyond the end\nhalf is 1.5\nend\n', err);
    assert.equal(status, 0, err);
    const seen = err.split('\n').filter((line) => / (true|false)$/.test(line));
    /* A stripped C library may have no name for it. */
    assert.deepEqual(seen.map((line) => line.replace(/ (\S*(pthread_kill|raise|restore_sigs)\S*|null)/, ' raise')), [
      'access-violation 11 read read_at true true', 'access-violation 11 write write_at true true',
      'arithmetic 8 undefined divide true true', 'illegal-instruction 4 undefined use_nothing true true',
      'breakpoint 5 undefined stop_here true true', 'access-violation 7 read read_at true true',
      'abort 6 undefined raise true true', 'access-violation 11 read half true true',
    ], err);
  },

  /* The same in functions that are hooked: their first instructions are moved. */
  hooked() {
    const script = CHANGES + `
      for (const f of ['read_at', 'write_at', 'divide', 'use_nothing', 'stop_here', 'half'])
        try {
          Interceptor.attach(Process.mainModule.getSymbolByName(f), {onEnter() {}, onLeave() {}});
        } catch (error) {
          console.error(error.message);
        }`;
    const {status, out, err} = scripted('hooked', script, ['changes']);
    assert.equal(out, 'read 42\ndivided: 1\nread 42 beyond the end\nhalf is 1.5\nend\n', err);
    assert.equal(status, 0, err);
    assert.match(err, /write write_at/);
  },

  /* In threads that are followed, the program counter is the program's. */
  followed() {
    const follow = `Interceptor.attach(Process.mainModule.getSymbolByName('read_at'), {onEnter() {
      if (!this.done) Stalker.follow({events: {call: true}}); this.done = true; }});`;
    const early = scripted('followed', CHANGES + follow, ['changes']);
    assert.equal(early.out, 'read 42\ndivided: 1\nread 42 beyond the end\nhalf is 1.5\nend\n', early.err);
    const late = scripted('late', MACHINE + follow + `Interceptor.attach(Process.mainModule.getSymbolByName('fault'), {
      onEnter() { Process.setExceptionHandler((d) => { console.error('late', d.type);
        d.context.pc = d.context.pc.add(SIZE); d.context[RESULT] = 1; return true; }); }});`, ['fault', '11']);
    assert.equal(late.out, 'read 1\nend\n', late.err);
    const dies = scripted('dies', LOOKS + follow, ['fault', '11']);
    assert.equal(dies.status, 139, dies.err);
    assert.match(dies.err, /seen access-violation read 0x10/);
  },

  /* What a handler may do wrong. */
  bad_handlers() {
    const throwing = 'Process.setExceptionHandler(() => { throw new Error("oops"); });';
    const {status, err} = scripted('throws', throwing, ['fault', '8']);
    assert.equal(status, 136, err);
    assert.match(err, /oops/);
    const late = `Script.timeout = 50; Process.setExceptionHandler(() => {
      const end = Date.now() + 400; while (Date.now() < end); return true; });`;
    assert.equal(scripted('late', late, ['fault', '8']).status, 136);
    assert.match(scripted('type', 'Process.setExceptionHandler(5)', ['handled']).err, /expected a function/);
    const off = LOOKS + 'Process.setExceptionHandler(null);';
    sameAsAlone(['fault', '11'], [], off);
  },

  /* The script leaves, or is killed: the kernel has the program's own action again, or ends it all the same. */
  async left() {
    for (const way of ['leaves', 'is killed']) {
      const child = spawn(program, ['wait'], {stdio: ['pipe', 'pipe', 'inherit']});
      await new Promise((resolve) => child.stdout.once('data', resolve));
      const caught = () => /SigCgt:\t([0-9a-f]+)/.exec(fs.readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1];
      const before = caught();
      const file = path.join(folder, 'leaves.js');
      fs.writeFileSync(file, LOOKS + 'console.log("in");' + (way === 'leaves' ? 'Contrail.detach();' : ''));
      const node = spawn(contrail, ['script', file, '-p', String(child.pid)], {stdio: ['ignore', 'pipe', 'inherit']});
      await new Promise((resolve) => node.stdout.once('data', resolve));
      if (way === 'is killed') {
        assert.notEqual(caught(), before);
        node.kill('SIGKILL');
      }
      await new Promise((resolve) => node.on('close', resolve));
      if (way === 'leaves') {
        assert.equal(caught(), before);
        child.stdin.write('.');
        const said = await new Promise((resolve) => child.stdout.once('data', resolve));
        assert.equal(String(said), '8 now: default, flags 0x0, blocks SIGTERM 0, restorer 0\n');
      }
      const ended = new Promise((resolve) => child.on('close', (status, signal) => resolve(signal)));
      process.kill(child.pid, 'SIGFPE');
      assert.equal(await ended, 'SIGFPE', way);
    }
  },
};

async function main() {
  const probe = scripted('probe', '', ['none', '0']);
  if (/permission|may not|not permitted/i.test(probe.err) && probe.status > 0 && probe.status < 128) {
    console.log(`no process can be scripted here: ${probe.err.trim()}`);
    process.exit(77);
  }
  let failed = 0;
  for (const [name, test] of Object.entries(cases)) {
    if (only.length && !only.includes(name))
      continue;
    try {
      await test();
      console.log(`ok      ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${name}: ${error.stack}`);
    }
  }
  process.exit(failed ? 1 : 0);
}

main();
