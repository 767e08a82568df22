/* SPDX-License-Identifier: Apache-2.0 */
/* The package as npm packs and installs it: pack.js ADDON SAMPLE. It is installed without a network into an empty
 * folder, where a program uses it. Exit status 77: npm is not installed. */
'use strict';

const assert = require('node:assert/strict');
const {spawnSync} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const [addon, sample] = process.argv.slice(2).map((name) => path.resolve(name));
const source = path.join(__dirname, '..', '..', 'bindings', 'node');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'contrail-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));

function run(program, words, cwd) {
  const env = {...process.env, npm_config_cache: path.join(folder, 'cache')};
  const done = spawnSync(program, words, {cwd, encoding: 'utf8', timeout: 120000, env});
  if (done.error?.code === 'ENOENT') {
    console.log(`${program} is not installed`);
    process.exit(77);
  }
  assert.equal(done.status, 0, done.stdout + done.stderr);
  return done.stdout;
}

/* As the installation has it: the sources with the addon beside them. */
const whole = path.join(folder, 'whole'), empty = path.join(folder, 'empty');
const {files, main, types} = JSON.parse(fs.readFileSync(path.join(source, 'package.json'), 'utf8'));
fs.cpSync(source, whole, {recursive: true});
fs.copyFileSync(addon, path.join(whole, 'contrail.node'));
fs.mkdirSync(empty);
const [packed] = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', empty], whole));
const names = packed.files.map((file) => file.path);
for (const name of [main, types, 'README.md', 'contrail.node', 'lib/session.js', 'include/gum/gumstalker.h'])
  assert.ok(names.includes(name), `${name} is packed`);
assert.ok(names.every((name) => ['package.json', 'README.md'].includes(name) ||
  files.some((place) => name === place || name.startsWith(`${place}/`))), 'nothing else is packed');

run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--silent', path.join(empty, packed.filename)], empty);
fs.writeFileSync(path.join(empty, 'use.js'), `
  const contrail = require('contrail');
  const session = contrail.spawn([process.argv[2], '3'], {timeout: 30000});
  const {Interceptor, Process} = session.api;
  let calls = 0;
  Interceptor.attach(Process.mainModule.getSymbolByName('price'), {onEnter() { calls++; }});
  session.on('detached', (reason, status) => console.log(reason, status, calls));
  session.resume();
`);
assert.match(run(process.execPath, ['use.js', sample], empty), /process-terminated 0 3\n$/);
console.log('packed, installed and used');
