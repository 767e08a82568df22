/* SPDX-License-Identifier: Apache-2.0 */
/* Module, ApiResolver and DebugSymbol: what is loaded in the target, and what is where. */
'use strict';

const path = require('node:path');
const {globToRegExp} = require('./match');
const {toBigInt} = require('./int64');
const {readElf} = require('./elf');

const FLAG = {FUNCTION: 1, GLOBAL: 2, WEAK: 4, IFUNC: 8, UNDEFINED: 16, TLS: 32, OLD: 64};
const ELF = '\x7fELF';
const HEAD = 1024; /* bytes: they have what tells files apart, tables of segments and the build-id */
/* Of the dynamic linker are only a few names that others do not have too. */
const LINKER = /^ld[-.].*|^ld-linux|^ld-musl/;

/* The list of modules, and names in them; read again when an address or a name is not found. */
class Modules {
  #session;
  #Module;
  #lists = new Map(); /* base and list: {symbols, head} */
  #byExport = new WeakMap(); /* list of exports: Map of names to symbols */
  #known = null;

  constructor(session, Module) {
    this.#session = session;
    this.#Module = Module;
  }

  refresh() {
    this.#known = this.#session.target.modules();
    const bases = new Set(this.#known.map((module) => module.base));
    for (const key of this.#lists.keys())
      if (!bases.has(BigInt(key.split(' ')[0])))
        this.#lists.delete(key);
    return this.#known;
  }

  all() {
    return this.refresh().map((module) => new this.#Module(module));
  }

  /* What the target says of the module at this address. */
  known(base) {
    const fits = (module) => module.base === base;
    return orThrow(this.#known?.find(fits) ?? this.refresh().find(fits) ?? null, 'the module is not loaded any more');
  }

  main() {
    return new this.#Module((this.#known ?? this.refresh())[0]);
  }

  #search(fits) {
    const found = this.#known?.find(fits) ?? this.refresh().find(fits);
    return found ? new this.#Module(found) : null;
  }

  /* By path, or by the name of its file; else libz.so.1 is libz.so.1.2.13. */
  byName(name) {
    const text = String(name), low = text.toLowerCase(), short = `${path.basename(text)}.`;
    return this.#search((module) => module.path === text || path.basename(module.path) === text) ??
      this.#search((module) => path.basename(module.path).toLowerCase() === low) ??
      (/\.so(\.|$)/.test(text) ? this.#search((module) => path.basename(module.path).startsWith(short)) : null);
  }

  byBias(bias) {
    return this.#search((module) => module.bias === bias);
  }

  byAddress(address) {
    const at = toBigInt(address, 'a pointer');
    return this.#search(({base, size}) => at >= base && at < base + BigInt(size));
  }

  /* Another module may have been loaded where one was. */
  symbols(base, list) {
    const key = `${base} ${list}`, head = this.#headOf(base);
    let known = this.#lists.get(key);
    if (known?.head !== head) {
      known = {head, symbols: this.#session.target.symbols(base, list)};
      this.#lists.set(key, known);
    }
    return known.symbols;
  }

  /* What a module begins with; '': nothing is there. */
  #headOf(base) {
    try {
      return this.#session.memory.read(base, HEAD).toString('latin1');
    } catch {
      return '';
    }
  }

  /* An export by name: of several versions the one that programs are linked with now. */
  exportOf(base, name) {
    const list = this.symbols(base, 'exports');
    let index = this.#byExport.get(list);
    if (!index) {
      index = new Map();
      for (const symbol of list)
        if (!index.has(symbol.name) || index.get(symbol.name).flags & FLAG.OLD && !(symbol.flags & FLAG.OLD))
          index.set(symbol.name, symbol);
      this.#byExport.set(list, index);
    }
    return index.get(name);
  }

  /* What the linker would bind a name to: the first module that defines it, the program first. */
  findGlobal(name) {
    const known = this.#known?.filter(({base}) => this.#headOf(base).startsWith(ELF)); /* some may be unloaded */
    return (known && this.#findIn(known, name)) ?? this.#findIn(this.refresh(), name);
  }

  #findIn(known, name) {
    const modules = [...known];
    const rank = (module) => LINKER.test(path.basename(module.path)) ? 1 : 0;
    modules.sort((a, b) => rank(a) - rank(b));
    for (const module of modules) {
      const found = this.exportOf(module.base, name);
      if (found)
        return this.resolve(found, true);
    }
    return null;
  }

  /* The address of an export. What a function is bound to that is chosen at run time, its own module knows, or one
   * that imports it; else, for `callable`, its resolver is asked. */
  resolve(symbol, callable = false) {
    if (!(symbol.flags & FLAG.IFUNC))
      return symbol.address;
    if (symbol.slot)
      return this.#session.memory.read(symbol.slot, 8).readBigUInt64LE(0);
    for (const module of this.#known ?? this.refresh()) {
      const bound = this.symbols(module.base, 'imports')
        .find((other) => other.name === symbol.name && other.address !== 0n && other.address !== symbol.address);
      if (bound)
        return bound.address;
    }
    return callable ? this.#choose(symbol) : symbol.address;
  }

  #choose({address}) {
    try {
      return this.#session.target.run({function: address}).general[0];
    } catch { /* no thread can make the call now */
      return address;
    }
  }
}

const typeOf = (symbol) => symbol.flags & FLAG.FUNCTION || symbol.flags & FLAG.IFUNC ? 'function' : 'variable';

function orThrow(value, text) {
  if (value === null)
    throw new Error(text);
  return value;
}

function makeModuleClass(session) {
  const {NativePointer} = session;
  const modules = () => session.modules;
  const pointer = (address) => new NativePointer(address);

  const whyNot = () => {
    const dlerror = modules().findGlobal('dlerror');
    const text = dlerror && new session.api.NativeFunction(dlerror, 'pointer', [])();
    return text && !text.isNull() ? `: ${text.readCString()}` : '';
  };

  class Module {
    constructor({base, size, path: file}) {
      this.name = path.basename(file);
      this.base = pointer(base);
      this.size = size;
      this.path = file;
    }

    #list(list) {
      return modules().symbols(this.base.toBigInt(), list);
    }

    enumerateExports() {
      return this.#list('exports').filter((symbol) => !(symbol.flags & FLAG.TLS))
        .map((symbol) => ({type: typeOf(symbol), name: symbol.name, address: pointer(modules().resolve(symbol))}));
    }

    enumerateImports() {
      return this.#list('imports').map((symbol) => ({
        type: typeOf(symbol), name: symbol.name, ...(symbol.version ? {module: symbol.version} : {}),
        ...(symbol.address ? {address: pointer(symbol.address)} : {}),
        ...(symbol.slot ? {slot: pointer(symbol.slot)} : {}),
      }));
    }

    enumerateSymbols() {
      return this.#list('symbols').map((symbol) => ({
        isGlobal: (symbol.flags & (FLAG.GLOBAL | FLAG.WEAK)) !== 0,
        type: symbol.flags & FLAG.TLS ? 'tls' : symbol.flags & FLAG.UNDEFINED ? 'unknown'
          : symbol.flags & FLAG.FUNCTION ? 'function' : 'object',
        name: symbol.name, address: pointer(symbol.address), size: symbol.size,
      }));
    }

    enumerateRanges(protection) {
      const from = this.base.toBigInt(), to = from + BigInt(this.size);
      return session.api.Process.enumerateRanges(protection)
        .filter(({base}) => base.toBigInt() >= from && base.toBigInt() < to);
    }

    findExportByName(name) {
      const found = modules().exportOf(this.base.toBigInt(), name);
      return found ? pointer(modules().resolve(found, true)) : null;
    }

    getExportByName(name) {
      return orThrow(this.findExportByName(name), `unable to find export '${name}' in ${this.name}`);
    }

    findSymbolByName(name) {
      const found = this.#list('symbols').find((symbol) => symbol.name === name && !(symbol.flags & FLAG.UNDEFINED));
      return found ? pointer(found.address) : this.findExportByName(name);
    }

    getSymbolByName(name) {
      return orThrow(this.findSymbolByName(name), `unable to find symbol '${name}' in ${this.name}`);
    }

    ensureInitialized() {}

    /* ELF files have none. */
    get version() {
      return null;
    }

    enumerateSections() {
      const {bias} = modules().known(this.base.toBigInt());
      return readElf(session.target.pid, this.path).sections.map(({id, name, address, size}) =>
        ({id: `${id}${name.startsWith('.') ? '' : '.'}${name}`, name, address: pointer(address + bias), size}));
    }

    enumerateDependencies() {
      return readElf(session.target.pid, this.path).needed.map((name) => ({name, type: 'regular'}));
    }

    toJSON() {
      const {name, base, size, path: file} = this;
      return {name, base, size, path: file};
    }

    /* ---- static: the names of Frida 17, then those of 16 ---- */

    static load(file) {
      const dlopen = new session.api.NativeFunction(Module.getGlobalExportByName('dlopen'), 'pointer',
        ['pointer', 'int']);
      const handle = dlopen(session.api.Memory.allocUtf8String(file), 2);
      if (handle.isNull())
        throw new Error(`the target cannot load ${file}${whyNot()}`);
      /* The handle is the linker's entry of the module, which begins with its load address. */
      return orThrow(modules().byBias(handle.readPointer().toBigInt()), `${file} is loaded, but not found`);
    }

    static findGlobalExportByName(name) {
      const address = modules().findGlobal(name);
      return address === null ? null : pointer(address);
    }

    static getGlobalExportByName(name) {
      return orThrow(Module.findGlobalExportByName(name), `unable to find global export '${name}'`);
    }

    static findExportByName(module, name) {
      if (module === null)
        return Module.findGlobalExportByName(name);
      return modules().byName(module)?.findExportByName(name) ?? null;
    }

    static getExportByName(module, name) {
      return orThrow(Module.findExportByName(module, name),
        `unable to find export '${name}'${module === null ? '' : ` in ${module}`}`);
    }

    static findBaseAddress(name) {
      return modules().byName(name)?.base ?? null;
    }

    static getBaseAddress(name) {
      return orThrow(Module.findBaseAddress(name), `unable to find module '${name}'`);
    }

    static ensureInitialized() {}
  }
  const byName = (name) => orThrow(modules().byName(name), `unable to find module '${name}'`);
  for (const method of ['enumerateExports', 'enumerateImports', 'enumerateSymbols', 'enumerateRanges',
    'findSymbolByName', 'getSymbolByName'])
    Module[method] = (name, ...args) => byName(name)[method](...args);
  return Module;
}

function makeDebugSymbol(session) {
  const {target, NativePointer} = session;
  const pointer = (address) => new NativePointer(address);

  class DebugSymbol {
    constructor(address, place) {
      this.address = address;
      this.name = place?.name || null;
      this.moduleName = place?.module || null;
      this.fileName = place?.file || null;
      this.lineNumber = place?.line || null;
      this.column = place?.column || null;
      Object.defineProperty(this, 'offset', {
        value: place?.function && place.name ? Number(address.toBigInt() - place.function)
          : place ? Number(address.toBigInt() - place.moduleBase) : null,
      });
    }

    static fromAddress(address) {
      const at = pointer(address);
      return new DebugSymbol(at, target.describe(at.toBigInt()));
    }

    static fromName(name) {
      const [address] = target.findFunctions(name);
      const found = address ?? session.modules.findGlobal(name) ?? 0n;
      return new DebugSymbol(pointer(found), found ? target.describe(found) : null);
    }

    static getFunctionByName(name) {
      const [address] = target.findFunctions(name);
      if (address === undefined)
        throw new Error(`unable to find function with name '${name}'`);
      return pointer(address);
    }

    static findFunctionsNamed(name) {
      return target.findFunctions(name).map(pointer);
    }

    static findFunctionsMatching(glob) {
      return target.findFunctions(glob).map(pointer);
    }

    static load() {}

    toString() {
      const {name, moduleName, offset} = this;
      const hex = `0x${(offset ?? 0).toString(16)}`;
      const place = this.fileName ? ` ${path.basename(this.fileName)}:${this.lineNumber}` : '';
      return moduleName === null ? this.address.toString()
        : `${this.address} ${moduleName}!${name ? `${name}${offset ? `+${hex}` : ''}` : hex}${place}`;
    }
  }
  return DebugSymbol;
}

/* "exports:*libc*!open*", with /i at its end for any case. */
function makeApiResolver(session) {
  return class ApiResolver {
    constructor(type) {
      if (type !== 'module')
        throw new Error(`there is no resolver of type '${type}' here: 'module' is`);
    }

    enumerateMatches(query) {
      const match = /^(exports|imports|sections):(.+)!(.+?)(\/i)?$/s.exec(query);
      if (!match || match[1] === 'sections')
        throw new Error(`"${query}" is no query: "exports:MODULE!NAME" or "imports:MODULE!NAME"`);
      const module = globToRegExp(match[2], true), name = globToRegExp(match[3], Boolean(match[4]));
      const fits = ({path: file}) => module.test(file) || module.test(path.basename(file));
      const out = [];
      for (const one of session.modules.refresh().filter(fits))
        for (const symbol of session.modules.symbols(one.base, match[1]))
          if (symbol.flags & (FLAG.FUNCTION | FLAG.IFUNC) && symbol.address && name.test(symbol.name))
            out.push({
              name: `${one.path}!${symbol.name}`, size: symbol.size,
              address: new session.NativePointer(session.modules.resolve(symbol)),
            });
      return out;
    }
  };
}

module.exports = {Modules, makeModuleClass, makeDebugSymbol, makeApiResolver, FLAG};
