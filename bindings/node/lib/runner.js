/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a script with the API as global names, as `contrail script` does. */
'use strict';

const fs = require('node:fs');
const path = require('node:path');
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

/* Loads the script into a session; it is a module like any other of Node: .js and .cjs, .mjs, .ts where Node can. */
async function runScript(session, file) {
  const full = path.resolve(file);
  if (!fs.existsSync(full))
    throw new Error(`there is no script ${file}`);
  session.api.Script.fileName = full;
  setGlobals(session.api);
  if (full.endsWith('.mjs'))
    return import(pathToFileURL(full).href);
  try {
    return require(full);
  } catch (error) {
    if (error.code === 'ERR_REQUIRE_ESM' || /import statement outside a module/.test(error.message))
      return import(pathToFileURL(full).href);
    throw error;
  }
}

module.exports = {runScript, setGlobals};
