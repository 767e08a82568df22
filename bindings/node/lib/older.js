/* SPDX-License-Identifier: Apache-2.0 */
/* Forms that scripts of earlier versions use: lists with callbacks, enumerateModules({onMatch, onComplete}), and with
 * names that end in Sync. */
'use strict';

/* `words`: how many arguments the list itself has. */
function addOlderForms(object, name, words) {
  const list = object[name];
  const withCallbacks = function (...args) {
    const items = list.apply(this, args.slice(0, words));
    const callbacks = args[words];
    if (typeof callbacks?.onMatch !== 'function')
      return items;
    for (const item of items)
      if (callbacks.onMatch(item) === 'stop')
        break;
    callbacks.onComplete?.();
    return undefined;
  };
  const define = (key, value) => Object.defineProperty(object, key, {configurable: true, writable: true, value});
  define(name, withCallbacks);
  define(`${name}Sync`, list);
}

function addOlderLists({Process, Module, ApiResolver}) {
  addOlderForms(Process, 'enumerateThreads', 0);
  addOlderForms(Process, 'enumerateModules', 0);
  addOlderForms(Process, 'enumerateRanges', 1);
  addOlderForms(ApiResolver.prototype, 'enumerateMatches', 1);
  for (const [place, words] of [[Module.prototype, 0], [Module, 1]]) {
    addOlderForms(place, 'enumerateExports', words);
    addOlderForms(place, 'enumerateImports', words);
    addOlderForms(place, 'enumerateSymbols', words);
    addOlderForms(place, 'enumerateRanges', words + 1);
  }
}

module.exports = {addOlderLists};
