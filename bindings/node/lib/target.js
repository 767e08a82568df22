/* SPDX-License-Identifier: Apache-2.0 */
/* A process as the rest of the package sees it: the functions of the addon on one target, with the request that is
 * being answered now. While a thread waits, it does the work: allocating, protecting, calling. */
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const {addon} = require('./addon');
const {Struct} = require('./struct');

const NO_SLOT = 0xffffffff;
const PATIENCE_MS = 10000, PAUSE_MS = 10;
const SLEEP_AT_ONCE = 0xffffffff, SPIN_US = 30, LONGEST = 0x7fffffff;
const ARCHES = {x64: 'x64', arm64: 'arm64'};

const SYMBOL_LISTS = {exports: 0, imports: 1, symbols: 2};

/* As the addon has it. */
function timesOf({timeout = 1000, spin = SPIN_US}) {
  for (const [name, value] of Object.entries({timeout, spin}))
    if (!Number.isInteger(value) || value < 0 || value > LONGEST)
      throw new TypeError(`${name} is a whole number, not ${String(value)}`);
  return [timeout, spin || SLEEP_AT_ONCE];
}

/* Signals that we ignore (bit 0: signal 1), without those of Node. */
function ignoredByOthers() {
  const {SIGPIPE, SIGXFSZ} = os.constants.signals;
  const [, mask] = /^SigIgn:\s*([0-9a-f]+)/m.exec(fs.readFileSync('/proc/self/status', 'utf8'));
  return BigInt(`0x${mask}`) & ~(1n << BigInt(SIGPIPE - 1) | 1n << BigInt(SIGXFSZ - 1));
}

class Target {
  #handle;
  #native;
  /* Requests that are being handled, the innermost last. */
  #requests = [];
  #looks;
  #isLooking = false;
  #isClosed = false;
  /* Called before threads of the target go on, or do something. */
  beforeRunning = () => {};

  constructor(handle, {native = addon(), looks = true} = {}) {
    this.#handle = handle;
    this.#native = native;
    this.#looks = looks;
    this.layout = native.layout;
    this.arch = ARCHES[process.arch];
    this.pageSize = 4096;
    this.pid = this.state().pid;
  }

  static attach(pid, options = {}) {
    return new Target(addon().attach(pid, ...timesOf(options)), {looks: options.spin !== 0});
  }

  /* Node ignores two signals, and may have more open files than it had at first: a program is started without that. */
  static spawn(path, args, {env = null, ignoredSignals = ignoredByOthers(), openFiles = 0, ...options} = {}) {
    const variables = env && Object.entries(env).map(([name, value]) => `${name}=${value}`);
    return new Target(addon().spawn(path, args, variables, ...timesOf(options), ignoredSignals, openFiles),
      {looks: options.spin !== 0});
  }

  /* handler(request structure) */
  start(handler) {
    this.#native.start(this.#handle, (buffer) => {
      const request = new Struct(this.layout.request, buffer);
      this.#requests.push(request);
      try {
        handler(request);
      } finally {
        this.#requests.pop();
        if (this.isIdle)
          this.#lookSoon();
      }
    });
  }

  /* A thread often calls again soon. So this one looks for the next request by itself for a moment, before it sleeps
   * and has to be woken. Timers, promises and I/O have their turn between two requests. */
  #lookSoon() {
    if (this.#isLooking || !this.#looks || this.#isClosed)
      return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      if (!this.#isClosed && this.#native.look(this.#handle))
        this.#lookSoon();
    });
  }

  /* The request of the callback that runs now; null outside of callbacks. */
  get current() {
    return this.#requests.at(-1) ?? null;
  }

  /* The innermost one whose thread waits: transforms and exceptions cannot be interrupted for work. */
  get waiting() {
    const request = this.current;
    return request && request.u32('slot') !== NO_SLOT ? request : null;
  }

  get #slot() {
    return this.waiting?.u32('slot') ?? NO_SLOT;
  }

  /* While nothing is being handled, the session may end. */
  get isIdle() {
    return this.#requests.length === 0;
  }

  resume() {
    this.beforeRunning();
    this.#native.resume(this.#handle);
  }

  /* `atExit`: Node ends, perhaps in a callback. */
  close(atExit = false) {
    this.#isClosed = true;
    this.#native.close(this.#handle, atExit);
  }

  state() {
    return this.#native.state(this.#handle);
  }

  pump(ms) {
    this.beforeRunning();
    this.#native.pump(this.#handle, ms);
  }

  setTimeout(ms) {
    this.#native.setTimeout(this.#handle, ms);
  }

  watchFaults(on) {
    this.#native.watchFaults(this.#handle, on);
  }

  watchModules(on) {
    this.#native.watchModules(this.#handle, on);
  }

  modulesSeen(request) {
    this.beforeRunning(); /* what was hooked for it is in place */
    this.#native.modulesSeen(this.#handle, request.bytes);
  }

  /* ---- memory ---- */

  read(address, size) {
    return this.#native.read(this.#handle, address, size);
  }

  readSome(address, size) {
    return Buffer.from(this.#native.readSome(this.#handle, address, size));
  }

  write(address, bytes) {
    this.#native.write(this.#handle, address, bytes);
  }

  alloc(size, protection, near = 0n) {
    return this.#native.alloc(this.#handle, this.#slot, near, size, protection);
  }

  free(address) {
    this.#native.free(this.#handle, this.#slot, address);
  }

  protect(address, size, protection) {
    return this.#native.protect(this.#handle, this.#slot, address, size, protection);
  }

  /* ---- lists ---- */

  threads() {
    return this.#native.threads(this.#handle);
  }

  modules() {
    return this.#native.modules(this.#handle);
  }

  ranges() {
    return this.#native.ranges(this.#handle);
  }

  /* [{name, version, address, size, slot, flags, section}] of 'exports', 'imports' or 'symbols'. */
  symbols(base, list) {
    const {words, names, versions} = this.#native.symbols(this.#handle, base, SYMBOL_LISTS[list]);
    const allNames = names.split('\0'), allVersions = versions.split('\0'); /* a name may have a line feed */
    const out = [];
    for (let i = 0, at = 0; at < words.length; i++, at += 5)
      out.push({
        name: allNames[i], version: allVersions[i], address: words[at], size: Number(words[at + 1]),
        slot: words[at + 2], flags: Number(words[at + 3]), section: Number(words[at + 4]),
      });
    return out;
  }

  describe(address) {
    return this.#native.describe(this.#handle, address);
  }

  findFunctions(name) {
    return Array.from(this.#native.findFunctions(this.#handle, name));
  }

  /* Of the waiting thread when it is `tid`, else of any thread. */
  backtrace(tid, fuzzy) {
    const own = this.waiting;
    const slot = own && own.i32('tid') === tid ? own.u32('slot') : NO_SLOT;
    return Array.from(this.#native.backtrace(this.#handle, slot, tid, fuzzy));
  }

  /* Registers of a thread that does not wait, as a request. */
  registers(tid) {
    return new Struct(this.layout.request, this.#native.registers(this.#handle, tid));
  }

  /* ---- hooks ---- */

  hook(bytes) {
    return this.#native.hook(this.#handle, bytes);
  }

  /* A status: can the function at this address be hooked, with these callbacks? */
  checkHook(address, flags) {
    return this.#native.checkHook(this.#handle, address, flags);
  }

  /* The sentence for what failed last. */
  error() {
    return this.#native.error(this.#handle);
  }

  change(bytes) {
    this.#native.change(this.#handle, bytes);
  }

  unhook(ids) {
    const list = Uint32Array.from(ids);
    this.#native.unhook(this.#handle, new Uint8Array(list.buffer));
  }

  callback() {
    return this.#native.callback(this.#handle, this.#slot);
  }

  answer(request, changed) {
    this.beforeRunning();
    return this.#native.answer(this.#handle, request.bytes, changed);
  }

  readVector(request, n) {
    return this.#native.readVector(this.#handle, request.bytes, n);
  }

  writeVector(request, n, bytes) {
    this.#native.writeVector(this.#handle, request.bytes, n, bytes);
  }

  /* Has the waiting thread make a call (outside of callbacks a worker): {result, resultHigh, real, realHigh, error}. */
  run(call) {
    this.beforeRunning();
    const work = new Struct(this.layout.call);
    work.set64('function', call.function).set32('real_count', call.vector?.length ?? 0);
    (call.general ?? []).forEach((word, i) => i < 6 ? work.set64('integers', word, i)
      : work.set64('more_integers', word, i - 6));
    (call.vector ?? []).forEach((word, i) => work.set64('reals', word, i));
    (call.stack ?? []).forEach((word, i) => work.set64('stack', word, i));
    work.set32('stack_count', call.stack?.length ?? 0).set64('errno_function', call.errnoFunction ?? 0n);
    work.set64('place', call.place ?? 0n);
    this.#native.run(this.#handle, this.waiting?.bytes ?? null, work.bytes);
    return {
      general: [work.u64('result'), work.u64('result_high')],
      vector: [work.u64('real'), work.u64('real_high'), work.u64('more_reals'), work.u64('more_reals', 1)],
      error: work.i32('error'),
      fault: work.i32('fault'),
    };
  }

  /* ---- Stalker ---- */

  /* A thread may have to go on first, or to be answered by us. A transform that runs now keeps it from that. */
  #patiently(work) {
    for (const end = Date.now() + PATIENCE_MS;;) {
      try {
        return work();
      } catch (error) {
        if (error.code !== 'ERR_BUSY' || Date.now() > end)
          throw error;
        if (this.isTransforming)
          throw Object.assign(new Error('the Stalker cannot be changed while a block is transformed'),
            {code: error.code});
      }
      this.#native.pump(this.#handle, PAUSE_MS);
    }
  }

  get isTransforming() {
    return this.#requests.some((request) => request.u32('kind') === KIND.transform);
  }

  /* tid null: the waiting thread. */
  follow(tid, bytes) {
    this.#patiently(() =>
      this.#native.follow(this.#handle, tid === null ? this.waiting.bytes : null, tid ?? 0, bytes));
  }

  unfollow(tid) {
    const own = this.waiting;
    const here = tid === null || own && own.i32('tid') === tid;
    this.#patiently(() => this.#native.unfollow(this.#handle, here ? own.bytes : null, tid ?? 0));
  }

  exclude(start, size) {
    this.#patiently(() => this.#native.exclude(this.#handle, start, size));
  }

  setTrust(threshold) {
    this.#patiently(() => this.#native.setTrust(this.#handle, threshold));
  }

  setQueue(capacity, interval) {
    this.#native.setQueue(this.#handle, capacity, interval);
  }

  invalidate(tid, address) {
    this.#patiently(() => this.#native.invalidate(this.#handle, tid, address));
  }

  /* In a transform: what has come by itself is all there is. */
  flush() {
    if (!this.isTransforming)
      this.#patiently(() => this.#native.flush(this.#handle));
  }

  collect() {
    if (!this.isTransforming)
      this.#patiently(() => this.#native.collect(this.#handle));
  }

  addProbe(address, native, user) {
    return this.#patiently(() => this.#native.addProbe(this.#handle, address, native, user));
  }

  removeProbe(id) {
    this.#patiently(() => this.#native.removeProbe(this.#handle, id));
  }

  events() {
    return this.#native.events(this.#handle);
  }

  /* [structure] */
  block(request) {
    const bytes = this.#native.block(this.#handle, request.bytes);
    const {size} = this.layout.insn;
    return Array.from({length: bytes.length / size}, (_, i) => new Struct(this.layout.insn, bytes, i * size));
  }

  transform(request, edits) {
    this.beforeRunning();
    return this.#native.transform(this.#handle, request.bytes, edits);
  }

  /* ---- objects ---- */

  load(bytes, names) {
    return this.#native.load(this.#handle, bytes, names);
  }

  unload(object) {
    this.#native.unload(this.#handle, object);
  }
}

const KIND = {
  enter: 1, leave: 2, callback: 3, callout: 4, probe: 5, transform: 6, exception: 7, events: 8, gone: 9,
  modules: 10,
};
const LIFE = {stopped: 0, running: 1, ended: 2, replaced: 3, alone: 4};

module.exports = {Target, KIND, LIFE, NO_SLOT};
