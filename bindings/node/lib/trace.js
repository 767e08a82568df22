/* SPDX-License-Identifier: Apache-2.0 */
/* Trace: recorded calls, read with the same functions as `contrail query`. */
'use strict';

const {addon} = require('./addon');

const BATCH = 2048;

/* Rows of a statement as objects, in batches that Node's threads read. */
async function* rowsOf(path, sql, batch = BATCH) {
  const native = addon();
  const {question, columns} = native.traceAsk(path, sql);
  try {
    for (;;) {
      const rows = await native.traceNext(question, batch);
      for (const row of rows)
        yield Object.fromEntries(columns.map((name, i) => [name, row[i]]));
      if (rows.length < batch)
        return;
    }
  } finally {
    native.traceClose(question);
  }
}

/* A condition on a column: a value, or {from, to} (both included). */
function conditions(where) {
  const parts = [];
  for (const [name, wanted] of Object.entries(where)) {
    if (!/^[a-z_]+$/.test(name))
      throw new TypeError(`there is no column "${name}"`);
    if (wanted !== null && typeof wanted === 'object') {
      if (wanted.from !== undefined)
        parts.push(`${name} >= ${literal(wanted.from)}`);
      if (wanted.to !== undefined)
        parts.push(`${name} <= ${literal(wanted.to)}`);
    } else {
      parts.push(typeof wanted === 'string' && /[*?[]/.test(wanted) ? `${name} GLOB ${literal(wanted)}`
        : `${name} = ${literal(wanted)}`);
    }
  }
  return parts.length ? ` WHERE ${parts.join(' AND ')}` : '';
}

function literal(value) {
  if (typeof value === 'number' && Number.isFinite(value) || typeof value === 'bigint')
    return String(value);
  if (typeof value === 'string')
    return `'${value.replace(/'/g, '\'\'')}'`;
  throw new TypeError('a condition is a number or a text');
}

class Trace {
  #path;

  /* Without a path: the newest trace in ./traces. */
  constructor(path = null) {
    const opened = addon().traceAsk(path, 'SELECT 1');
    addon().traceClose(opened.question);
    this.#path = opened.path;
  }

  get path() {
    return this.#path;
  }

  /* Calls in the order of their ends, thread by thread: for await (const call of trace.calls({function: 'open*'})) */
  calls(where = {}) {
    return rowsOf(this.#path, 'SELECT * FROM calls' + conditions(where));
  }

  [Symbol.asyncIterator]() {
    return this.calls();
  }

  async #all(sql) {
    const rows = [];
    for await (const row of rowsOf(this.#path, sql))
      rows.push(row);
    return rows;
  }

  /* Functions with their counts and times, most time first. */
  functions(where = {}) {
    return this.#all(`SELECT * FROM functions${conditions(where)} ORDER BY self DESC`);
  }

  threads() {
    return this.#all('SELECT * FROM threads');
  }

  processes() {
    return this.#all('SELECT * FROM processes');
  }

  /* Any question in SQL, as `contrail query` answers it. */
  query(sql) {
    return this.#all(sql);
  }

  /* The same without keeping all rows. */
  rows(sql) {
    return rowsOf(this.#path, sql);
  }
}

module.exports = {Trace};
