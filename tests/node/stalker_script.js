/* SPDX-License-Identifier: Apache-2.0 */
/* Stalker on examples/scripts/sample.c, as the specification describes its uses: threads with their names and stacks, a
 * thread that is followed from a hooked function on, probes with data, excluded functions, transforms with callouts. */
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
const [step, walk, price, licence] = ['step', 'walk', 'price', 'licence_is_valid']
  .map((name) => main.getSymbolByName(name));
const seen = {targets: new Set(), kinds: new Set(), data: [], callouts: [], blocks: 0};

check('outside of callbacks there is no thread to follow', () => {
  assert.throws(() => Stalker.follow(), /outside of callbacks/);
  assert.throws(() => Stalker.follow({events: {call: true}}), /outside of callbacks/);
  assert.throws(() => Stalker.unfollow(), /for callbacks/);
  assert.throws(() => Stalker.follow(999999, {events: {call: true}}));
});

check('excluded functions', () => {
  const malloc = Process.enumerateModules().find(({name}) => /^libc\.so|^ld-musl/.test(name)).enumerateSymbols()
    .find(({name}) => name === 'malloc' || name === '__libc_malloc');
  Stalker.exclude({base: malloc.address, size: malloc.size || 16});
});

function transform(iterator) {
  let instruction = iterator.next();
  const isStep = instruction.address.equals(step);
  do {
    if (isStep && instruction.address.equals(step)) {
      if (Process.arch === 'x64') {
        iterator.putPushfx();
        iterator.putCmpRegI32('edi', 1);
        iterator.putJccShortLabel('jb', 'nope', 'no-hint');
        iterator.putCmpRegI32('edi', 2);
        iterator.putJccShortLabel('ja', 'nope', 'no-hint');
        iterator.putCallout((context) => seen.callouts.push(context.rdi.toInt32()));
        iterator.putLabel('nope');
        iterator.putPopfx();
      } else {
        iterator.putCallout(({x0}) => [1, 2].includes(x0.toInt32()) && seen.callouts.push(x0.toInt32()));
      }
    }
    iterator.keep();
  } while ((instruction = iterator.next()) !== null);
  seen.blocks++;
}

Stalker.addCallProbe(walk, function (args) {
  seen.data.push([this.data, args[0].toInt32(), this.context.pc.equals(walk)]);
}, 'given');

let followed = false;
Interceptor.attach(licence, {
  onEnter() {
    if (followed)
      return;
    followed = true;
    Stalker.follow({
      events: {call: true, ret: true},
      onReceive(events) {
        for (const [kind, , target] of Stalker.parse(events)) {
          seen.kinds.add(kind);
          seen.targets.add(target.toString());
        }
      },
      transform,
    });
  },
});

Interceptor.attach(main.getSymbolByName('finish'), {
  onEnter() {
    Stalker.unfollow();
  },
});

setTimeout(() => {
  check('names and stacks of threads', () => {
    const [pthread, text] = [Memory.alloc(8), Memory.alloc(32)];
    const self = new NativeFunction(Module.getGlobalExportByName('pthread_self'), 'pointer', []);
    const getName = new NativeFunction(Module.getGlobalExportByName('pthread_getname_np'), 'int',
      ['pointer', 'pointer', 'size_t']);
    pthread.writePointer(self());
    assert.equal(getName(pthread.readPointer(), text, 32), 0);
    assert.ok(text.readUtf8String().length > 0);
    for (const thread of Process.enumerateThreads())
      assert.ok(Thread.backtrace(thread.context, Backtracer.ACCURATE).length > 0);
  });
}, 30);

process.on('exit', () => {
  check('events', () => {
    assert.deepEqual([...seen.kinds].sort(), ['call', 'ret']);
    for (const target of [step, walk, price])
      assert.ok(seen.targets.has(target.toString()), `${target} of ${[...seen.targets]}`);
  });
  check('probes', () => { /* a compiler may have put the first walk before the call that is followed */
    const first = seen.data[0][1];
    assert.ok(first === 0 || first === 1, String(first));
    assert.deepEqual(seen.data.slice(0, 3).map(String), [0, 1, 2].map((n) => `given,${first + n},true`));
  });
  check('callouts behind labels', () => {
    assert.ok(seen.blocks > 5);
    assert.deepEqual(seen.callouts.slice(0, 4), [1, 1, 2, 1]);
  });
  const failed = results.filter(Boolean);
  console.log(failed.join('\n'));
  console.log(`${results.length} checks, ${failed.length} failed`);
});
