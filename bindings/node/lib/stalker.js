/* SPDX-License-Identifier: Apache-2.0 */
/* Stalker: follows threads of the target through translated code. */
'use strict';

const {Registers, makeArguments} = require('./cpu');
const {Struct} = require('./struct');
const {toBigInt} = require('./int64');
const {maskOf, parseEvents, parseSummary, summarize} = require('./stalker_events');
const {BlockIterator} = require('./transform');

const LOST_MS = 1000;
const RING_BYTES = 32 << 20; /* what the target has room for */
const SLICE_BYTES = 1 << 20;

const isPointer = (value) => value !== null && value !== undefined && typeof value.toBigInt === 'function';

function wholeNumber(name, value, least) {
  if (!Number.isInteger(value) || value < least || value > 0x7fffffff)
    throw new TypeError(`${name} is a whole number from ${least} on, not ${String(value)}`);
}

class Stalker {
  #session;
  #followed = new Map(); /* tid: options; events of a thread may come after its end */
  #running = new Set(); /* those of which this script has not been told to let go */
  #probes = new Map(); /* number: {callback, data} */
  #callouts = new Map(); /* number: function */
  #jobs = new Map(); /* tid: functions that the thread is to run */
  #nextCallout = 1;
  #trust = 1;
  #capacity = 16384;
  #interval = 250;
  #lost = 0;
  #lostTimer = null;

  constructor(session) {
    this.#session = session;
  }

  get #target() {
    return this.#session.target;
  }

  /* ---- settings ---- */

  get trustThreshold() {
    return this.#trust;
  }

  set trustThreshold(value) {
    wholeNumber('trustThreshold', value, -1);
    this.#target.setTrust(value);
    this.#trust = value;
  }

  get queueCapacity() {
    return this.#capacity;
  }

  set queueCapacity(value) {
    wholeNumber('queueCapacity', value, 1);
    this.#target.setQueue(value, this.#interval);
    this.#capacity = value;
  }

  get queueDrainInterval() {
    return this.#interval;
  }

  set queueDrainInterval(value) {
    wholeNumber('queueDrainInterval', value, 0);
    this.#target.setQueue(this.#capacity, value);
    this.#interval = value;
  }

  exclude(range) {
    this.#target.exclude(toBigInt(range.base, 'a range: {base, size}'), BigInt(range.size));
  }

  /* ---- following ---- */

  follow(...args) {
    const [threadId, options = {}] = typeof args[0] === 'number' ? args : [null, args[0]];
    if (options === null || typeof options !== 'object')
      throw new TypeError('expected the number of a thread, and options');
    const waiting = this.#target.waiting;
    if (threadId === null && !waiting)
      throw new Error('Stalker.follow() without a thread follows the thread that a callback is of: ' +
        'outside of callbacks name one of Process.enumerateThreads()');
    this.#check(options);
    const what = new Struct(this.#target.layout.follow);
    const counts = options.onCallSummary && !options.onReceive;
    what.set32('mask', maskOf(options.events) | (options.onCallSummary ? maskOf({call: true}) : 0))
      .set32('summary', counts ? 1 : 0)
      .set32('transform', typeof options.transform === 'function' ? 1 : 0)
      .set64('native_transform', isPointer(options.transform) ? options.transform.toBigInt() : 0n)
      .set64('native_on_event', isPointer(options.onEvent) ? options.onEvent.toBigInt() : 0n)
      .set64('user', options.data === undefined ? 0n : toBigInt(options.data));
    const tid = threadId ?? waiting.i32('tid');
    const here = waiting && waiting.i32('tid') === tid;
    this.#target.follow(here ? null : tid, what.bytes);
    this.#followed.set(tid, options);
    this.#running.add(tid);
  }

  #check(options) {
    for (const name of ['onReceive', 'onCallSummary'])
      if (options[name] !== undefined && typeof options[name] !== 'function')
        throw new TypeError(`${name} is a function`);
    if (options.onEvent !== undefined && !isPointer(options.onEvent))
      throw new TypeError('onEvent is a pointer to a function of a CModule');
    if (options.transform !== undefined && typeof options.transform !== 'function' && !isPointer(options.transform))
      throw new TypeError('transform is a function, or a pointer to one of a CModule');
  }

  unfollow(threadId) {
    const tid = threadId ?? this.#target.waiting?.i32('tid');
    if (tid === undefined)
      throw new Error('Stalker.unfollow() without a thread is for callbacks: outside of them name the thread');
    this.#target.unfollow(threadId ?? null);
    this.#running.delete(tid);
    this.drain();
  }

  /* Has the thread run `job` at the next instruction of its own that it comes to. */
  runOn(tid, job) {
    if (this.#target.waiting?.i32('tid') === tid)
      return job();
    const jobs = this.#jobs.get(tid);
    if (jobs)
      return jobs.push(job);
    if (this.#running.has(tid))
      throw new Error(`thread ${tid} is followed: a callout of its transform runs on it`);
    const list = [job];
    const work = () => {
      this.#jobs.delete(tid);
      this.#followed.delete(tid);
      this.unfollow();
      list.splice(0).forEach((one) => one());
    };
    this.follow(tid, {transform(iterator) {
      for (let first = true; iterator.next() !== null; first = false) {
        if (first)
          iterator.putCallout(() => list.length && work());
        iterator.keep();
      }
    }});
    this.#jobs.set(tid, list);
    return undefined;
  }

  invalidate(...args) {
    const [threadId, address] = args.length > 1 ? args : [0, args[0]];
    this.#target.invalidate(threadId, toBigInt(address, 'a pointer'));
  }

  flush() {
    this.#target.flush();
    this.drain();
  }

  garbageCollect() {
    this.#target.collect();
  }

  parse(events, options) {
    return parseEvents(events, options, (value) => new this.#session.NativePointer(value));
  }

  /* ---- probes ---- */

  /* callback(args) with `data` as `this.data`; or a compiled function, which gets the data. */
  addCallProbe(address, callback, data) {
    const target = toBigInt(address, 'a pointer to a function');
    if (!isPointer(callback) && typeof callback !== 'function')
      throw new TypeError('expected a function, or a pointer to a compiled one');
    const native = isPointer(callback);
    const user = native && data !== undefined ? toBigInt(data) : 0n;
    const id = this.#target.addProbe(target, native ? callback.toBigInt() : 0n, user);
    this.#probes.set(id, {callback, data});
    return id;
  }

  removeCallProbe(id) {
    if (!this.#probes.delete(id))
      throw new Error(`there is no probe ${id}`);
    this.#target.removeProbe(id);
  }

  handleProbe(request) {
    const registers = new Registers(request, this.#session.arch, this.#session.memory);
    const probe = this.#probes.get(request.u32('id'));
    if (!probe)
      return registers;
    const own = {
      context: new this.#session.CpuContext(registers), threadId: request.i32('tid'), data: probe.data,
      returnAddress: new this.#session.NativePointer(request.u64('return_address')),
    };
    const args = makeArguments(registers, this.#session.NativePointer);
    this.#session.guard(() => probe.callback.call(own, args, probe.data));
    return registers;
  }

  /* ---- transforms ---- */

  addCallout(callout) {
    const id = this.#nextCallout++;
    this.#callouts.set(id, callout);
    return id;
  }

  handleCallout(request) {
    const registers = new Registers(request, this.#session.arch, this.#session.memory);
    const callout = this.#callouts.get(request.u32('id'));
    if (callout)
      this.#session.guard(() => callout(new this.#session.CpuContext(registers)));
    return registers;
  }

  /* Answers the request itself. A transform that throws leaves the block as it is. */
  handleTransform(request) {
    const transform = this.#followed.get(request.i32('tid'))?.transform;
    let edits = null;
    if (typeof transform === 'function')
      this.#session.guard(() => {
        const iterator = new BlockIterator(this.#session, this.#target.block(request));
        transform(iterator);
        edits = iterator.edits();
      });
    this.#target.transform(request, edits);
  }

  /* ---- events ---- */

  /* Hands out what has come, but no more than `limit` bytes: threads may be faster than the script. True: there may be
   * more. */
  drain(limit = RING_BYTES) {
    for (let bytes = 0; bytes < limit;) {
      const batch = this.#target.events();
      if (!batch)
        return false;
      bytes += batch.data.byteLength;
      this.#deliver(batch);
    }
    return true;
  }

  /* Events have come: in slices, between which callbacks and timers run. */
  handleEvents() {
    if (!this.#session.isDetached && this.drain(SLICE_BYTES))
      setImmediate(() => this.#session.guard(() => this.handleEvents()));
  }

  /* Said at once, then at most once a second: there may be thousands of batches. */
  #countLost(lost) {
    this.#lost += lost;
    if (this.#lostTimer)
      return;
    this.sayLost();
    this.#lostTimer = setTimeout(() => {
      this.#lostTimer = null;
      this.sayLost();
    }, LOST_MS).unref();
  }

  sayLost() {
    if (this.#lost)
      this.#session.warn(`${this.#lost} events are lost: they came faster than they were taken`);
    this.#lost = 0;
  }

  #deliver({tid, summary, count, lost, data}) {
    const options = this.#followed.get(tid);
    if (lost)
      this.#countLost(lost);
    if (!options || !count)
      return;
    if (summary)
      return this.#session.guard(() => options.onCallSummary?.(parseSummary(data)));
    if (options.onReceive)
      this.#session.guard(() => options.onReceive(data));
    if (options.onCallSummary)
      this.#session.guard(() => options.onCallSummary(summarize(data)));
  }
}

module.exports = {Stalker};
