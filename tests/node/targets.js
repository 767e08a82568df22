/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts on programs of other people, and on odd ones: targets.js CONTRAIL FOLDER [NAME...], with FOLDER where the
 * build has put its programs. Each one works while any_process.js does everything to it, works on as before, and has
 * the same mappings afterwards. */
'use strict';

const assert = require('node:assert/strict');
const {spawn, spawnSync} = require('node:child_process');
const {once} = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const [contrail, programs, contained, ...only] = process.argv.slice(2);
const DEADLINE = 120000 * Number(process.env.CONTRAIL_TEST_SLOW ?? 1); /* an emulated machine is slow */
const PATIENT = ['--timeout', '30s'];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'contrail-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));

const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const built = (name) => path.join(programs, name);
const maps = (pid) => fs.readFileSync(`/proc/${pid}/maps`, 'utf8');

/* What a program does to its own memory is no business of ours: the addresses of code are compared. */
const codeOf = (pid) => maps(pid).split('\n').filter((line) => /^\S+ ..x/.test(line)).join('\n');

async function script(file, words, env = {}) {
  const child = spawn(contrail, ['script', ...PATIENT, file, ...words],
    {stdio: ['ignore', 'pipe', 'pipe'], timeout: DEADLINE, env: {...process.env, ...env}});
  const done = {out: '', err: ''};
  child.stdout.setEncoding('utf8').on('data', (text) => done.out += text);
  child.stderr.setEncoding('utf8').on('data', (text) => done.err += text);
  [done.status] = await once(child, 'close');
  return done;
}

async function everything(pid, env) {
  const before = codeOf(pid);
  const {status, out, err} = await script(path.join(__dirname, 'any_process.js'), ['-p', String(pid)], env);
  assert.match(out, /\d+ checks, 0 failed/, out + err);
  assert.equal(err.replace(/contrail: \d+ events are lost.*\n/g, ''), ''); /* the script is the slower one */
  assert.equal(status, 0);
  assert.equal(codeOf(pid), before);
}

/* A program that is ready when it prints something, and still prints afterwards. */
async function withProgram(command, use, options = {}) {
  const child = spawn(command[0], command.slice(1), {stdio: ['pipe', 'pipe', 'inherit'], ...options});
  const ended = once(child, 'close');
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text) => out += text);
  await Promise.race([once(child.stdout, 'data'), ended.then(() => {
    throw new Error(`${command[0]} has ended`);
  })]);
  try {
    await use(child, () => out);
    const length = out.length;
    for (const end = Date.now() + DEADLINE; out.length === length;) {
      assert.ok(child.exitCode === null && Date.now() < end, 'it works on');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
  return out;
}

const inOrder = (lines, make) => lines.slice(0, -1).forEach((line, i) => assert.equal(line, make(i)));

/* Programs of the specification: started by a script that looks at each call of their own functions. */
async function watch(name, functions, expected) {
  const file = path.join(folder, `${name}.js`);
  fs.writeFileSync(file, `const counts = {};
    for (const name of ${JSON.stringify(functions)}) {
      counts[name] = [0, 0];
      Interceptor.attach(Process.mainModule.getSymbolByName(name), {
        onEnter() { counts[name][0]++; }, onLeave() { counts[name][1]++; }});
    }
    process.on('exit', () => console.log('counts ' + JSON.stringify(counts)));`);
  const plain = spawnSync(built(name), [], {encoding: 'utf8'});
  const {status, out, err} = await script(file, ['--', built(name)]);
  const [, counts] = /counts (.*)/.exec(out) ?? [];
  assert.ok(counts, out + err);
  for (const [function_, calls] of Object.entries(expected))
    assert.deepEqual(JSON.parse(counts)[function_], [calls, calls], function_);
  assert.equal(out.replace(/counts .*\n/, ''), plain.stdout);
  assert.equal(status, plain.status);
}

const cases = {
  test_cli: () => watch('test_cli', ['factorial', 'fib', 'is_even', 'is_odd', 'count_line', 'half', 'power', 'push'],
    {factorial: 10, fib: 15, is_even: 5, is_odd: 5, count_line: 5, half: 1, power: 13, push: 100}),

  test_runloop: () => watch('test_runloop', ['compute', 'handle_job', 'dispatch', 'worker_main'],
    {compute: 100, handle_job: 100, dispatch: 104, worker_main: 4}),

  async sample() {
    const out = await withProgram([built('sample'), '1000000', '1'], (child) =>
      everything(child.pid, {HOT: 'look_into'}));
    inOrder(out.split('\n'), (i) => `round ${i}: licence wrong, price 1070, walked ${i * i | 0}, read something`);
  },

  async static_musl() {
    if (!fs.existsSync(built('sample_musl')))
      return 'musl-gcc is not installed';
    const out = await withProgram([built('sample_musl'), '1000000', '1'], (child) =>
      everything(child.pid, {HOT: 'look_into'}));
    inOrder(out.split('\n'), (i) => `round ${i}: licence wrong, price 1070, walked ${i * i | 0}, read something`);
    return null;
  },

  async python3() {
    const program = 'import os, time\ni = 0\nwhile True:\n    os.write(1, b"%d\\n" % i); i += 1; time.sleep(0.0005)\n';
    const out = await withProgram(['python3', '-c', program], (child) => everything(child.pid, {HOT: 'write'}));
    inOrder(out.split('\n'), String);
  },

  /* redis answers all that its benchmark asks, and the benchmark sees no error. */
  async redis() {
    if (!has('redis-server') || !has('redis-benchmark'))
      return 'redis is not installed';
    const socket = path.join(folder, 'redis');
    const server = spawn('redis-server', ['--port', '0', '--unixsocket', socket, '--save', '', '--dir', folder],
      {stdio: ['ignore', 'pipe', 'inherit']});
    const ended = once(server, 'close');
    let said = '';
    server.stdout.setEncoding('utf8').on('data', (text) => said += text);
    while (!/ready to accept connections/i.test(said))
      await Promise.race([once(server.stdout, 'data'), ended.then(() => assert.fail(said))]);
    const load = spawn('redis-benchmark', ['-s', socket, '-q', '-l', '-n', '2000', '-c', '8', '-t', 'set,get,incr'],
      {stdio: ['ignore', 'pipe', 'pipe']});
    let answers = '', errors = '';
    load.stdout.setEncoding('utf8').on('data', (text) => answers += text);
    load.stderr.setEncoding('utf8').on('data', (text) => errors += text);
    try {
      await everything(server.pid, {HOT: 'read'});
      const before = answers.length;
      while (answers.length === before && load.exitCode === null)
        await Promise.race([once(load.stdout, 'data'), once(load, 'close')]);
      assert.equal(load.exitCode, null, errors);
      const counter = spawnSync('redis-cli', ['-s', socket, 'incrby', 'counter:__rand_int__', '0'], {encoding: 'utf8'});
      assert.match(counter.stdout, /^[1-9]\d*\n$/);
      assert.equal(errors, '');
    } finally {
      load.kill('SIGKILL');
      server.kill('SIGKILL');
      await ended;
    }
    return null;
  },

  /* In a container the program has another number, and other names of files. */
  async container() {
    if (process.getuid() !== 0 || spawnSync(contained, ['true']).status !== 0)
      return 'containers cannot be made here';
    const out = await withProgram([contained, built('sample'), '1000000', '1'], async (child) => {
      const [inner] = fs.readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ');
      const numbers = /^NSpid:\s+(.*)$/m.exec(fs.readFileSync(`/proc/${inner}/status`, 'utf8'))[1].split(/\s+/);
      assert.ok(numbers.length > 1, 'it has a number of its own');
      await everything(Number(inner), {HOT: 'look_into', INNER_PID: numbers.at(-1)});
    });
    inOrder(out.split('\n'), (i) => `round ${i}: licence wrong, price 1070, walked ${i * i | 0}, read something`);
    return null;
  },
};

cases.go = async () => {
  if (!has('go'))
    return 'go is not installed';
  const source = path.join(folder, 'work.go'), program = path.join(folder, 'work');
  fs.writeFileSync(source, `package main
import ("fmt"; "time")
//go:noinline
func work(n int) int { s := 0; for i := 0; i < n; i++ { s += i }; return s }
func main() { for i := 0; ; i++ { fmt.Println(i, work(i % 100)); time.Sleep(time.Millisecond) } }
`);
  const made = spawnSync('go', ['build', '-o', program, source],
    {encoding: 'utf8', env: {...process.env, GO111MODULE: 'off', GOCACHE: path.join(folder, 'cache')}});
  assert.equal(made.status, 0, made.stderr);
  const text = path.join(folder, 'go.js');
  fs.writeFileSync(text, `const work = Process.mainModule.getSymbolByName('main.work');
    try { Interceptor.attach(work, {onEnter() {}}); } catch (error) { console.log(error.message); }
    let events = 0;
    const threads = Process.enumerateThreads().map(({id}) => id);
    for (const id of threads)
      Stalker.follow(id, {events: {call: true}, onReceive(data) { events += data.byteLength / 32; }});
    const timer = setInterval(() => {
      Stalker.flush();
      if (events < 100)
        return;
      clearInterval(timer);
      threads.forEach((id) => Stalker.unfollow(id));
      console.log('followed');
      Contrail.detach();
    }, 20);`);
  const out = await withProgram([program], async (child) => {
    const done = await script(text, ['-p', String(child.pid)]);
    assert.match(done.out, /Go's stacks have no room[^]*followed/, done.out + done.err);
    assert.equal(done.status, 0);
  });
  inOrder(out.split('\n'), (i) => `${i} ${(i % 100) * (i % 100 - 1) / 2}`);
  return null;
};

async function main() {
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
