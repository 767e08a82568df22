/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses the package; checked, never run. */

import {attach, spawn, record, runScript, Trace, Session, type ScriptMessage} from 'contrail';

async function main(): Promise<void> {
  const session: Session = attach(4711, {timeout: 100});
  session.on('message', (message: ScriptMessage) => console.log(message.payload));
  const {Interceptor, Module} = session.api;
  Interceptor.attach([Module.getGlobalExportByName('open'), Module.getGlobalExportByName('close')], {onEnter() {}});
  await runScript(session, 'watch.js');
  console.log(await session.messages.exports.add(1, 2));
  session.detach();
  const started = spawn(['ls', '-l'], {env: {LANG: 'C'}});
  started.resume();
  const recording = record({program: 'ls', output: 'traces', trigger: ['crash'], maxDepth: 4});
  await recording.mark();
  await recording.triggers.add('malloc');
  const trace: Trace = await recording.stop();
  for await (const call of trace.calls({function: 'open*', duration: {from: 1000}}))
    console.log(call.function, call.duration);
  console.log((await trace.query('SELECT count(*) AS n FROM calls'))[0].n);
}

main();
