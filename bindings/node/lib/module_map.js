/* SPDX-License-Identifier: Apache-2.0 */
/* ModuleMap: which module an address belongs to, as the modules were when it was made or updated. And the observer of
 * modules that come and go. */
'use strict';

const {toBigInt} = require('./int64');

function makeModuleMapClass(session) {
  return class ModuleMap {
    #filter;
    #modules = []; /* by address: {module, start, end} */

    constructor(filter) {
      if (filter !== undefined && filter !== null && typeof filter !== 'function')
        throw new TypeError('expected a function that chooses modules');
      this.#filter = filter ?? (() => true);
      this.update();
    }

    update() {
      this.#modules = session.modules.all().filter((module) => this.#filter(module))
        .map((module) => ({module, start: module.base.toBigInt(), end: module.base.toBigInt() + BigInt(module.size)}))
        .sort((a, b) => a.start < b.start ? -1 : 1);
    }

    find(address) {
      const at = toBigInt(address, 'a pointer');
      let low = 0, high = this.#modules.length;
      while (low < high) { /* the first one that ends after the address */
        const middle = (low + high) >> 1;
        if (this.#modules[middle].end <= at)
          low = middle + 1;
        else
          high = middle;
      }
      const found = this.#modules[low];
      return found && found.start <= at ? found.module : null;
    }

    get(address) {
      const found = this.find(address);
      if (!found)
        throw new Error(`unable to find module containing ${address}`);
      return found;
    }

    has(address) {
      return this.find(address) !== null;
    }

    findName(address) {
      return this.find(address)?.name ?? null;
    }

    getName(address) {
      return this.get(address).name;
    }

    findPath(address) {
      return this.find(address)?.path ?? null;
    }

    getPath(address) {
      return this.get(address).path;
    }

    values() {
      return this.#modules.map(({module}) => module);
    }
  };
}

/* Reports modules: those that are there at once; others while the thread that has loaded or unloaded them waits in the
 * dynamic linker, before constructors run. */
class ModuleObservers {
  #session;
  #observers = new Set(); /* {callbacks, known: Map of address and path to Module} */

  constructor(session) {
    this.#session = session;
  }

  look() {
    const now = new Map(this.#session.modules.all().map((module) => [`${module.base} ${module.path}`, module]));
    for (const observer of [...this.#observers])
      this.#tell(observer, now);
  }

  #tell({callbacks, known}, now) {
    for (const [key, module] of [...known])
      if (!now.has(key)) {
        known.delete(key);
        this.#session.guard(() => callbacks.onRemoved?.(module));
      }
    for (const [key, module] of now)
      if (!known.has(key)) {
        known.set(key, module);
        this.#session.guard(() => callbacks.onAdded?.(module));
      }
  }

  attach(callbacks) {
    if (typeof callbacks?.onAdded !== 'function' && typeof callbacks?.onRemoved !== 'function')
      throw new TypeError('expected an object with onAdded or onRemoved');
    const observer = {callbacks, known: new Map()};
    if (!this.#observers.size)
      this.#session.target.watchModules(true);
    this.#observers.add(observer);
    this.look();
    return {detach: () => this.#detach(observer)};
  }

  #detach(observer) {
    if (this.#observers.delete(observer) && !this.#observers.size && !this.#session.isDetached)
      this.#session.target.watchModules(false);
  }
}

module.exports = {makeModuleMapClass, ModuleObservers};
