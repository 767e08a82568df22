/* SPDX-License-Identifier: Apache-2.0 */
/* Process and Thread: the target as a whole, its threads and their stacks. */
'use strict';

const os = require('node:os');
const fs = require('node:fs');
const {toBigInt} = require('./int64');
const {Registers} = require('./cpu');
const {refusing} = require('./absent');

const PROTECTION = {r: 1, w: 2, x: 4};

/* "r-x" as bits. */
function parseProtection(text) {
  if (typeof text !== 'string' || !/^[r-][w-][x-]$/.test(text))
    throw new TypeError(`"${String(text)}" is no protection: three letters like "r-x"`);
  return [...text].reduce((bits, letter) => bits | (PROTECTION[letter] ?? 0), 0);
}

function protectionText(bits) {
  return (bits & 1 ? 'r' : '-') + (bits & 2 ? 'w' : '-') + (bits & 4 ? 'x' : '-');
}

const STATES = {R: 'running', S: 'waiting', D: 'uninterruptible', T: 'stopped', t: 'stopped', Z: 'halted', X: 'halted'};

/* A number of /proc/PID/status; 0: there is none. */
function statusNumber(pid, name) {
  try {
    return Number(new RegExp(`^${name}:\\s*([0-9]+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
  } catch {
    return 0;
  }
}

function makeProcess(session) {
  const {target, NativePointer} = session;

  const rangeOf = (range) => ({
    base: new NativePointer(range.start),
    size: Number(range.end - range.start),
    protection: protectionText(range.protection),
    ...(range.path ? {file: {path: range.path, offset: range.offset, size: 0}} : {}),
  });

  /* Neighbours of one protection as one. */
  const coalesced = (ranges) => {
    const out = [];
    for (const range of ranges) {
      const last = out.at(-1);
      if (last && last.end === range.start && last.protection === range.protection)
        last.end = range.end;
      else
        out.push({...range});
    }
    return out;
  };

  const enumerateRanges = (specifier) => {
    const options = typeof specifier === 'string' ? {protection: specifier} : specifier;
    const wanted = parseProtection(options.protection);
    const fitting = target.ranges().filter((range) => (range.protection & wanted) === wanted);
    return (options.coalesce ? coalesced(fitting) : fitting).map(rangeOf);
  };

  const findRangeByAddress = (address) => {
    const at = toBigInt(address, 'a pointer');
    const found = target.ranges().find(({start, end}) => at >= start && at < end);
    return found ? rangeOf(found) : null;
  };

  /* Where a function begins and ends is known of those that have a symbol with a size. */
  const findFunctionRange = (address) => {
    const at = toBigInt(address, 'a pointer'), module = session.modules.byAddress(at);
    const place = module && target.describe(at);
    if (!place?.function)
      return null;
    const own = session.modules.symbols(module.base.toBigInt(), 'symbols')
      .find((symbol) => symbol.address === place.function && symbol.size);
    return own && at < own.address + BigInt(own.size)
      ? {base: new NativePointer(own.address), size: own.size} : null;
  };

  const findThreadById = (id) => {
    const found = target.threads().find((thread) => thread.id === id);
    return found ? session.threadOf(found) : null;
  };

  const orThrow = (value, text) => {
    if (value === null)
      throw new Error(text);
    return value;
  };

  return {
    id: target.pid,
    arch: session.arch,
    platform: 'linux',
    pageSize: target.pageSize,
    pointerSize: 8,
    codeSigningPolicy: 'optional',
    get mainModule() {
      return session.modules.main();
    },
    getCurrentDir: () => fs.readlinkSync(`/proc/${target.pid}/cwd`),
    getHomeDir: () => os.homedir(),
    getTmpDir: () => os.tmpdir(),
    isDebuggerAttached: () => {
      const tracer = statusNumber(target.pid, 'TracerPid');
      return tracer !== 0 && statusNumber(tracer, 'Tgid') !== process.pid && /* we trace it at moments */
        statusNumber(tracer, 'PPid') !== process.pid; /* or a process of ours */
    },
    getCurrentThreadId: () => {
      if (!target.waiting)
        throw new Error('no thread of the target is running this: there is one in callbacks only');
      return target.waiting.i32('tid');
    },
    enumerateThreads: () => target.threads().map((thread) => session.threadOf(thread)),
    findThreadById,
    getThreadById: (id) => orThrow(findThreadById(id), `unable to find thread ${id}`),
    enumerateModules: () => session.modules.all(),
    findModuleByName: (name) => session.modules.byName(name),
    getModuleByName: (name) => orThrow(session.modules.byName(name), `unable to find module '${name}'`),
    findModuleByAddress: (address) => session.modules.byAddress(address),
    getModuleByAddress: (address) =>
      orThrow(session.modules.byAddress(address), `unable to find module containing ${address}`),
    enumerateRanges,
    findRangeByAddress,
    getRangeByAddress: (address) => orThrow(findRangeByAddress(address), `unable to find range containing ${address}`),
    findFunctionRange,
    getFunctionRange: (address) =>
      orThrow(findFunctionRange(address), `unable to find function containing ${address}`),
    enumerateMallocRanges: () => {
      throw new Error('the heap of the C library is not known');
    },
    setExceptionHandler: (callback) => session.setExceptionHandler(callback),
    /* When the thread next runs code of its own: one that waits in the kernel returns from there first. */
    runOnThread: (id, callback) => new Promise((resolve, reject) => {
      if (typeof callback !== 'function')
        throw new TypeError('expected a function');
      session.stalker.runOn(id, () => {
        try {
          resolve(callback());
        } catch (error) {
          reject(error);
        }
      });
    }),
    attachModuleObserver: (callbacks) => session.moduleObservers.attach(callbacks),
    attachThreadObserver: () => {
      throw new Error('threads cannot be observed: Process.enumerateThreads() lists them, and ' +
        'Interceptor.attach of pthread_create sees new ones');
    },
  };
}

const Backtracer = {ACCURATE: 'accurate', FUZZY: 'fuzzy'};

function makeThread(session) {
  const {target, NativePointer} = session;

  class Thread {
    constructor({id, name, state}) {
      this.id = id;
      this.name = name;
      this.state = STATES[state] ?? 'waiting';
      let context = null;
      Object.defineProperty(this, 'context', {
        get: () => context ??=
          new session.CpuContext(new Registers(target.registers(id), session.arch, session.memory)),
      });
    }

    /* Innermost first. Without a context: the thread that waits. */
    static backtrace(context, backtracer = Backtracer.ACCURATE) {
      const isContext = context !== null && typeof context === 'object';
      const tid = isContext ? session.CpuContext.tidOf(context) : target.waiting?.i32('tid');
      if (tid === undefined)
        throw new Error('expected this.context of a callback, or the context of a thread');
      const frames = target.backtrace(tid, backtracer === Backtracer.FUZZY);
      /* Where a function is entered, people want to know who has called it. */
      const entered = session.CpuContext.isOfEntry(isContext ? context : null, target.waiting);
      return frames.slice(entered ? 1 : 0).map((pc) => new NativePointer(pc));
    }

    /* Callbacks are served meanwhile. */
    static sleep(seconds) {
      target.pump(Math.max(0, Math.round(seconds * 1000)));
    }
  }
  for (const name of ['setHardwareBreakpoint', 'unsetHardwareBreakpoint', 'setHardwareWatchpoint',
    'unsetHardwareWatchpoint'])
    Thread.prototype[name] = refusing(`Thread.${name}`, 'the debug registers belong to the program and its debugger; ' +
      'Interceptor.attach hooks functions, and a transform of the Stalker sees each instruction');
  return Thread;
}

module.exports = {makeProcess, makeThread, Backtracer, parseProtection, protectionText};
