/* SPDX-License-Identifier: Apache-2.0 */
/* A target made of tables, for tests: memory in pages, modules with symbols, and requests that the test makes. */
'use strict';

const {Struct} = require('../lib/struct');
const {Session} = require('../lib/session');

const PAGE = 4096;
const NO_SLOT = 0xffffffff;

/* Structures with one word for each field, wherever the real ones have them. */
function layoutOf(fields, arrays = {}) {
  const layout = {};
  let at = 0;
  for (const field of fields) {
    layout[field] = at;
    at += 8 * (arrays[field] ?? 1);
  }
  layout.size = at;
  return layout;
}

const LAYOUT = {
  request: layoutOf(['slot', 'kind', 'id', 'tid', 'depth', 'parent', 'ticket', 'call', 'function', 'return_address',
    'address', 'fault', 'vectors', 'vectors_size', 'gpr', 'more', 'pc', 'flags'], {gpr: 16, more: 16}),
  hook: layoutOf(['address', 'flags', 'status', 'id', 'native_enter', 'native_leave', 'user', 'replacement',
    'original']),
  call: layoutOf(['function', 'integers', 'more_integers', 'reals', 'real_count', 'stack_count', 'stack',
    'errno_function', 'place', 'result', 'result_high', 'real', 'real_high', 'error', 'fault'],
  {integers: 6, more_integers: 2, reals: 8, stack: 64}),
  follow: layoutOf(['mask', 'summary', 'transform', 'native_transform', 'native_on_event', 'user']),
  insn: layoutOf(['address', 'length', 'flags', 'bytes'], {bytes: 2}),
  edit: layoutOf(['kind', 'insn', 'id', 'length', 'address', 'user', 'bytes'], {bytes: 8}),
};

class FakeTarget {
  beforeRunning = () => {};
  layout = LAYOUT;
  pageSize = PAGE;
  pid = 4711;
  pages = new Map();
  reads = 0;
  writes = 0;
  hooks = new Map(); /* id: fields */
  log = [];
  batches = [];
  answers = [];
  stack = [];
  moduleList = [];
  symbolLists = {};
  rangeList = [{start: 1n, end: 1n << 47n, protection: 7, offset: 0, path: ''}]; /* code is everywhere */
  threadList = [{id: 100, state: 'S', name: 'main'}];
  places = new Map();
  functions = {};
  run = () => ({general: [0n, 0n], vector: [0n, 0n], error: 0, fault: 0});
  nextHook = 1;
  #vectors = new Map();
  #break = 0x7f0000000000n;

  constructor(arch = 'x64') {
    this.arch = arch;
  }

  map(address, bytes) {
    for (let i = 0; i < bytes.length; i += PAGE) {
      const page = Buffer.alloc(PAGE);
      page.set(bytes.subarray(i, i + PAGE));
      this.pages.set(address + BigInt(i), page);
    }
  }

  #each(address, size, use) {
    for (let done = 0; done < size;) {
      const at = address + BigInt(done), inside = Number(at % BigInt(PAGE));
      const page = this.pages.get(at - BigInt(inside));
      if (!page)
        throw Object.assign(new Error(`access violation accessing 0x${at.toString(16)}`), {code: 'ERR_NOT_MAPPED'});
      const part = Math.min(size - done, PAGE - inside);
      use(page.subarray(inside, inside + part), done);
      done += part;
    }
  }

  read(address, size) {
    this.reads++;
    const out = Buffer.allocUnsafeSlow(size);
    this.#each(address, size, (part, at) => out.set(part, at));
    return out;
  }

  readSome(address, size) {
    const room = PAGE - Number(address % BigInt(PAGE));
    return this.read(address, Math.min(size, room));
  }

  write(address, bytes) {
    this.writes++;
    this.#each(address, bytes.length, (part, at) => part.set(bytes.subarray(at, at + part.length)));
  }

  alloc(size) {
    const address = this.#break;
    this.map(address, Buffer.alloc(Math.ceil(size / PAGE) * PAGE));
    this.#break += BigInt(Math.ceil(size / PAGE) * PAGE);
    this.log.push(['alloc', size]);
    return address;
  }

  protect(...args) {
    this.log.push(['protect', ...args]);
    return 1;
  }

  threads() {
    return this.threadList;
  }

  modules() {
    return this.moduleList;
  }

  ranges() {
    return this.rangeList;
  }

  symbols(base, list) {
    return this.symbolLists[`${base} ${list}`] ?? [];
  }

  describe(address) {
    return this.places.get(address) ?? null;
  }

  findFunctions(name) {
    return this.functions[name] ?? [];
  }

  registers(tid) {
    return new Struct(LAYOUT.request).set32('slot', NO_SLOT).set32('tid', tid).set64('pc', 0x1000);
  }

  backtrace(tid, fuzzy) {
    this.log.push(['backtrace', tid, fuzzy]);
    return [0x1000n, 0x2000n, 0x3000n];
  }

  hook(bytes) {
    let done = 0;
    for (let at = 0; at < bytes.length; at += LAYOUT.hook.size, done++) {
      const item = new Struct(LAYOUT.hook, bytes, at);
      if (item.u64('address') === 0xbadn) {
        item.set32('status', -11);
        continue;
      }
      item.set32('id', this.nextHook++).set64('original', item.u64('address') + 0x1000000n);
      this.hooks.set(item.u32('id'), {address: item.u64('address'), flags: item.u32('flags'),
        nativeEnter: item.u64('native_enter'), replacement: item.u64('replacement'), id: item.u32('id')});
    }
    return done;
  }

  checkHook(address) {
    return address === 0xbadn ? -11 : 0;
  }

  error() {
    return '';
  }

  change(bytes) {
    const item = new Struct(LAYOUT.hook, bytes);
    this.hooks.get(item.u32('id')).flags = item.u32('flags');
  }

  unhook(ids) {
    ids.forEach((id) => this.hooks.delete(id));
  }

  watchModules(on) {
    this.log.push(['watchModules', on]);
  }

  modulesSeen() {
    this.log.push(['modulesSeen']);
  }

  callback() {
    const id = this.nextHook++;
    return {address: 0xcb000000n + BigInt(id), id};
  }

  readVector(_, n) {
    return this.#vectors.get(n) ?? Buffer.alloc(16);
  }

  writeVector(_, n, bytes) {
    this.#vectors.set(n, Buffer.from(bytes));
  }

  setVector(n, value) {
    const bytes = Buffer.alloc(16);
    bytes.writeDoubleLE(value);
    this.#vectors.set(n, bytes);
  }

  answer(request, changed) {
    this.answers.push({request, changed});
    return 0;
  }

  follow(tid, bytes) {
    const what = new Struct(LAYOUT.follow, bytes);
    this.log.push(['follow', tid, what.u32('mask'), what.u32('summary'), what.u32('transform')]);
  }

  unfollow(tid) {
    this.log.push(['unfollow', tid]);
  }

  flush() {}

  setTrust(value) {
    this.log.push(['trust', value]);
  }

  exclude(start, size) {
    this.log.push(['exclude', start, size]);
  }

  addProbe(address) {
    this.log.push(['probe', address]);
    return this.nextHook++;
  }

  removeProbe(id) {
    this.log.push(['removeProbe', id]);
  }

  events() {
    return this.batches.shift() ?? null;
  }

  insns = [];
  block() {
    return this.insns;
  }

  transform(_, edits) {
    this.edits = edits;
    return 0;
  }

  load(bytes, names) {
    this.loaded = {bytes, names};
    return {object: {}, symbols: this.loadedSymbols ?? {}};
  }

  start(handler) {
    this.handler = handler;
  }

  pump() {}

  state() {
    return {life: 1, pid: this.pid, exitStatus: -1};
  }

  resume() {}

  close() {
    this.closed = true;
  }

  get waiting() {
    const request = this.stack.at(-1);
    return request && request.u32('slot') !== NO_SLOT ? request : null;
  }

  get current() {
    return this.stack.at(-1) ?? null;
  }

  get isIdle() {
    return this.stack.length === 0;
  }

  /* A request as a thread of the target would make it: {kind, id, tid, rdi, ...}. */
  request({kind, registers = {}, ...fields}) {
    const request = new Struct(LAYOUT.request);
    request.set32('kind', kind).set32('slot', 0);
    for (const [name, value] of Object.entries({tid: 100, ...fields}))
      request.set64(name, value);
    for (const [name, value] of Object.entries(registers)) {
      const index = {rax: 0, rcx: 1, rdx: 2, rbx: 3, rsp: 4, rbp: 5, rsi: 6, rdi: 7, r8: 8, r9: 9}[name];
      if (name === 'pc')
        request.set64('pc', value);
      else
        request.set64('gpr', value, index ?? Number(name.slice(1)));
    }
    this.beforeRunning(); /* the script's turn is over */
    this.stack.push(request);
    try {
      this.handler(request);
    } finally {
      this.stack.pop();
    }
    return request;
  }
}

/* A session on it, with its API; what scripts send and fail with is in `messages`. */
function fakeSession(arch) {
  const target = new FakeTarget(arch);
  const session = new Session(target);
  const messages = [];
  session.on('message', (message, data) => messages.push({...message, data}));
  return {target, session, messages, ...session.api, api: session.api};
}

module.exports = {fakeSession, FakeTarget, LAYOUT};
