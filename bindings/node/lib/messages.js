/* SPDX-License-Identifier: Apache-2.0 */
/* send(), recv() and rpc.exports: messages between a script and the program that runs it. */
'use strict';

const {EventEmitter} = require('node:events');
const {bytesOf} = require('./hexdump');

/* The script's side is `api`, the program's side is the methods. Messages to the script wait until a recv() takes
 * them; those to the program are events 'message' of (message, data). */
class Messages extends EventEmitter {
  #waiting = []; /* {type, callback, done} */
  #queue = []; /* {message, data} */
  #rpc = {exports: {}};

  constructor() {
    super();
    const recv = (type, callback) => (typeof type === 'function' ? this.#recv('*', type) : this.#recv(type, callback));
    this.api = {
      send: (payload, data) => this.#emit({type: 'send', payload}, data),
      recv,
      rpc: this.#rpc,
    };
  }

  #emit(message, data) {
    const bytes = data === undefined || data === null ? null : Buffer.from(bytesOf(data));
    this.emit('message', JSON.parse(JSON.stringify(message, plain)), bytes);
  }

  /* An error of a script that nobody caught. */
  error(error) {
    this.emit('message', describe(error), null);
  }

  #recv(type, callback) {
    const entry = {type, callback, done: false};
    this.#waiting.push(entry);
    queueMicrotask(() => this.#deliver());
    return {
      wait: () => {
        this.#deliver();
        if (!entry.done)
          throw new Error('recv().wait() cannot wait: the script and the program that posts share one thread');
      },
    };
  }

  /* From the program to the script. */
  post(message, data = null) {
    this.#queue.push({message, data});
    queueMicrotask(() => this.#deliver());
  }

  #deliver() {
    for (let i = 0; i < this.#queue.length;) {
      const {message, data} = this.#queue[i];
      const at = this.#waiting.findIndex((w) => w.type === '*' || w.type === message?.type);
      if (at < 0) {
        i++;
        continue;
      }
      const [entry] = this.#waiting.splice(at, 1);
      this.#queue.splice(i, 1);
      entry.done = true;
      try {
        entry.callback(message, data);
      } catch (error) {
        this.error(error);
      }
    }
  }

  /* What rpc.exports offers, callable from the program; each answers with a promise. */
  get exports() {
    return new Proxy({}, {
      has: (_, name) => name in this.#rpc.exports,
      ownKeys: () => Object.keys(this.#rpc.exports),
      getOwnPropertyDescriptor: () => ({configurable: true, enumerable: true}),
      get: (_, name) => {
        const found = this.#rpc.exports[name];
        if (typeof name === 'symbol' || name === 'then' && !found)
          return undefined;
        return async (...args) => {
          if (typeof found !== 'function')
            throw new Error(`the script exports no function ${name}`);
          return found.apply(this.#rpc.exports, args);
        };
      },
    });
  }
}

function plain(_, value) {
  return typeof value === 'bigint' ? value.toString() : value;
}

/* A line of a stack that names a file: path, line, column. */
const PLACE = /(?:\(|at |\s)((?:file:\/\/)?\/[^()]*?):(\d+):(\d+)\)?$/;

/* That of a syntax error is the first line. */
const SYNTAX = /^((?:file:\/\/)?\/.*):(\d+)$/;

/* An error as a message: text, stack, file and line. */
function describe(error) {
  const stack = error instanceof Error || typeof error?.stack === 'string' ? error.stack : undefined;
  const lines = stack?.split('\n') ?? [];
  const place = SYNTAX.exec(lines[0]) ?? lines.slice(1).map((line) => PLACE.exec(line))
    .find((match) => match && !match[1].startsWith(__dirname));
  return {
    type: 'error',
    description: String(error),
    stack,
    fileName: place?.[1],
    lineNumber: place ? Number(place[2]) : undefined,
    columnNumber: place?.[3] ? Number(place[3]) : undefined,
  };
}

module.exports = {Messages, describe};
