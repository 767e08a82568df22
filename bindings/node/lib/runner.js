/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a script with the API as global names, as `contrail script` does. */
'use strict';

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const vm = require('node:vm');
const {pathToFileURL} = require('node:url');

const {createRequire} = Module;

/* A buffer is printed as a dump, as scripts expect it. */
function dumpBuffers(hexdump) {
  const shown = (value) => value instanceof ArrayBuffer ? hexdump(value) : value;
  for (const name of ['log', 'info', 'warn', 'error', 'debug']) {
    const print = console[name].bind(console);
    console[name] = (...values) => print(...values.map(shown));
  }
}

function setGlobals(api) {
  for (const [name, value] of Object.entries(api))
    Object.defineProperty(globalThis, name, {configurable: true, writable: true, value});
}

const STDIN = '/dev/stdin';
const OF_MODULES = ['exports', 'require', 'module', '__filename', '__dirname'];

/* A script may declare names that Node's modules have: `const module = Process.getModuleByName(...)`. Such a one runs
 * without those: {run, names}; null: it is no script of CommonJS. */
function compile(source, file) {
  let names = OF_MODULES;
  for (;;) {
    try {
      return {run: vm.compileFunction(source, names, {filename: file}), names};
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

/* A script in TypeScript. Node 22.18 and newer take the types away by themselves; else the package `typescript` does,
 * where the script, or the folder we are in, has it. */
function loadTyped(file) {
  const wanted = createRequire(file);
  let typescript = null;
  for (const from of [wanted, createRequire(path.join(process.cwd(), 'x'))])
    try {
      typescript ??= from('typescript');
    } catch { /* it is not there */ }
  if (!typescript)
    throw new Error(`${file} is TypeScript: Node ${process.version} runs it when npm's package typescript is beside ` +
      'it (npm install typescript), Node 22.18 and newer run it as it is');
  const {outputText} = typescript.transpileModule(fs.readFileSync(file, 'utf8'),
    {fileName: file, compilerOptions: {target: 'es2022', module: 'commonjs', inlineSourceMap: true}});
  const module = new Module(file);
  module.filename = file;
  module.paths = Module._nodeModulePaths(path.dirname(file));
  module._compile(outputText, file);
  return module.exports;
}

/* From a pipe: `contrail script - ...`, or <(...) of a shell. */
function runText(source, file) {
  const compiled = compile(source, file);
  return compiled ? runWithout(compiled, file)
    : import(`data:text/javascript,${encodeURIComponent(`${source}\n//# sourceURL=${file}`)}`);
}

/* What frida-compile makes of modules: a list of them in one file. */
function refuseBundle(source, file) {
  if (source.startsWith('\u{1F4E6}'))
    throw new Error(`${file} is a bundle of modules for another tool: run its source, or bundle with esbuild ` +
      '--platform=node');
}

/* Loads the script into a session; it is a module like any other of Node: .js and .cjs, .mjs, .ts. `-` is standard
 * input. */
async function runScript(session, file) {
  const full = file === '-' ? STDIN : path.resolve(file);
  const place = full === STDIN ? 0 : full; /* which may be a socket: those cannot be opened */
  const status = place === 0 ? fs.fstatSync(0) : fs.statSync(full, {throwIfNoEntry: false});
  if (!status)
    throw new Error(`there is no script ${file}`);
  if (status.isDirectory())
    throw new Error(`${file} is a directory`);
  const source = fs.readFileSync(place, 'utf8');
  refuseBundle(source, file);
  session.api.Script.fileName = full;
  setGlobals(session.api);
  if (place === 0 || !status.isFile())
    return runText(source, full);
  if (full.endsWith('.mjs'))
    return import(pathToFileURL(full).href);
  if (/\.[cm]?ts$/.test(full) && !process.features.typescript)
    return loadTyped(full);
  const compiled = full.endsWith('.js') ? compile(source, full) : null;
  if (compiled && compiled.names.length !== OF_MODULES.length)
    return runWithout(compiled, full);
  try {
    return require(full);
  } catch (error) {
    if (error.code === 'ERR_REQUIRE_ESM' || /import statement outside a module/.test(error.message))
      return import(pathToFileURL(full).href);
    throw error;
  }
}

module.exports = {runScript, setGlobals, dumpBuffers};
