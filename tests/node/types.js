/* SPDX-License-Identifier: Apache-2.0 */
/* Checks types: types.js CACHE. Our declarations by themselves; the examples with them; a script that is written
 * against @types/frida-gum with Frida's declarations and with ours. TypeScript and Frida's declarations come from npm,
 * once, into CACHE. Exit status 77: they cannot be had here. */
'use strict';

const {spawnSync} = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const NPM_PATIENCE_MS = 120000;
const cache = path.resolve(process.argv[2]);
const tree = path.resolve(__dirname, '..', '..');
const bindings = path.join(tree, 'bindings', 'node');
const examples = path.join(tree, 'examples', 'scripts');

function skip(reason) {
  console.log(reason);
  process.exit(77);
}

/* What the lockfile lists, installed once. */
function install() {
  const files = ['package.json', 'package-lock.json'];
  const texts = files.map((name) => fs.readFileSync(path.join(__dirname, 'npm', name)));
  const digest = crypto.createHash('sha256').update(Buffer.concat(texts)).digest('hex');
  const stamp = path.join(cache, 'whole');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === digest)
    return;
  fs.rmSync(cache, {recursive: true, force: true});
  fs.mkdirSync(cache, {recursive: true});
  files.forEach((name, i) => fs.writeFileSync(path.join(cache, name), texts[i]));
  const done = spawnSync('npm', ['install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts'],
    {cwd: cache, encoding: 'utf8', timeout: NPM_PATIENCE_MS});
  if (done.error)
    skip(done.error.code === 'ENOENT' ? 'npm is not installed' : 'npm does not fetch its packages in time');
  if (done.status !== 0)
    skip(`npm cannot fetch its packages: ${(done.stderr || done.stdout).trim().slice(-300)}`);
  fs.writeFileSync(stamp, digest);
}

/* Files that several programs have are read once. */
const parsed = new Map();
function sharedHost(ts, options) {
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, ...rest) => {
    if (!parsed.has(name))
      parsed.set(name, read(name, ...rest));
    return parsed.get(name);
  };
  return host;
}

/* True when TypeScript has nothing to say. */
function check(name, files, types, options = {}) {
  const ts = require(path.join(cache, 'node_modules', 'typescript'));
  const all = {
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS, lib: ['lib.es2022.d.ts'], strict: true,
    noEmit: true, moduleDetection: ts.ModuleDetectionKind.Force, types, skipDefaultLibCheck: true,
    typeRoots: [path.join(cache, 'node_modules', '@types')], paths: {contrail: [path.join(bindings, 'index.d.ts')]},
    ...options,
  };
  const program = ts.createProgram(files, all, sharedHost(ts, all));
  /* Of npm's own files only those matter that ours break. */
  const found = ts.getPreEmitDiagnostics(program)
    .filter(({file}) => !file || !file.fileName.startsWith(path.join(cache, 'node_modules')));
  console.log(`${found.length ? 'FAILED ' : 'ok     '} ${name}`);
  if (found.length)
    console.log(ts.formatDiagnostics(found, {getCanonicalFileName: (file) => file, getCurrentDirectory: () => tree,
      getNewLine: () => '\n'}));
  return found.length === 0;
}

install();
const own = path.join(bindings, 'globals.d.ts');
const typed = path.join(__dirname, 'typed.ts');
const scripts = fs.readdirSync(examples).filter((name) => name.endsWith('.js'))
  .map((name) => path.join(examples, name));
const uses = path.join(__dirname, 'uses.ts');
const script = {allowJs: true, checkJs: true, strict: false, skipLibCheck: true};
/* Frida's declarations leave the console to those of the place where scripts run. */
const terminal = path.join(cache, 'console.d.ts');
fs.writeFileSync(terminal, 'declare const console: {log(...values: any[]): void};\n');
const results = [
  check('our declarations, and a script with them', [path.join(bindings, 'index.d.ts'), own, uses, typed], ['node']),
  check('examples', [own, ...scripts], ['node'], script),
  check('the script with the declarations of Frida', [terminal, typed], ['frida-gum'], {skipLibCheck: true}),
];
process.exit(results.every(Boolean) ? 0 : 1);
