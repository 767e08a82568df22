/* SPDX-License-Identifier: Apache-2.0 */
/* CModule: C that runs in the target at its own speed. The system's compiler makes an object of it, freestanding; the
 * target gets its sections, and nothing else. */
'use strict';

const {spawnSync} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {pointerOf} = require('./types');

const INCLUDE = path.join(path.dirname(__dirname), 'include');
const COMPILERS = ['cc', 'gcc', 'clang'];
const OPTIONS = ['-c', '-O2', '-std=gnu11', '-ffreestanding', '-fno-stack-protector', '-fno-asynchronous-unwind-tables',
  '-fno-pic', '-fno-pie', '-fno-common', '-fno-tree-loop-distribute-patterns', '-w'];
const OF_ARCH = {
  x64: ['-mcmodel=large', '-mno-red-zone', '-fcf-protection=none'],
  arm64: ['-mcmodel=large', '-mno-outline-atomics'],
};

/* A function of a listener gets one structure where the target passes two. */
function wrappers(source) {
  const names = new Set();
  for (const [, name] of source.matchAll(/\b([A-Za-z_]\w*)\s*\(\s*GumInvocationContext\s*\*\s*\w*\s*\)\s*\{/g))
    names.add(name);
  const text = [...names].map((name) => `
void ct_listener_${name}(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
  GumInvocationContext ct_context;
  ct_gum_begin(&ct_context, cpu, call);
  ${name}(&ct_context);
}`).join('\n');
  return {names, text};
}

function compile(source, arch) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'contrail-'));
  try {
    const file = path.join(folder, 'module.c'), object = path.join(folder, 'module.o');
    const {names, text} = wrappers(source);
    fs.writeFileSync(file, `#line 1 "module.c"\n${source}\n${text}\n`, {mode: 0o600});
    for (const compiler of [process.env.CONTRAIL_CC, ...COMPILERS].filter(Boolean)) {
      const done = spawnSync(compiler, [...OPTIONS, ...OF_ARCH[arch], '-I', INCLUDE, file, '-o', object],
        {encoding: 'utf8'});
      if (done.error?.code === 'ENOENT')
        continue;
      if (done.status !== 0)
        throw new Error(`the C code does not compile:\n${(done.stderr ?? '').trim()}`);
      return {bytes: fs.readFileSync(object), names};
    }
    throw new Error('no C compiler is installed: a CModule needs one (gcc or clang)');
  } finally {
    fs.rmSync(folder, {recursive: true, force: true});
  }
}

/* Names that an object file (ELF, 64 bits, little endian) leaves undefined. */
function undefinedNames(bytes) {
  const number = (at, size) => size === 8 ? Number(bytes.readBigUInt64LE(at)) : bytes.readUIntLE(at, size);
  const sections = number(0x28, 8), count = number(0x3c, 2);
  const names = [];
  for (let i = 0; i < count; i++) {
    const at = sections + 64 * i;
    if (number(at + 4, 4) !== 2) /* SHT_SYMTAB */
      continue;
    const [offset, size, link] = [number(at + 24, 8), number(at + 32, 8), number(at + 40, 4)];
    const strings = number(sections + 64 * link + 24, 8);
    for (let symbol = offset + 24; symbol < offset + size; symbol += 24) {
      if (number(symbol + 6, 2) !== 0)
        continue;
      const start = strings + number(symbol, 4);
      names.push(bytes.toString('latin1', start, bytes.indexOf(0, start)));
    }
  }
  return names;
}

/* Addresses for the names that neither the script nor the agent has: functions of the target's libraries. */
function bind(session, names, symbols) {
  const out = {};
  for (const [name, value] of Object.entries(symbols))
    out[name] = pointerOf(value);
  for (const name of names) {
    if (Object.hasOwn(out, name) || /^(ct_|gum_)/.test(name))
      continue;
    const address = session.modules.findGlobal(name);
    if (address !== null)
      out[name] = address;
  }
  return out;
}

function makeCModuleClass(session) {
  const {NativePointer} = session;

  class CModule {
    #object;

    constructor(source, symbols = {}) {
      const text = typeof source === 'string' ? source : null;
      if (text === null && !ArrayBuffer.isView(source) && !(source instanceof ArrayBuffer))
        throw new TypeError('expected C code, or an object file');
      const {bytes, names} = text === null ? {bytes: Buffer.from(source), names: new Set()}
        : compile(text, session.arch);
      const loaded = session.target.load(bytes, bind(session, undefinedNames(bytes), symbols));
      this.#object = loaded.object;
      for (const [name, address] of Object.entries(loaded.symbols)) {
        if (name.startsWith('ct_listener_'))
          continue;
        /* As a listener, the target calls the function that prepares its argument. */
        const real = names.has(name) ? loaded.symbols[`ct_listener_${name}`] : address;
        Object.defineProperty(this, name, {enumerable: true, value: new NativePointer(real)});
      }
      if (loaded.symbols.init !== undefined)
        this.#call(loaded.symbols.init);
      this.finalize = loaded.symbols.finalize;
      Object.defineProperty(this, 'finalize', {enumerable: false});
    }

    #call(address) {
      session.target.run({function: address});
    }

    static get builtins() {
      return {defines: {}, headers: {}};
    }

    dispose() {
      if (this.#object === null)
        return;
      if (this.finalize !== undefined)
        this.#call(this.finalize);
      session.target.unload(this.#object);
      this.#object = null;
    }
  }
  return CModule;
}

module.exports = {makeCModuleClass, compile, undefinedNames};
