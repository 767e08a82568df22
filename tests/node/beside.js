/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts beside a recording: two of them hook the same function, and the trace still has every call. Each leaves, or
 * is killed, and so is the recorder; the others go on, and in the end nothing is left. */
'use strict';

const assert = require('node:assert/strict');
const {spawn, spawnSync} = require('node:child_process');
const fs = require('node:fs');

const DEADLINE = 60000 * Number(process.env.CONTRAIL_TEST_SLOW ?? 1); /* an emulated machine is slow */

/* Prints its count again and again. */
const COUNT = `let calls = 0, returns = 0;
  const price = Process.mainModule.getSymbolByName('price');
  const listener = Interceptor.attach(price, {
    onEnter(args) { this.net = args[0].toInt32(); calls++; if (process.env.CHANGES) args[0] = ptr(200); },
    onLeave(retval) { returns += this.net === 1000 && retval.toInt32() === (process.env.CHANGES ? 214 : 1070); }});
  const seen = new Set();
  Interceptor.attach(Module.getGlobalExportByName('open'), {onEnter(args) { seen.add(args[0].readUtf8String()); }});
  setInterval(() => {
    if (calls && returns >= calls - 1 && seen.has('/etc/hostname'))
      console.log('calls', calls);
  }, 20);`;

class Running {
  out = '';
  err = '';

  constructor(program, args, env = {}) {
    this.child = spawn(program, args, {stdio: ['ignore', 'pipe', 'pipe'], env: {...process.env, ...env}});
    this.child.stdout.setEncoding('utf8').on('data', (text) => this.out += text);
    this.child.stderr.setEncoding('utf8').on('data', (text) => this.err += text);
    this.ended = new Promise((resolve) => this.child.on('close', resolve));
  }

  /* Waits until it says something, after what it has said. */
  async says(pattern, from = 0) {
    const end = Date.now() + DEADLINE;
    while (!pattern.test(this.out.slice(from) + this.err)) {
      assert.ok(Date.now() < end && this.child.exitCode === null, `waits for ${pattern}: ${this.out}${this.err}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  goesOn() {
    return this.says(/\n.*\n/, this.out.length);
  }

  async end(signal) {
    this.child.kill(signal);
    await this.ended;
  }
}

async function run({contrail, PATIENT, write, withSample, folder}) {
  const script = write('count', COUNT);
  const start = (pid, env) => new Running(contrail, ['script', ...PATIENT, script, '-p', String(pid)], env);
  await withSample(['1000000', '1'], async (child, output) => {
    const maps = () => fs.readFileSync(`/proc/${child.pid}/maps`, 'utf8');
    const before = maps();
    const record = async () => {
      const recorder = new Running(contrail, ['attach', String(child.pid), '-o', folder]);
      await recorder.says(/recording \d+/);
      return recorder;
    };
    const alive = async () => {
      const length = output().length;
      const end = Date.now() + DEADLINE;
      while (output().length < length + 200 && Date.now() < end)
        await new Promise((resolve) => setTimeout(resolve, 5));
      assert.ok(output().length >= length + 200, 'the program goes on');
    };

    /* Two scripts and a recording; each leaves while the others go on. */
    let recorder = await record();
    const [first, second] = [start(child.pid), start(child.pid)];
    await Promise.all([first.says(/calls/), second.says(/calls/)]);
    await first.end('SIGINT');
    await second.goesOn();
    const third = start(child.pid);
    await third.says(/calls/);
    await third.end('SIGKILL');
    await second.goesOn();
    await second.end('SIGINT');
    assert.equal(second.err, '');
    await alive();
    await recorder.end('SIGINT');
    await alive();
    assert.equal(maps(), before, 'the maps are as before');
    const trace = /contrail report (\S+)/.exec(recorder.err)[1];
    const counts = spawnSync(contrail, ['query', '--json', trace,
      'SELECT function, count(*) AS n FROM calls WHERE function IN (\'price\', \'look_into\') GROUP BY function'],
    {encoding: 'utf8'});
    const rows = JSON.parse(counts.stdout);
    assert.equal(rows.length, 2, counts.stdout + counts.stderr);
    assert.ok(Math.abs(rows[0].n - rows[1].n) <= 1, counts.stdout);
    assert.equal(spawnSync(contrail, ['verify', trace]).status, 0);

    /* The recorder leaves first, then it is killed first: the script ends, and nothing is left. */
    for (const signal of ['SIGINT', 'SIGKILL']) {
      recorder = await record();
      const changes = start(child.pid, {CHANGES: '1'});
      await changes.says(/calls/);
      await recorder.end(signal);
      assert.equal(await changes.ended, 0, changes.err);
      assert.match(changes.err, /the recording has ended/);
      await alive();
      assert.equal(maps(), before, `the maps are as before (recorder: ${signal})`);
    }
    assert.match(output(), /price 214/);

    /* Without a recording there is one. */
    const only = start(child.pid);
    await only.says(/calls/);
    const refused = start(child.pid);
    await refused.ended;
    assert.match(refused.err, /is scripted already: several scripts run side by side only beside a recording/);
    const late = spawnSync(contrail, ['attach', String(child.pid), '-o', folder], {encoding: 'utf8'});
    assert.match(late.stderr, /is scripted: end the script first/);
    assert.equal(late.status, 69);
    await only.end('SIGINT');
    assert.equal(maps(), before);
  });
}

module.exports = {run};
