/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts on real processes: real.js CONTRAIL ADDON SAMPLE SCRIPTS [NAME...], with SCRIPTS the folder of examples. Exit
 * status 77: processes may not be traced here. */
'use strict';

const assert = require('node:assert/strict');
const {spawn, spawnSync} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const [contrail, addon, sample, examples, ...only] = process.argv.slice(2);
const DEADLINE = 60000 * Number(process.env.CONTRAIL_TEST_SLOW ?? 1); /* an emulated machine is slow */
/* CONTRAIL_TEST_LONG: make check-all. */
const KILLS = process.env.CONTRAIL_TEST_LONG ? 200 : 4;
const PATIENT = ['--timeout', '30s']; /* machines are slow at times, and threads wait for scripts */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'contrail-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));

/* A script, started with a program: {status, out, err}. */
function run(script, command, options = {}) {
  const done = spawnSync(contrail, ['script', ...(options.words ?? PATIENT), script, '--', ...command],
    {encoding: 'utf8', timeout: DEADLINE, input: options.input, env: {...process.env, ...options.env}});
  return {status: done.status, out: done.stdout ?? '', err: done.stderr ?? ''};
}

const example = (name) => path.join(examples, name + '.js');

/* A script of the test itself. */
function write(name, text) {
  const file = path.join(folder, name + '.js');
  fs.writeFileSync(file, text);
  return file;
}

/* Starts the sample, and gives it to `use` once it has printed something. */
async function withSample(args, use) {
  const child = spawn(sample, args, {stdio: ['ignore', 'pipe', 'inherit']});
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text) => out += text);
  const ended = new Promise((resolve) => child.on('close', resolve));
  await new Promise((resolve) => child.stdout.once('data', resolve));
  try {
    await use(child, () => out);
  } finally {
    child.kill();
    await ended;
  }
}

/* What the sample prints is read meanwhile, or it would wait for us. */
async function attached(script, pid, env = {}) {
  const child = spawn(contrail, ['script', ...PATIENT, script, '-p', String(pid)],
    {stdio: ['ignore', 'pipe', 'pipe'], timeout: DEADLINE, env: {...process.env, ...env}});
  const done = {stdout: '', stderr: ''};
  for (const stream of ['stdout', 'stderr'])
    child[stream].setEncoding('utf8').on('data', (text) => done[stream] += text);
  done.status = await new Promise((resolve) => child.on('close', resolve));
  return done;
}

/* The same for scripts that look for some time: on a slow machine there may be nothing to see, so they look again. */
async function attachedUntil(pattern, ...args) {
  let done = await attached(...args);
  for (let again = 0; again < 5 && !pattern.test(done.stdout); again++)
    done = await attached(...args);
  return done;
}

const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;

const cases = {
  api() {
    const {status, out, err} = run(path.join(__dirname, 'api_script.js'), [sample, '30']);
    assert.match(out, /\d+ checks, 0 failed/, out + err);
    assert.equal(status, 0, err);
    assert.match(out, /round 0: licence valid, price 214, walked 0, read nothing/);
    assert.match(out, /round 29: licence wrong, price 1070, walked 841, read something/);
  },

  log_open() {
    const {status, out, err} = run(example('log-open'), [sample, '2']);
    assert.match(out, /open(64)?\("\/etc\/hostname"\) = \d/, out + err);
    assert.equal(status, 0);
    assert.match(run(example('log-open'), ['cat', '/no such file']).out, /\("\/no such file"\) = failed, errno 2/);
  },

  change_return() {
    const {out, err} = run(example('change-return'), ['id', '-u']);
    assert.equal(out, '4711\n', err);
  },

  dump_crypto() {
    if (!has('openssl'))
      return 'openssl is not installed';
    const {out, err} = run(example('dump-crypto'), ['openssl', 'dgst', '-sha256'], {input: 'hello crypto\n'});
    assert.match(err, /EVP_DigestUpdate: 13 bytes/, out + err);
    assert.match(err, /hello crypto/);
    assert.match(out, /[0-9a-f]{64}/);
    return null;
  },

  force_check() {
    const {out, err} = run(example('force-check'), [sample, '3']);
    assert.equal(out.match(/round \d: licence valid/g)?.length, 3, out + err);
    assert.match(out, /licence_is_valid\("guess"\) is true now/);
  },

  latency() {
    const {err} = run(example('latency'), [sample, '20', '1']);
    assert.match(err, /look_into: 20 calls, mean [0-9.]+ us/, err);
  },

  watch_allocations() {
    const {err} = run(example('watch-allocations'), [sample, '3']);
    assert.equal(err.match(/malloc\(4096\) = 0x/g)?.length >= 3, true, err);
    assert.match(err, /sample!main\+0x[0-9a-f]+ sample\.c:\d+/);
  },

  async count_per_module() {
    await withSample(['1000000', '1'], async (child) => {
      const both = /sample[^]*libc|libc[^]*sample/;
      const {stdout, stderr} = await attachedUntil(both, example('count-per-module'), child.pid);
      assert.match(stdout, /\d+ {2}sample/, stdout + stderr);
      assert.match(stdout, /\d+ {2}libc/, stdout + stderr);
    });
  },

  async trace_thread() {
    await withSample(['1000000', '1'], async (child) => {
      const {stdout, stderr} = await attachedUntil(/\bstep\b/, example('trace-thread'), child.pid);
      assert.match(stdout, /thread \d+ \(sample\): [1-9]\d* calls/, stdout + stderr);
      assert.match(stdout, /\bstep\b/);
    });
  },

  async coverage() {
    const file = path.join(folder, 'run.drcov');
    await withSample(['1000000', '1'], async (child) => {
      const {stdout, stderr} = await attachedUntil(/[1-9]\d* blocks in/, example('coverage'), child.pid, {DRCOV: file});
      assert.match(stdout, /[1-9]\d* blocks in/, stdout + stderr);
    });
    const data = fs.readFileSync(file);
    const [, count] = /BB Table: (\d+) bbs\n/.exec(data.toString('latin1'));
    const at = data.indexOf('BB Table');
    assert.equal(data.length - data.indexOf('\n', at) - 1, 8 * Number(count));
  },

  patch_instruction() {
    const {out, err} = run(example('patch-instruction'), [sample, '4']);
    assert.match(out, /round 3: licence wrong, price 1071/, out + err);
  },

  stalker() {
    const plain = spawnSync(sample, ['5'], {encoding: 'utf8'}).stdout;
    const {status, out, err} = run(path.join(__dirname, 'stalker_script.js'), [sample, '5']);
    assert.match(out, /6 checks, 0 failed/, out + err);
    assert.ok(out.startsWith(plain));
    assert.equal(status, 0);
  },

  program() {
    const done = spawnSync(process.execPath, [path.join(__dirname, 'program.js'), contrail, addon, sample, folder],
      {encoding: 'utf8', timeout: 2 * DEADLINE});
    assert.match(done.stdout, /program: all right/, done.stdout + done.stderr);
    assert.equal(done.status, 0);
  },

  compiled() {
    if (!has('cc'))
      return 'no C compiler is installed';
    const {status, out, err} = run(path.join(__dirname, 'compiled_script.js'), [sample, '4']);
    assert.match(out, /compiled: all right/, out + err);
    assert.match(out, /round 3: licence wrong, price 1219/); /* 200 and seven percent, 1000, 5 */
    assert.equal(status, 0);
    return null;
  },

  compiled_stalker() {
    if (!has('cc'))
      return 'no C compiler is installed';
    const {status, out, err} = run(path.join(__dirname, 'compiled_stalker.js'), [sample, '4']);
    assert.match(out, /compiled stalker: all right/, out + err);
    assert.match(out, /round 3: licence wrong, price 1070, walked 9/);
    assert.equal(status, 0);
    return null;
  },

  /* What is wrong is an exception that says so; the program notices nothing. */
  async bad_input() {
    const child = spawn(sample, ['200', '5'], {stdio: ['ignore', 'pipe', 'inherit']});
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (text) => out += text);
    await new Promise((resolve) => child.stdout.once('data', resolve));
    const {status, stdout, stderr} = await attached(path.join(__dirname, 'bad_input.js'), child.pid);
    assert.match(stdout, /bad input: all right/, stdout + stderr);
    assert.equal(status, 0);
    await new Promise((resolve) => child.exitCode === null ? child.on('close', resolve) : resolve());
    assert.equal(child.exitCode, 0);
    const lines = out.split('\n').slice(0, -1);
    assert.equal(lines.length, 200);
    lines.forEach((line, i) => assert.ok(line.startsWith(`round ${i}: licence wrong, price 1070, walked`), line));
  },

  /* A script that fails in every way that it can; the program behaves as without it. */
  async bad_scripts() {
    const plain = spawnSync(sample, ['8'], {encoding: 'utf8'}).stdout;
    const price = 'Process.mainModule.getSymbolByName("price")';
    const scripts = {
      throws: [`Interceptor.attach(${price}, {onEnter() { throw new Error('oops'); }, onLeave() { null.x; }});`,
        /the script has failed: Error: oops \(.*throws\.js:1\)/],
      loops: [`Interceptor.attach(${price}, {onEnter() { const end = Date.now() + 400; while (Date.now() < end); }});`,
        /took longer than Script\.timeout/],
      wild: [
        `Interceptor.attach(${price}, {onEnter(args) { args[0].readU8(); }});`, /access violation accessing 0x3e8/],
      types: [`Interceptor.attach(${price}, {onLeave(retval) { retval.replace({}); }});`, /expected a pointer/],
    };
    for (const [name, [text, message]] of Object.entries(scripts)) {
      const {status, out, err} = run(write(name, text), [sample, '8'], {words: ['--timeout', '100ms']});
      assert.equal(out, plain, name);
      assert.match(err, message, name);
      assert.equal(status, 0, name);
    }
    const syntax = run(write('syntax', 'let x = ;'), [sample, '1']);
    assert.equal(syntax.status, 1);
    assert.match(syntax.err, /SyntaxError/);
    assert.match(run(write('missing', '').slice(0, -3) + 'x', [sample, '1']).err, /there is no script/);
    const gone = await attached(write('empty', ''), 4194303);
    assert.equal(gone.status, 69, gone.stderr);
  },

  /* Node is killed in the middle of a callback; the program goes on. */
  async killed() {
    const script = write('hold', `Interceptor.attach(Process.mainModule.getSymbolByName('price'), {onEnter() {
      console.log('held'); const end = Date.now() + 5000; while (Date.now() < end); }});`);
    await withSample(['1000000', '5'], async (child, output) => {
      const node = spawn(contrail, ['script', '--timeout', '30s', script, '-p', String(child.pid)],
        {stdio: ['ignore', 'pipe', 'inherit']});
      await new Promise((resolve) => node.stdout.once('data', resolve));
      node.kill('SIGKILL');
      await new Promise((resolve) => node.on('close', resolve));
      const before = output().length;
      const end = Date.now() + DEADLINE;
      while (output().length === before && Date.now() < end)
        await new Promise((resolve) => setTimeout(resolve, 10));
      assert.ok(output().length > before, 'the program goes on');
      const again = await attached(write('again', 'console.log("in again"); Contrail.detach();'), child.pid);
      assert.match(again.stdout, /in again/, again.stderr);
    });
  },

  /* Node is killed while threads are followed: the next recorder, or script, lets them go, and nothing is left. */
  async killed_following() {
    const script = write('follow', `for (const thread of Process.enumerateThreads())
      Stalker.follow(thread.id, {events: {call: true, ret: true}, onReceive() { console.log('events'); }});`);
    await withSample(['1000000', '1'], async (child, output) => {
      const maps = () => fs.readFileSync(`/proc/${child.pid}/maps`, 'utf8');
      const before = maps();
      const next = {
        recorder: ['attach', '--duration', '100ms', '-o', folder, String(child.pid)],
        stalk: ['stalk', '--duration', '100ms', '-o', folder, '-p', String(child.pid)],
        script: ['script', ...PATIENT, write('after', 'console.log("in again"); Contrail.detach();'), '-p',
          String(child.pid)],
      };
      for (const [name, words] of Object.entries(next)) {
        const node = spawn(contrail, ['script', script, '-p', String(child.pid)], {stdio: ['ignore', 'pipe', 'pipe']});
        node.stderr.setEncoding('utf8').on('data', (text) => console.log(text));
        await new Promise((resolve) => node.stdout.once('data', resolve));
        node.kill('SIGKILL');
        await new Promise((resolve) => node.on('close', resolve));
        const done = spawn(contrail, words, {stdio: ['ignore', 'pipe', 'pipe'], timeout: DEADLINE});
        let err = '';
        done.stderr.setEncoding('utf8').on('data', (text) => err += text);
        assert.equal(await new Promise((resolve) => done.on('close', resolve)), 0, `${name}: ${err}`);
        const length = output().length;
        const end = Date.now() + DEADLINE;
        while (output().length < length + 200 && child.exitCode === null && Date.now() < end)
          await new Promise((resolve) => setTimeout(resolve, 5));
        assert.ok(output().length >= length + 200, `${name}: the program goes on`);
        assert.equal(maps(), before, `${name}: the maps are as before`);
      }
      output().split('\n').slice(0, -1).forEach((line, i) => assert.equal(line,
        `round ${i}: licence wrong, price 1070, walked ${i * i | 0}, read something`));
    });
  },

  /* Node is killed at any moment, also while it gets in: the program does what it would have done. */
  async kills() {
    const script = write('busy', `const main = Process.mainModule;
      const step = new NativeFunction(main.getSymbolByName('step'), 'int', ['int']);
      for (const name of ['price', 'walk', 'licence_is_valid', 'look_into', 'step'])
        Interceptor.attach(main.getSymbolByName(name), {
          onEnter(args) { this.text = Memory.alloc(32); if (name === 'price') step(3); }, onLeave(retval) {} });`);
    await withSample(['1000000', '1'], async (child, output) => {
      for (let i = 0; i < KILLS; i++) {
        const node = spawn(contrail, ['script', ...PATIENT, script, '-p', String(child.pid)], {stdio: 'ignore'});
        const ended = new Promise((resolve) => node.on('close', resolve));
        await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 400));
        node.kill('SIGKILL');
        await ended;
        const before = output().length;
        const end = Date.now() + DEADLINE;
        while (output().length === before && child.exitCode === null && Date.now() < end)
          await new Promise((resolve) => setTimeout(resolve, 2));
        assert.equal(child.exitCode, null, `kill ${i}`);
        assert.ok(output().length > before, `after kill ${i} the program goes on`);
      }
      output().split('\n').slice(0, -1).forEach((line, i) => assert.equal(line,
        `round ${i}: licence wrong, price 1070, walked ${i * i | 0}, read something`));
    });
  },

  beside: () => require('./beside').run({contrail, PATIENT, write, withSample, folder}),

  /* Callbacks come one right after the other; timers have their turn all the same, and promises before the next. */
  async turns() {
    const script = write('turns', `let calls = 0, settled = 0, turns = 0, late = 0;
      Interceptor.attach(Process.mainModule.getSymbolByName('step'), {onEnter() {
        late += settled < calls++;
        Promise.resolve().then(() => settled++);
      }});
      const turn = () => {
        if (++turns < 20 || calls < 1000)
          return setTimeout(turn, 1);
        console.log('turns ' + turns + ', late promises ' + late);
        Contrail.detach();
      };
      turn();`);
    await withSample(['1000000', '0'], async (child) => {
      const {stdout, stderr} = await attached(script, child.pid);
      assert.match(stdout, /turns \d+, late promises 0/, stdout + stderr);
    });
  },

  /* Nothing is left: the mappings are the same before and after. */
  async same_maps() {
    const script = write('leave', `Interceptor.attach(Process.mainModule.getSymbolByName('price'), {onEnter() {}});
      Memory.alloc(100); setTimeout(() => Contrail.detach(), 50);`);
    await withSample(['1000000', '5'], async (child) => {
      const maps = () => fs.readFileSync(`/proc/${child.pid}/maps`, 'utf8');
      const before = maps();
      const {status, stderr} = await attached(script, child.pid);
      assert.equal(status, 0, stderr);
      assert.equal(maps(), before);
    });
  },
};

async function main() {
  const probe = run(write('probe', ''), ['true']);
  if (probe.status !== 0) {
    console.log(`no process can be scripted here: ${probe.err.trim()}`);
    process.exit(77);
  }
  let failed = 0;
  for (const [name, test] of Object.entries(cases)) {
    if (only.length && !only.includes(name))
      continue;
    const started = Date.now();
    try {
      const skipped = await test();
      const time = `(${Date.now() - started} ms)`;
      console.log(skipped ? `skipped ${name}: ${skipped} ${time}` : `ok      ${name} ${time}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${name}: ${error.stack}`);
    }
  }
  process.exit(failed ? 1 : 0);
}

main();
