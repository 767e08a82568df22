/* SPDX-License-Identifier: Apache-2.0 */
/* Interceptor: callbacks when functions are called and when they return, and other functions in their place.
 *
 * The target has one hook for each function; all listeners of a function share it. Hooks that are attached one by one
 * are installed together, under one stop of the target: when the script's turn is over, or when something is about to
 * happen that could call them (flush). */
'use strict';

const {Registers, makeArguments, makeResultClass} = require('./cpu');
const {KIND} = require('./target');
const {Struct} = require('./struct');
const {toBigInt} = require('./int64');
const {isNativeCallback} = require('./native');

const ON_ENTER = 1, ON_LEAVE = 2;
const MOST_CALLS = 1 << 18;

class Hook {
  listeners = []; /* {onEnter, onLeave, native} */
  replacement = null; /* {address, original} */
  id = null; /* its number in the target, where it is installed */

  constructor(address) {
    this.address = address;
  }
}

/* `this` of onEnter and onLeave: one object for each call. */
class InvocationContext {
  #registers;
  #session;
  #context = null;

  begin(session, registers) {
    this.#session = session;
    this.#registers = registers;
    this.#context = null;
    return this;
  }

  get context() {
    this.#context ??= new this.#session.CpuContext(this.#registers);
    return this.#context;
  }

  get returnAddress() {
    return new this.#session.NativePointer(this.#registers.request.u64('return_address'));
  }

  get threadId() {
    return this.#registers.request.i32('tid');
  }

  get depth() {
    return this.#registers.request.u32('depth');
  }

  get errno() {
    return this.#session.errno.get();
  }

  set errno(value) {
    this.#session.errno.set(value);
  }
}

function functionsOf(callbacks) {
  if (typeof callbacks === 'function' && callbacks.readByteArray === undefined)
    return {onEnter: callbacks};
  if (callbacks === null || typeof callbacks !== 'object' ||
      (callbacks.onEnter === undefined && callbacks.onLeave === undefined))
    throw new TypeError('expected an object with onEnter or onLeave');
  return callbacks;
}

/* A pointer, or an object with one, as {address}. */
const placeOf = (target) => target !== null && typeof target === 'object' && target.toBigInt === undefined &&
  target.address !== undefined ? target.address : target;

class Interceptor {
  #session;
  #hooks = new Map(); /* address as text: Hook */
  #byId = new Map();
  #pending = new Set(); /* hooks that flush() installs */
  #calls = new Map(); /* number of an open call: InvocationContext of each listener */
  #Result;

  constructor(session) {
    this.#session = session;
    this.#Result = makeResultClass(session.NativePointer);
  }

  #hookAt(address) {
    const key = address.toString(16);
    let hook = this.#hooks.get(key);
    if (!hook) {
      hook = new Hook(address);
      this.#hooks.set(key, hook);
    }
    return hook;
  }

  /* ---- what the target has to do ---- */

  #flagsOf(hook) {
    let flags = 0;
    for (const {onEnter, onLeave, native} of hook.listeners)
      flags |= (typeof onEnter === 'function' || native?.enter ? ON_ENTER : 0) |
        (typeof onLeave === 'function' || native?.leave ? ON_LEAVE : 0);
    return flags;
  }

  #fill(item, hook) {
    const flags = this.#flagsOf(hook);
    const native = hook.listeners.find((listener) => listener.native)?.native;
    item.set64('address', hook.address).set32('flags', flags).set32('id', hook.id ?? 0)
      .set64('native_enter', native?.enter ?? 0n).set64('native_leave', native?.leave ?? 0n)
      .set64('user', native?.user ?? 0n).set64('replacement', hook.replacement?.address ?? 0n);
  }

  /* Installs hooks under one stop of the target. Returns why some could not be: [{hook, error}]. */
  #put(hooks) {
    const {target} = this.#session;
    const {bytes, items} = Struct.array(target.layout.hook, hooks.length);
    const failures = [];
    let all = null;
    hooks.forEach((hook, i) => this.#fill(items[i], hook));
    try {
      target.hook(bytes);
    } catch (error) {
      all = error;
    }
    hooks.forEach((hook, i) => {
      const status = items[i].i32('status');
      if (all || status < 0) {
        this.#hooks.delete(hook.address.toString(16));
        failures.push({hook, error: all ?? new Error(this.#explain(hook.address, status))});
        return;
      }
      hook.id = items[i].u32('id');
      if (hook.replacement)
        hook.replacement.original = items[i].u64('original');
      this.#byId.set(hook.id, hook);
    });
    return failures;
  }

  /* All of them, or none: throws for the first that cannot be installed. */
  #install(hooks) {
    const [failure] = this.#put(hooks);
    if (!failure)
      return;
    this.#remove(hooks.filter((hook) => this.#byId.get(hook.id) === hook));
    throw failure.error;
  }

  /* Throws for a function that cannot be hooked. */
  #check(hook) {
    const status = this.#session.target.checkHook(hook.address, this.#flagsOf(hook));
    if (status < 0)
      throw new Error(this.#explain(hook.address, status));
  }

  #installSoon(hook) {
    this.#check(hook);
    if (!this.#pending.size)
      queueMicrotask(() => this.flush());
    this.#pending.add(hook);
  }

  #explain(address, status) {
    const reasons = {
      [-9]: 'no memory is there', [-10]: 'it is not code', [-11]: 'no function begins there',
      [-12]: 'it is hooked already', [-13]: 'it is inside of another hook', [-14]: 'it is of Contrail itself',
    };
    const reason = reasons[status] ?? (this.#session.target.error() || 'its first bytes cannot be replaced');
    return `unable to intercept function at 0x${address.toString(16)}: ${reason}`;
  }

  #change(hook) {
    const item = new Struct(this.#session.target.layout.hook);
    this.#fill(item, hook);
    this.#session.target.change(item.bytes);
  }

  #remove(hooks) {
    hooks.forEach((hook) => this.#pending.delete(hook));
    const ids = hooks.filter(({id}) => id !== null).map(({id}) => id);
    for (const hook of hooks) {
      this.#hooks.delete(hook.address.toString(16));
      this.#byId.delete(hook.id);
      hook.id = null;
    }
    if (ids.length)
      this.#session.target.unhook(ids);
  }

  /* ---- the API ---- */

  #listenerOf(callbacks, data) {
    const {onEnter, onLeave} = functionsOf(callbacks);
    const isNative = (f) => f !== undefined && f !== null && typeof f.toBigInt === 'function';
    for (const f of [onEnter, onLeave])
      if (f !== undefined && f !== null && typeof f !== 'function' && !isNative(f))
        throw new TypeError('onEnter and onLeave are functions, or pointers to compiled ones');
    if (!isNative(onEnter) && !isNative(onLeave))
      return {onEnter, onLeave, callbacks};
    return {
      onEnter: isNative(onEnter) ? undefined : onEnter,
      onLeave: isNative(onLeave) ? undefined : onLeave,
      native: {
        enter: isNative(onEnter) ? onEnter.toBigInt() : 0n,
        leave: isNative(onLeave) ? onLeave.toBigInt() : 0n,
        user: data === undefined || data === null ? 0n : toBigInt(data),
      },
    };
  }

  /* A phase of a hook is of one compiled listener, or of any number in JavaScript. */
  #checkFits(hook, listener) {
    const at = `the function at 0x${hook.address.toString(16)}`;
    if (hook.replacement)
      throw new Error(`${at} is replaced already`);
    if (listener.native && hook.listeners.some((other) => other.native))
      throw new Error(`${at} has a compiled listener already`);
    const taken = (one, other) => one.native?.enter && typeof other.onEnter === 'function' ||
      one.native?.leave && typeof other.onLeave === 'function';
    if (hook.listeners.some((other) => taken(listener, other) || taken(other, listener)))
      throw new Error(`${at} has a listener already: one in C and one in JavaScript do not share onEnter or onLeave`);
  }

  /* `target` may be an array: then all are hooked under one stop of the process. */
  attach(target, callbacks, data) {
    const many = Array.isArray(target);
    const places = (many ? target : [target]).map((one) => toBigInt(placeOf(one), 'a pointer to a function'));
    const added = [], fresh = new Set();
    this.#listenerOf(callbacks, data); /* throws for what is none */
    try {
      for (const place of places) {
        const hook = this.#hookAt(place), listener = this.#listenerOf(callbacks, data);
        this.#checkFits(hook, listener);
        hook.listeners.push(listener);
        added.push({hook, listener});
        if (hook.id !== null)
          this.#change(hook);
        else if (!this.#pending.has(hook))
          fresh.add(hook);
        else
          this.#check(hook);
      }
      if (many && fresh.size)
        this.#install([...fresh]);
      else
        fresh.forEach((hook) => this.#installSoon(hook));
    } catch (error) {
      this.#detach(added);
      throw error;
    }
    return {detach: () => this.#detach(added)};
  }

  #detach(added) {
    const empty = [];
    for (const {hook, listener} of added) {
      const at = hook.listeners.indexOf(listener);
      if (at < 0)
        continue;
      hook.listeners.splice(at, 1);
      if (!hook.listeners.length)
        empty.push(hook);
      else if (hook.id !== null)
        this.#change(hook);
    }
    if (empty.length)
      this.#remove(empty);
  }

  replace(target, replacement) {
    this.#replace(target, replacement);
  }

  /* As replace; returns a pointer to the function as it was. */
  replaceFast(target, replacement) {
    return new this.#session.NativePointer(this.#replace(target, replacement));
  }

  #replace(target, replacement) {
    const address = toBigInt(placeOf(target), 'a pointer to a function');
    const hook = this.#hookAt(address);
    if (hook.replacement || hook.listeners.length)
      throw new Error(`the function at 0x${address.toString(16)} is ${hook.replacement ? 'replaced' : 'intercepted'} ` +
        'already');
    hook.replacement = {address: toBigInt(replacement, 'a NativeCallback or a pointer'), original: 0n};
    if (isNativeCallback(replacement))
      hook.replacement.callback = replacement;
    this.#install([hook]);
    return hook.replacement.original;
  }

  revert(target) {
    const hook = this.#hooks.get(toBigInt(target, 'a pointer to a function').toString(16));
    if (hook?.replacement)
      this.#remove([hook]);
  }

  detachAll() {
    this.#remove([...this.#hooks.values()].filter((hook) => !hook.replacement));
  }

  /* Installs what waits for it. A function that turns out not to be as its file says is reported as an error. */
  flush() {
    const hooks = [...this.#pending];
    this.#pending.clear();
    if (!hooks.length || this.#session.isDetached)
      return;
    for (const {error} of this.#put(hooks))
      this.#session.messages.error(error);
  }

  /* Where calls of `address` go when they are made by the callback that replaces it: to the original. */
  originalFor(address) {
    const hook = this.#hooks.get(address.toString(16));
    return hook?.replacement?.original && this.#session.isInside(hook.replacement.callback)
      ? hook.replacement.original : address;
  }

  /* ---- requests ---- */

  handle(request) {
    const hook = this.#byId.get(request.u32('id'));
    const registers = new Registers(request, this.#session.arch, this.#session.memory);
    if (!hook) {
      this.#calls.delete(request.u64('call'));
      return registers;
    }
    if (request.u32('kind') === KIND.enter)
      this.#enter(hook, request, registers);
    else
      this.#leave(hook, request, registers);
    return registers;
  }

  #enter(hook, request, registers) {
    const contexts = new Map();
    let args = null;
    for (const listener of [...hook.listeners]) {
      if (listener.native)
        continue;
      const own = new InvocationContext().begin(this.#session, registers);
      contexts.set(listener, own);
      if (typeof listener.onEnter !== 'function')
        continue;
      args ??= makeArguments(registers, this.#session.NativePointer);
      this.#session.guard(() => listener.onEnter.call(own, args));
    }
    if (hook.listeners.some((listener) => typeof listener.onLeave === 'function'))
      this.#keep(request.u64('call'), contexts);
  }

  /* A call that a jump or an exception has left never returns: the oldest ones are forgotten. */
  #keep(call, contexts) {
    this.#calls.set(call, contexts);
    if (this.#calls.size > MOST_CALLS)
      this.#calls.delete(this.#calls.keys().next().value);
  }

  #leave(hook, request, registers) {
    const call = request.u64('call');
    const contexts = this.#calls.get(call);
    this.#calls.delete(call);
    const result = new this.#Result(registers);
    for (const listener of [...hook.listeners].reverse()) {
      if (typeof listener.onLeave !== 'function')
        continue;
      if (!contexts && typeof listener.onEnter === 'function')
        continue; /* the call was open before anyone listened */
      const own = (contexts?.get(listener) ?? new InvocationContext()).begin(this.#session, registers);
      this.#session.guard(() => listener.onLeave.call(own, result));
    }
  }
}

module.exports = {Interceptor};
