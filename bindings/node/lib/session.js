/* SPDX-License-Identifier: Apache-2.0 */
/* A session: one process, and the API with which scripts work on it. Requests of its threads are handled here, one
 * after the other, and each is answered. */
'use strict';

const {EventEmitter} = require('node:events');
const {Int64, UInt64, int64, uint64} = require('./int64');
const {hexdump} = require('./hexdump');
const {makePointerClass} = require('./pointer');
const {PagedMemory} = require('./paged_memory');
const {Target, KIND, LIFE} = require('./target');
const {Registers, makeContextClass} = require('./cpu');
const {makeFunctionClass, makeCallbackClass, handleCallback} = require('./native');
const {Interceptor} = require('./interceptor');
const {Stalker} = require('./stalker');
const {makeProcess, makeThread, Backtracer} = require('./process');
const {Modules, makeModuleClass, makeDebugSymbol, makeApiResolver} = require('./modules');
const {makeMemory, addOldForms} = require('./memory');
const {decodeInstruction, LONGEST} = require('./instruction');
const {makeWriters} = require('./writers');
const {makeCModuleClass} = require('./cmodule');
const {makeExceptionHandler} = require('./exceptions');
const {Errno} = require('./errno');
const {Messages} = require('./messages');
const {Trace} = require('./trace');
const {record} = require('./record');
const {addOlderLists} = require('./older');
const {makeModuleMapClass, ModuleObservers} = require('./module_map');
const {MatchPattern} = require('./match');
const {File, Checksum} = require('./file');
const {makeAbsent} = require('./absent');
const {makeScript} = require('./script');

const TIMEOUT = -6; /* CT_ERR_TIMEOUT: the thread went on before the answer came */

/* Node runs no hooks of addons when process.exit() ends it, in a callback too: nothing stays in the processes. */
const open = new Set();
process.on('exit', () => open.forEach((session) => session.leaveAtExit()));

/* Events: 'message' (message, data), 'warning' (text), 'detached' (reason). */
class Session extends EventEmitter {
  callbacks = new Map(); /* number: a NativeCallback and its implementation */
  code = new Set(); /* addresses that were called */
  #inside = []; /* NativeCallbacks that run now */
  #late = 0;

  constructor(target) {
    super();
    this.target = target;
    this.arch = target.arch;
    this.memory = new PagedMemory(target);
    this.NativePointer = makePointerClass(this.memory);
    this.CpuContext = makeContextClass(this.arch, this.NativePointer, target);
    this.interceptor = new Interceptor(this);
    this.stalker = new Stalker(this);
    this.errno = new Errno(this);
    this.exceptions = makeExceptionHandler(this);
    this.messages = new Messages();
    this.messages.on('message', (message, data) => {
      this.interceptor.flush(); /* the program may do something now that leads to a call */
      this.emit('message', message, data);
    });
    target.beforeRunning = () => this.interceptor.flush();
    this.api = this.#makeApi();
    target.start((request) => this.#handle(request));
    open.add(this);
  }

  static attach(pid, options) {
    return new Session(Target.attach(pid, options));
  }

  static spawn(command, options) {
    const [path, ...args] = [command].flat();
    return new Session(Target.spawn(path, [path, ...args], options));
  }

  /* ---- for the parts ---- */

  /* Runs a function of the script: what it throws is reported, and nothing else happens. */
  guard(run) {
    try {
      return run();
    } catch (error) {
      this.messages.error(error);
      return undefined;
    }
  }

  warn(text) {
    this.emit('warning', text);
  }

  inside(callback, run) {
    this.#inside.push(callback);
    try {
      return run();
    } finally {
      this.#inside.pop();
    }
  }

  isInside(callback) {
    return callback !== undefined && this.#inside.includes(callback);
  }

  threadOf(thread) {
    return new this.api.Thread(thread);
  }

  setExceptionHandler(callback) {
    this.exceptions.set(callback);
  }

  /* ---- requests ---- */

  #handle(request) {
    const kind = request.u32('kind');
    if (kind === KIND.events)
      return this.guard(() => this.stalker.handleEvents());
    if (kind === KIND.gone)
      return this.#gone();
    if (kind === KIND.modules)
      return this.#lookAtModules(request);
    this.memory.enter();
    let registers = null;
    try {
      registers = this.#dispatch(kind, request);
    } catch (error) { /* ours, or the target has gone */
      this.messages.error(error);
    } finally {
      this.memory.leave();
    }
    if (registers !== undefined)
      this.#answer(request, registers?.changed ?? false);
    return undefined;
  }

  /* What was changed; undefined: it is answered already. */
  #dispatch(kind, request) {
    switch (kind) {
    case KIND.enter:
    case KIND.leave:
      return this.interceptor.handle(request);
    case KIND.callback:
      return handleCallback(this, request);
    case KIND.callout:
      return this.stalker.handleCallout(request);
    case KIND.probe:
      return this.stalker.handleProbe(request);
    case KIND.transform:
      return this.stalker.handleTransform(request);
    case KIND.exception:
      return this.exceptions.handle(request);
    default:
      return new Registers(request, this.arch, this.memory);
    }
  }

  #answer(request, changed) {
    const status = this.target.answer(request, changed);
    if (status !== TIMEOUT || this.#late++)
      return;
    this.warn(`a callback of thread ${request.i32('tid')} took longer than Script.timeout: ` +
      'the thread went on without its answer (further ones are counted only)');
  }

  /* A thread waits in the dynamic linker. */
  #lookAtModules(request) {
    try {
      this.guard(() => this.moduleObservers.look());
    } finally {
      if (!this.isDetached)
        this.target.modulesSeen(request);
    }
    return undefined;
  }

  /* ---- the end ---- */

  #gone() {
    const state = this.target.state();
    const reasons = {[LIFE.replaced]: 'process-replaced', [LIFE.alone]: 'recording-ended'};
    this.#finish(reasons[state.life] ?? 'process-terminated', state.exitStatus);
  }

  resume() {
    this.target.resume();
  }

  get isStopped() {
    return this.target.state().life === LIFE.stopped;
  }

  get lateCallbacks() {
    return this.#late;
  }

  /* Leaves the process: nothing of ours stays in it. In a callback this happens when the callback has ended. */
  detach(reason = 'application-requested') {
    if (this.isDetached)
      return;
    if (this.target.isIdle)
      this.#finish(reason, null);
    else
      setImmediate(() => this.detach(reason));
  }

  isDetached = false;

  /* What was not seen, or came too late, in numbers. */
  #sayMissed() {
    const {timeouts, unserved} = this.target.state();
    this.stalker.sayLost();
    if (timeouts > 1)
      this.warn(`${timeouts} callbacks took longer than Script.timeout`);
    if (unserved)
      this.warn(`${unserved} calls had no callback: too many threads waited for theirs at once`);
  }

  leaveAtExit() {
    open.delete(this);
    this.isDetached = true;
    this.guard(() => this.#sayMissed());
    try {
      this.target.close(true);
    } catch { /* the process has gone */ }
  }

  #finish(reason, exitStatus) {
    if (this.isDetached)
      return;
    this.isDetached = true;
    const close = () => {
      this.guard(() => this.api.rpc.exports.dispose?.());
      this.#sayMissed();
      try {
        this.target.close();
      } catch (error) {
        this.warn(error.message);
      }
      open.delete(this); /* only now: what runs before may end Node */
      this.emit('detached', reason, exitStatus);
    };
    if (this.target.isIdle)
      close();
    else
      setImmediate(close);
  }

  /* ---- what scripts see ---- */

  #makeApi() {
    const session = this;
    const {NativePointer, target} = this;
    const Module = makeModuleClass(this);
    this.modules = new Modules(this, Module);
    this.moduleObservers = new ModuleObservers(this);
    const Memory = makeMemory(this);
    addOldForms(Memory, NativePointer);
    const api = {
      NativePointer, Int64, UInt64, int64, uint64, hexdump, Module, Memory, Backtracer,
      NULL: new NativePointer(0),
      ptr: (value) => new NativePointer(value),
      NativeFunction: makeFunctionClass(this, 'NativeFunction', false),
      SystemFunction: makeFunctionClass(this, 'SystemFunction', true),
      NativeCallback: makeCallbackClass(this),
      CModule: makeCModuleClass(this),
      Process: makeProcess(this),
      Thread: makeThread(this),
      DebugSymbol: makeDebugSymbol(this),
      ApiResolver: makeApiResolver(this),
      Interceptor: this.interceptor,
      Stalker: this.stalker,
      Instruction: {
        parse: (address) => {
          const pointer = new NativePointer(address);
          this.memory.read(pointer.toBigInt(), 1); /* throws where there is none */
          const bytes = target.readSome(pointer.toBigInt(), LONGEST[this.arch]);
          return decodeInstruction(this.arch, bytes, pointer.toBigInt(), NativePointer);
        },
      },
      ...makeWriters(this),
      Script: makeScript(this),
      ...this.messages.api,
      Frida: {version: '17.0.0', heapSize: 0},
      Contrail: {
        record, Trace,
        detach: () => this.detach(),
        get pid() {
          return target.pid;
        },
      },
      Trace,
      ModuleMap: makeModuleMapClass(this), MatchPattern, File, Checksum,
      ...makeAbsent(),
    };
    addOlderLists(api);
    return api;
  }
}

module.exports = {Session};
