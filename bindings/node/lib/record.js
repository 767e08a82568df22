/* SPDX-License-Identifier: Apache-2.0 */
/* Contrail.record: a recording of a program or a process, made by the program `contrail`, and controlled from here. */
'use strict';

const {spawn, execFile} = require('node:child_process');
const {EventEmitter} = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const {promisify} = require('node:util');
const {Trace} = require('./trace');

const HOME = path.dirname(__dirname);
let named = process.env.CONTRAIL;

function setProgram(file) {
  named = file;
}

/* The program: where CONTRAIL says, in the build tree, beside the installed package, or in PATH. */
function program() {
  const places = [named, path.join(HOME, '..', '..', 'build', 'src', 'cli', 'contrail'),
    path.join(HOME, '..', '..', '..', 'bin', 'contrail'), path.join(HOME, '..', '..', '..', '..', 'bin', 'contrail')];
  return places.find((place) => place && fs.existsSync(place)) ?? 'contrail';
}

/* maxDepth: '--max-depth'; a list gives the option once for each value. */
function optionsOf(options) {
  const words = [];
  for (const [name, value] of Object.entries(options)) {
    const option = '--' + name.replace(/[A-Z]/g, (letter) => '-' + letter.toLowerCase());
    for (const one of [value].flat()) {
      if (one === true)
        words.push(option);
      else if (one !== false && one !== undefined && one !== null)
        words.push(`${option}=${one}`);
    }
  }
  return words;
}

/* A recording under way. Events: 'end' (exit code), 'output' (what `contrail` says). */
class Recording extends EventEmitter {
  #child;
  #done;
  #text = '';

  constructor(child, pid) {
    super();
    this.#child = child;
    this.pid = pid;
    this.path = null;
    this.#done = new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => {
        this.emit('end', code);
        resolve(code);
      });
    });
    this.#done.catch(() => {});
    child.stderr.setEncoding('utf8').on('data', (text) => {
      this.#text += text;
      this.path ??= /(?:^|\s)(\S*session_\d{8}_\d{6}\S*)/.exec(this.#text)?.[1] ?? null;
      this.emit('output', text);
    });
  }

  async #control(...words) {
    if (this.pid === null)
      throw new Error('this recording has no process that is known');
    const {stdout} = await promisify(execFile)(program(), ['ctl', String(this.pid), ...words]);
    return stdout.trim();
  }

  /* Marks this moment: the detail around it is kept. */
  mark() {
    return this.#control('mark');
  }

  status() {
    return this.#control('status');
  }

  get triggers() {
    return {
      add: (trigger) => this.#control('trigger', 'add', trigger),
      remove: (trigger) => this.#control('trigger', 'remove', trigger),
      list: async () => (await this.#control('trigger', 'list')).split('\n').filter(Boolean),
    };
  }

  /* Ends the recording of a process, which runs on; a program that it has started is ended with it. */
  async stop() {
    this.#child.kill('SIGINT');
    await this.#done;
    return this.trace();
  }

  /* When the program has ended by itself: its exit code. */
  wait() {
    return this.#done;
  }

  trace() {
    if (!this.path)
      throw new Error(`there is no trace: ${this.#text.trim().slice(-500)}`);
    return new Trace(this.path);
  }
}

/* record({pid, ...options}) or record({program: [path, argument], ...options}); options are those of `contrail spawn`
 * and `contrail attach`: {output: 'traces', only: 'malloc', trigger: ['signal=SEGV']}. */
function record({pid = null, program: command = null, stdio = ['inherit', 'inherit'], ...options}) {
  if ((pid === null) === (command === null))
    throw new TypeError('expected {pid} or {program: [path, arguments]}');
  const words = command ? ['spawn', ...optionsOf(options), '--', ...[command].flat()]
    : ['attach', ...optionsOf(options), String(pid)];
  return new Recording(spawn(program(), words, {stdio: [...stdio, 'pipe']}), pid);
}

module.exports = {record, Recording, setProgram};
