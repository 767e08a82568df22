/* SPDX-License-Identifier: Apache-2.0 */
/* What `contrail script` runs in Node: main.js [--addon FILE] [--program FILE] [--timeout MS] FILE
 * (--pid PID | [--ignored MASK] [--files NUMBER] -- PROG ARGS), what the program is to have of its caller's.
 *
 * The script keeps running while its process does. Exit status: that of a program that was started, as a shell reports
 * it, also when the script has left it before; 1 when the script could not be run: then its program does not begin; 69
 * when the process cannot be scripted. */
'use strict';

const OLDEST = 18;
if (parseInt(process.versions.node, 10) < OLDEST) {
  process.stderr.write(`contrail: Node ${process.version} is too old for scripts: name Node 18 or newer with --node\n`);
  process.exit(69);
}

const fs = require('node:fs');
const os = require('node:os');
const {Session} = require('./session');
const {runScript, dumpBuffers} = require('./runner');
const {setPlace} = require('./addon');
const {setProgram} = require('./record');

const UNAVAILABLE = 69, PERMISSION = 77, USAGE = 64, FAILED = 1;
const LOOK_MS = 20;
const EXIT_CODE = 49; /* of the fields of /proc/PID/stat after the name */

function parse(words) {
  const out = {timeout: 1000, pid: null, command: null, file: null};
  for (let i = 0; i < words.length; i++) {
    if (words[i] === '--timeout')
      out.timeout = Number(words[++i]);
    else if (words[i] === '--addon')
      setPlace(words[++i]);
    else if (words[i] === '--program')
      setProgram(words[++i]);
    else if (words[i] === '--ignored')
      out.ignoredSignals = BigInt(words[++i]);
    else if (words[i] === '--files')
      out.openFiles = Number(words[++i]);
    else if (words[i] === '--pid')
      out.pid = Number(words[++i]);
    else if (words[i] === '--') {
      out.command = words.slice(i + 1);
      break;
    } else
      out.file = words[i];
  }
  return out;
}

/* What comes from the process, as names of files, does not command the terminal. */
function say(text) {
  process.stderr.write(`contrail: ${text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '?')}\n`);
}

function printMessage(message, data) {
  if (message.type === 'error') {
    const place = message.fileName ? ` (${message.fileName}:${message.lineNumber})` : '';
    say(`the script has failed: ${message.description}${place}`);
  } else {
    process.stdout.write(JSON.stringify(message.payload) + (data ? ` with ${data.length} bytes` : '') + '\n');
  }
}

/* As a shell reports what wait(2) says. */
function exitCode(status) {
  return status === null || status < 0 ? 0 : status & 0x7f ? 128 + (status & 0x7f) : status >> 8 & 0xff;
}

/* How a program that we have started ended: what wait(2) says; null: it runs. */
function endOf(pid) {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? Number(fields[EXIT_CODE]) : null;
  } catch {
    return -1;
  }
}

function waitForEnd(pid) {
  return new Promise((resolve) => {
    const look = () => {
      const status = endOf(pid);
      if (status === null)
        setTimeout(look, LOOK_MS);
      else
        resolve(status);
    };
    look();
  });
}

function programOf(pid) {
  try {
    return fs.readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return 'another one';
  }
}

function open({pid, command, timeout, ignoredSignals, openFiles}) {
  try {
    return pid === null ? Session.spawn(command, {timeout, ignoredSignals, openFiles})
      : Session.attach(pid, {timeout});
  } catch (error) {
    say(error.message);
    process.exit(error.code === 'ERR_PERMISSION_DENIED' ? PERMISSION : UNAVAILABLE);
  }
}

/* The script has left the process, or the process it. */
async function finish(session, command, reason, status, code) {
  const {pid} = session.target;
  if (reason === 'recording-ended')
    say('the recording has ended, and the script beside it with it; the process runs on');
  if (reason === 'process-replaced')
    say(`process ${pid} has executed another program (${programOf(pid)}), and the script has ended with the one that ` +
      'it was for: start that program, or attach to it');
  if (command && code === null)
    process.exit(exitCode(reason === 'process-terminated' ? status : await waitForEnd(pid)));
  process.exit(code ?? 0);
}

async function run(session, {file, command}) {
  let code = null;
  session.on('message', printMessage);
  session.on('warning', (text) => say(text));
  session.on('detached', (reason, status) => finish(session, command, reason, status, code));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => {
      code = 128 + os.constants.signals[signal];
      if (session.isDetached)
        process.exit(code);
      session.detach();
    });
  /* What the script prints gets nowhere any more: it ends. That nobody reads it is no failure. */
  const end = (error) => {
    if (error.code !== 'EPIPE' && !session.isDetached) {
      say(`what the script prints cannot be written: ${error.message}`);
      code = FAILED;
    }
    session.detach();
  };
  process.stdout.on('error', end);
  process.stderr.on('error', end);
  /* Timers and promises of the script: it goes on. */
  process.on('uncaughtException', (error) => session.messages.error(error));
  process.on('unhandledRejection', (error) => session.messages.error(error));
  dumpBuffers(session.api.hexdump);
  try {
    await runScript(session, file);
    await session.api.rpc.exports.init?.(command ? 'early' : 'late', {});
  } catch (error) {
    session.messages.error(error);
    code = FAILED;
    if (session.isStopped && !session.isDetached) {
      say(`${command[0]} has not been started`);
      process.kill(session.target.pid, 'SIGKILL');
    }
    session.detach();
    return;
  }
  if (command && !session.isDetached && session.isStopped)
    session.resume();
}

function main() {
  const options = parse(process.argv.slice(2));
  if (!options.file || (options.pid === null) === (options.command === null)) {
    say('main.js is run by `contrail script`');
    process.exit(USAGE);
  }
  if (options.file !== '-' && !fs.existsSync(options.file)) {
    say(`there is no script ${options.file}`);
    process.exit(FAILED);
  }
  run(open(options), options);
}

main();
