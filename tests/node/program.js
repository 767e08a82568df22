/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses the package: program.js CONTRAIL ADDON SAMPLE FOLDER. It scripts two processes at once, sees one
 * of them die, records, and reads the trace. Fails with an exception. */
'use strict';

const assert = require('node:assert/strict');
const {spawn} = require('node:child_process');
const {once} = require('node:events');
const path = require('node:path');

const [program, addon, sample, folder] = process.argv.slice(2);
process.env.CONTRAIL_NODE_ADDON = addon;
process.env.CONTRAIL = program;
const contrail = require('../../bindings/node');

const PATIENT = {timeout: 30000};

function start(rounds) {
  const child = spawn(sample, [rounds, '2'], {stdio: ['ignore', 'pipe', 'inherit']});
  return once(child.stdout, 'data').then(() => child);
}

async function twoProcesses() {
  const children = await Promise.all([start('5000'), start('5000')]);
  const sessions = children.map((child) => contrail.attach(child.pid, PATIENT));
  const counts = await Promise.all(sessions.map((session) => new Promise((resolve) => {
    const {Interceptor, Process, send} = session.api;
    let calls = 0;
    Interceptor.attach(Process.mainModule.getSymbolByName('price'), {onEnter() {
      if (++calls === 3)
        send({calls});
    }});
    session.on('message', (message) => resolve(message.payload.calls));
  })));
  assert.deepEqual(counts, [3, 3]);
  assert.throws(() => contrail.attach(children[0].pid), {code: 'ERR_BUSY'});
  const [first, second] = sessions;
  const {ptr, Process, Memory} = first.api;
  const place = Memory.alloc(16);
  assert.equal(place.writeUtf8String('alive').readUtf8String(), 'alive');
  children[0].kill('SIGKILL');
  const [reason] = await once(first, 'detached');
  assert.equal(reason, 'process-terminated');
  for (const use of [() => place.readU8(), () => ptr(1).writeU8(1), () => Process.enumerateModules(),
    () => Memory.alloc(100000), () => first.api.Interceptor.attach(place, {onEnter() {}})])
    assert.throws(use, /session has ended/);
  const left = once(second, 'detached');
  second.detach();
  assert.equal((await left)[0], 'application-requested');
  assert.throws(() => second.api.ptr(4096).readU8(), /session has ended/);
  children[1].kill();
}

async function started() {
  const session = contrail.spawn([sample, '2'], {...PATIENT, env: {GREETING: 'hello'}});
  assert.equal(session.isStopped, true);
  const {Module, NativeFunction, Memory, Interceptor, Process} = session.api;
  let greeting = null;
  Interceptor.attach(Process.mainModule.getSymbolByName('price'), {onEnter() {
    const getenv = new NativeFunction(Module.getGlobalExportByName('getenv'), 'pointer', ['pointer']);
    greeting = getenv(Memory.allocUtf8String('GREETING')).readUtf8String();
  }});
  const end = once(session, 'detached');
  session.resume();
  const [reason, status] = await end;
  assert.deepEqual([reason, status, greeting], ['process-terminated', 0, 'hello']);
}

async function recorded() {
  const recording = contrail.record({program: [sample, '4'], output: folder, only: 'sample',
    stdio: ['ignore', 'ignore']});
  assert.equal(await recording.wait(), 0);
  const trace = recording.trace();
  assert.ok(path.resolve(trace.path).startsWith(path.resolve(folder)));
  const depths = [];
  for await (const call of trace.calls({function: 'price'}))
    depths.push(call.depth);
  assert.equal(depths.length, 4);
  const functions = await trace.functions({function: 'look_into'});
  assert.equal(functions[0].calls, 4);
  const [{n}] = await trace.query('SELECT count(*) AS n FROM calls WHERE function = \'licence_is_valid\'');
  assert.equal(n, 4);
  let rows = 0;
  for await (const _ of trace.rows('SELECT * FROM calls'))
    if (++rows === 5)
      break; /* a question is given up */
  assert.ok((await trace.threads()).length >= 2);
  await assert.rejects(trace.query('SELECT id FROM nowhere'), /nowhere/);
  assert.throws(() => new contrail.Trace('/no such trace'));
  const child = await start('5000');
  const running = contrail.record({pid: child.pid, output: folder});
  const until = Date.now() + 60000;
  for (let marked = false; !marked && Date.now() < until;)
    marked = await running.mark().then(() => true, () => new Promise((resolve) => setTimeout(resolve, 50, false)));
  await running.triggers.add('symbol=price');
  assert.deepEqual((await running.triggers.list()).some((line) => line.includes('symbol=price')), true);
  const second = await running.stop();
  assert.ok((await second.query('SELECT count(*) AS n FROM calls'))[0].n > 0);
  child.kill();
}

async function main() {
  await twoProcesses();
  await started();
  await recorded();
  console.log('program: all right');
}

main();
