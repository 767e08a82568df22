/* SPDX-License-Identifier: Apache-2.0 */
/* What `contrail script` runs in Node: main.js [--addon FILE] [--program FILE] [--timeout MS] FILE
 * (--pid PID | -- PROG ARGS).
 *
 * The script keeps running while its process does. Exit status: that of a program that was started, as a shell reports
 * it; 1 when the script has failed; 69 when the process cannot be scripted. */
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const {Session} = require('./session');
const {runScript} = require('./runner');
const {setPlace} = require('./addon');
const {setProgram} = require('./record');

const UNAVAILABLE = 69, PERMISSION = 77, USAGE = 64, FAILED = 1;

function parse(words) {
  const out = {timeout: 1000, pid: null, command: null, file: null};
  for (let i = 0; i < words.length; i++) {
    if (words[i] === '--timeout')
      out.timeout = Number(words[++i]);
    else if (words[i] === '--addon')
      setPlace(words[++i]);
    else if (words[i] === '--program')
      setProgram(words[++i]);
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

function say(text) {
  process.stderr.write(`contrail: ${text}\n`);
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

function open({pid, command, timeout}) {
  try {
    return pid === null ? Session.spawn(command, {timeout}) : Session.attach(pid, {timeout});
  } catch (error) {
    say(error.message);
    process.exit(error.code === 'ERR_PERMISSION_DENIED' ? PERMISSION : UNAVAILABLE);
  }
}

async function main() {
  const options = parse(process.argv.slice(2));
  if (!options.file || (options.pid === null) === (options.command === null)) {
    say('main.js is run by `contrail script`');
    process.exit(USAGE);
  }
  if (!fs.existsSync(options.file)) {
    say(`there is no script ${options.file}`);
    process.exit(FAILED);
  }
  const session = open(options);
  let code = 0;
  session.on('message', printMessage);
  session.on('warning', (text) => say(text));
  session.on('detached', (reason, status) => {
    if (reason === 'recording-ended')
      say('the recording has ended, and the script beside it with it; the process runs on');
    if (reason === 'process-terminated' && options.command)
      code = exitCode(status);
    process.exit(code);
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => {
      code = 128 + os.constants.signals[signal];
      session.detach();
    });
  const fail = (error) => {
    session.messages.error(error);
    code = FAILED;
    session.detach();
  };
  /* Timers and promises of the script: it goes on. */
  process.on('uncaughtException', (error) => session.messages.error(error));
  process.on('unhandledRejection', (error) => session.messages.error(error));
  try {
    await runScript(session, options.file);
  } catch (error) {
    fail(error);
    return;
  }
  if (options.command && !session.isDetached)
    session.resume();
}

main();
