/* SPDX-License-Identifier: Apache-2.0 */
/* Script: the script itself, its time limit, and code that it loads. */
'use strict';

const vm = require('node:vm');
const {refusing} = require('./absent');

function makeScript(session) {
  return {
    runtime: 'NODE',
    fileName: '',
    id: 1,
    nextTick: (callback, ...args) => process.nextTick(callback, ...args),
    pin() {},
    unpin() {},
    evaluate: (name, source) => vm.runInThisContext(source, {filename: name}),
    load: (name, source) =>
      import(`data:text/javascript,${encodeURIComponent(`${source}\n//# sourceURL=${name}`)}`),
    registerSourceMap: refusing('Script.registerSourceMap', 'node --enable-source-maps reads those that files name'),
    bindWeak: refusing('Script.bindWeak', 'FinalizationRegistry is of JavaScript itself'),
    unbindWeak: refusing('Script.unbindWeak', 'FinalizationRegistry is of JavaScript itself'),
    setGlobalAccessHandler: refusing('Script.setGlobalAccessHandler', 'set properties of globalThis'),
    get timeout() {
      return session.timeout ?? 1000;
    },
    set timeout(ms) {
      if (!Number.isInteger(ms) || ms < 1 || ms > 0x7fffffff)
        throw new TypeError(`a time limit is a number of milliseconds, not ${String(ms)}`);
      session.target.setTimeout(ms);
      session.timeout = ms;
    },
  };
}

module.exports = {makeScript};
