/* SPDX-License-Identifier: Apache-2.0 */
/* What scripts cost from JavaScript, beside what it is compared to: bench_script.js ADDON BENCH_SCRIPT. The target and
 * the ping-pong are those of bench_script.c. */
'use strict';

const {spawn, spawnSync} = require('node:child_process');
const {once} = require('node:events');
const path = require('node:path');

const [addon, bench] = process.argv.slice(2).map((name) => path.resolve(name));
process.env.CONTRAIL_NODE_ADDON = addon;
const contrail = require('../../bindings/node');

const ROUNDS = 5, CALLS = 3000, FOLLOWED_CALLS = 2000000, HOOKS = 1000, SPIN_US = 30;

class Target {
  static async start(how) {
    const target = new Target();
    target.child = spawn(bench, [how], {stdio: ['pipe', 'pipe', 'inherit']});
    target.subject = (await target.read()).readBigUInt64LE();
    return target;
  }

  async read() {
    const [data] = await once(this.child.stdout, 'data');
    return data;
  }

  /* ns a call */
  async run(calls) {
    const words = Buffer.alloc(8);
    words.writeBigInt64LE(BigInt(calls));
    this.child.stdin.write(words);
    return (await this.read()).readDoubleLE();
  }
}

async function best(measure) {
  let least = Infinity;
  for (let i = 0; i < ROUNDS; i++)
    least = Math.min(least, await measure());
  return least;
}

async function within(target, options, use) {
  const session = contrail.attach(target.child.pid, {timeout: 10000, ...options});
  const ended = once(session, 'detached');
  try {
    return await use(session.api, session);
  } finally {
    session.detach();
    await ended;
  }
}

const say = (what, text) => console.log(what.padEnd(34) + text);

async function callbacks(target) {
  const games = [[], []], own = [[], []];
  for (let i = 0; i < ROUNDS; i++) {
    for (const [way, spin] of [0, SPIN_US].entries())
      own[way].push(await within(target, {spin}, async ({Interceptor, ptr}) => {
        Interceptor.attach(ptr(target.subject), {onEnter() {}});
        Interceptor.flush();
        return target.run(CALLS);
      }));
    spawnSync(bench, ['play'], {encoding: 'utf8'}).stdout.split(' ').forEach((time, way) => games[way].push(+time));
  }
  /* From the target to the thread that waits, to Node's own, and back: three hops, the game has two. While Node's
   * thread looks for requests itself it is two. */
  for (const [way, [name, hops, goal]] of [['sleep', 3, '1.5 x'], ['spin', 2, '15 us']].entries()) {
    const [mine, game] = [Math.min(...own[way]), hops / 2 * Math.min(...games[way])];
    say(`a callback, both sides ${name}`, `${(mine / 1e3).toFixed(2)} us, ${(mine / game).toFixed(2)} x a ping-pong ` +
      `of ${hops} hops (${(game / 1e3).toFixed(2)} us; goal: ${goal})`);
  }
}

async function hooks(target) {
  const time = await best(() => within(target, {}, ({Interceptor, Process, DebugSymbol}) => {
    const libc = Process.enumerateModules().find(({name}) => /^libc\b/.test(name));
    const all = DebugSymbol.findFunctionsMatching('*')
      .filter((at) => at.compare(libc.base) >= 0 && at.compare(libc.base.add(libc.size)) < 0);
    const since = process.hrtime.bigint();
    let count = 0;
    for (let i = 0; i < all.length && count < HOOKS; i++)
      try {
        Interceptor.attach(all[i], {onEnter() {}});
        count++;
      } catch { /* one that cannot be hooked */ }
    Interceptor.flush();
    const ms = Number(process.hrtime.bigint() - since) / 1e6;
    if (count < HOOKS)
      throw new Error(`only ${count} functions can be hooked`);
    return ms;
  }));
  say(`${HOOKS} hooks, one by one`, `${time.toFixed(0)} ms (goal: 100)`);
}

async function events(target) {
  const own = await Target.start('follows');
  let taken = 0, counted = 0;
  const measure = (options) => within(target, {}, async ({Stalker}) => {
    Stalker.follow(target.child.pid, {events: {call: true, ret: true}, ...options});
    await target.run(1000);
    const time = await target.run(FOLLOWED_CALLS);
    Stalker.unfollow(target.child.pid);
    return time;
  });
  let received = Infinity, summary = Infinity, itself = Infinity;
  for (let i = 0; i < ROUNDS; i++) {
    received = Math.min(received, await measure({onReceive: (data) => taken += data.byteLength / 32}));
    summary = Math.min(summary, await measure({events: {call: true},
      onCallSummary: (counts) => counted += Object.values(counts).reduce((a, b) => a + b, 0)}));
    itself = Math.min(itself, await own.run(FOLLOWED_CALLS));
  }
  say('events into onReceive', `${(2e3 / received).toFixed(1)} M/s (goal: 5), ` +
    `${(100 * taken / (2 * ROUNDS * FOLLOWED_CALLS)).toFixed(0)} % of them arrive`);
  say('onCallSummary', `${summary.toFixed(2)} ns a call, ${(summary / itself).toFixed(2)} x a process that follows ` +
    `itself (${itself.toFixed(2)} ns; goal: 1.1), ${(counted / ROUNDS / 1e6).toFixed(1)} M counted a round`);
  own.child.kill();
}

async function main() {
  const target = await Target.start('target');
  await callbacks(target);
  await hooks(target);
  await events(target);
  target.child.kill();
}

main();
