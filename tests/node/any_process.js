/* SPDX-License-Identifier: Apache-2.0 */
/* The members of the API on a process that knows nothing of scripts and works meanwhile. HOT names a function that it
 * calls all the time. The last line says how many checks there were. */
'use strict';

const assert = require('node:assert/strict');

const results = [];
async function check(name, run) {
  try {
    await run();
    results.push(null);
  } catch (error) {
    results.push(`${name}: ${error.stack}`);
  }
}

const PATIENCE_MS = 30000;
async function until(what, holds) {
  for (const end = Date.now() + PATIENCE_MS; !holds();) {
    if (Date.now() > end)
      throw new Error(`not within ${PATIENCE_MS / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const main = Process.mainModule;
const has = (name) => Module.findGlobalExportByName(name) !== null || main.findSymbolByName(name) !== null;
const isDynamic = Process.enumerateModules().length > 1;
const find = (name) => Module.findGlobalExportByName(name) ?? main.getSymbolByName(name);
const hot = find(process.env.HOT);

async function lists() {
  assert.ok(main.size > 0 && main.path.endsWith(main.name));
  assert.equal(Process.getModuleByAddress(hot).name, DebugSymbol.fromAddress(hot).moduleName);
  assert.match(Process.getRangeByAddress(hot).protection, /x/);
  const threads = Process.enumerateThreads();
  assert.ok(threads.some(({id}) => id === Process.id) && threads.every(({name}) => name.length > 0));
  assert.ok(Thread.backtrace(threads[0].context, Backtracer.FUZZY).length > 0);
  if (isDynamic) {
    assert.ok(Process.enumerateModules().every(({base}) => base.readU32() === 0x464c457f));
    assert.ok(new ApiResolver('module').enumerateMatches('exports:*libc*!mem*').length > 5);
    assert.ok(main.enumerateImports().length > 0);
  }
}

async function memory() {
  const place = Memory.alloc(8192);
  place.writeUtf8String('contrail');
  assert.equal(Memory.scanSync(place, 64, '74 72 61 69 6c')[0].address.sub(place).toInt32(), 3);
  assert.ok(Memory.protect(place, 4096, 'r--') && Memory.queryProtection(place) === 'r--');
  assert.match(hexdump(place, {length: 16, header: false}), /contrail/);
  const first = Instruction.parse(hot);
  assert.ok(first.next.sub(hot).toInt32() === first.size);
  assert.throws(() => ptr(16).readU8(), /access violation/);
}

/* A static program has few of them. */
async function calls() {
  const place = Memory.alloc(64);
  const memset = new NativeFunction(find('memset'), 'pointer', ['pointer', 'int', 'size_t']);
  assert.ok(memset(place, 0x61, 12).equals(place));
  assert.equal(place.readUtf8String(), 'aaaaaaaaaaaa');
  if (has('getpid'))
    assert.equal(new NativeFunction(find('getpid'), 'int', [])(), Number(process.env.INNER_PID ?? Process.id));
  if (has('strlen'))
    assert.equal(new NativeFunction(find('strlen'), 'size_t', ['pointer'])(place).toNumber(), 12);
}

async function hooks() {
  const seen = {entered: 0, left: 0, stacks: 0, inside: 0};
  const memset = new NativeFunction(find('memset'), 'pointer', ['pointer', 'int', 'size_t']);
  const place = Memory.alloc(64);
  const listener = Interceptor.attach(hot, {
    onEnter(args) {
      seen.entered++;
      this.first = args[0];
      if (seen.entered > 20)
        return;
      seen.stacks += Thread.backtrace(this.context, Backtracer.ACCURATE).length > 0;
      seen.inside += memset(place, seen.entered, 8).readU8() === seen.entered;
    },
    onLeave(retval) {
      seen.left += this.first !== undefined && retval.compare(0) !== undefined;
    },
  });
  await until('calls', () => seen.entered > 20 && seen.left > 20);
  assert.equal(seen.stacks, 20);
  assert.equal(seen.inside, 20);
  listener.detach();
}

async function compiled() {
  const module = new CModule(`
    #include <gum/guminterceptor.h>
    volatile unsigned long count;
    void on_enter(GumInvocationContext *ic) { count++; }`);
  const listener = Interceptor.attach(hot, {onEnter: module.on_enter});
  await until('counted calls', () => module.count.readU64().toNumber() > 100);
  listener.detach();
  Interceptor.flush();
}

async function follows() {
  const events = new Map();
  let summary = 0, blocks = 0;
  const count = (data) => {
    for (const [kind] of Stalker.parse(data, {stringify: true}))
      events.set(kind, (events.get(kind) ?? 0) + 1);
  };
  const ways = [
    [{events: {call: true, ret: true, block: true}, onReceive: count}, () => events.get('call') > 10 &&
      events.get('ret') > 10 && events.get('block') > 10],
    [{events: {call: true}, onCallSummary: (counts) => summary += Object.keys(counts).length}, () => summary > 0],
    [{transform(iterator) {
      blocks++;
      while (iterator.next() !== null)
        iterator.keep();
    }}, () => blocks > 10],
  ];
  for (const [options, holds] of ways) {
    const threads = Process.enumerateThreads().map(({id}) => id);
    threads.forEach((id) => Stalker.follow(id, options));
    await until(`events of ${Object.keys(options)}`, () => (Stalker.flush(), holds()));
    threads.forEach((id) => Stalker.unfollow(id));
  }
  Stalker.garbageCollect();
}

async function run() {
  for (const part of [lists, memory, calls, hooks, compiled, follows])
    if (!(process.env.WITHOUT ?? '').split(' ').includes(part.name))
      await check(part.name, part);
  const failed = results.filter(Boolean);
  console.log(failed.join('\n'));
  console.log(`${results.length} checks, ${failed.length} failed`);
  Contrail.detach();
}

run();
