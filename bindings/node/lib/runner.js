/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a script with the API as global names, as `contrail script` does. */
'use strict';

const fs = require('node:fs');
const {createRequire} = require('node:module');
const path = require('node:path');
const vm = require('node:vm');
const {pathToFileURL} = require('node:url');

/* Names that Node has too, and keeps. */
const OWN = new Set(['console', 'setTimeout', 'setInterval', 'setImmediate']);

function setGlobals(api) {
  for (const [name, value] of Object.entries(api)) {
    if (name === 'rpc' || OWN.has(name))
      continue;
    Object.defineProperty(globalThis, name, {configurable: true, writable: true, value});
  }
  Object.defineProperty(globalThis, 'rpc', {configurable: true, writable: true, value: api.rpc});
}

const OF_MODULES = ['exports', 'require', 'module', '__filename', '__dirname'];

/* A script may declare names that Node's modules have: `const module = Process.getModuleByName(...)`. Such a one runs
 * without those. Null: there are none. */
function withoutNames(file) {
  const source = fs.readFileSync(file, 'utf8');
  let names = OF_MODULES;
  for (;;) {
    try {
      const run = vm.compileFunction(source, names, {filename: file});
      return names.length === OF_MODULES.length ? null : {run, names};
    } catch (error) {
      const taken = /Identifier '(\w+)' has already been declared/.exec(error.message)?.[1];
      if (!names.includes(taken))
        return null;
      names = names.filter((name) => name !== taken);
    }
  }
}

function runWithout({run, names}, file) {
  const values = {exports: {}, require: createRequire(file), module: {exports: {}}, __filename: file,
    __dirname: path.dirname(file)};
  return run(...names.map((name) => values[name]));
}

/* Loads the script into a session; it is a module like any other of Node: .js and .cjs, .mjs, .ts where Node can. */
async function runScript(session, file) {
  const full = path.resolve(file);
  if (!fs.existsSync(full))
    throw new Error(`there is no script ${file}`);
  session.api.Script.fileName = full;
  setGlobals(session.api);
  if (full.endsWith('.mjs'))
    return import(pathToFileURL(full).href);
  const special = full.endsWith('.js') ? withoutNames(full) : null;
  if (special)
    return runWithout(special, full);
  try {
    return require(full);
  } catch (error) {
    if (error.code === 'ERR_REQUIRE_ESM' || /import statement outside a module/.test(error.message))
      return import(pathToFileURL(full).href);
    throw error;
  }
}

module.exports = {runScript, setGlobals};
