/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the Stalker: batches as the target has written them, and what a script makes of them.
 *
 * A batch stays one ArrayBuffer until somebody asks for its events; Stalker.parse makes an array for each. */
'use strict';

const KINDS = {call: 0x01, ret: 0x02, exec: 0x04, block: 0x08, compile: 0x10};
const NAMES = new Map(Object.entries(KINDS).map(([name, bit]) => [bit, name]));
const EVENT_SIZE = 32, COUNT_SIZE = 16;
/* Places of struct ct_script_event in words of 64 bits. */
const LOCATION = 1, TARGET = 2;

/* The bits of {call: true, ret: false, ...}. */
function maskOf(events = {}) {
  let mask = 0;
  for (const [name, wanted] of Object.entries(events)) {
    if (!Object.hasOwn(KINDS, name))
      throw new TypeError(`there is no event "${name}"`);
    if (wanted)
      mask |= KINDS[name];
  }
  return mask;
}

/* [kind, location, target, depth] of calls and returns, [kind, location] of instructions, [kind, start, end] of blocks;
 * without the kind when `annotate` is false; addresses as text when `stringify` is true. */
function parseEvents(data, {annotate = true, stringify = false} = {}, toPointer) {
  if (!(data instanceof ArrayBuffer) || data.byteLength % EVENT_SIZE)
    throw new TypeError('expected events as onReceive gets them');
  const words = new BigUint64Array(data), halves = new Int32Array(data);
  const address = stringify ? (value) => '0x' + value.toString(16) : toPointer;
  const out = new Array(data.byteLength / EVENT_SIZE);
  for (let i = 0; i < out.length; i++) {
    const kind = NAMES.get(halves[8 * i]) ?? 'unknown';
    const event = annotate ? [kind] : [];
    event.push(address(words[4 * i + LOCATION]));
    if (kind !== 'exec')
      event.push(address(words[4 * i + TARGET]));
    if (kind === 'call' || kind === 'ret')
      event.push(halves[8 * i + 1]);
    out[i] = event;
  }
  return out;
}

/* {"0x...": how often it was called} */
function parseSummary(data) {
  if (data.byteLength % COUNT_SIZE)
    throw new TypeError('expected counts of calls');
  const words = new BigUint64Array(data);
  const out = {};
  for (let i = 0; i < words.length; i += 2) {
    const target = '0x' + words[i].toString(16);
    out[target] = (out[target] ?? 0) + Number(words[i + 1]);
  }
  return out;
}

/* How often each target is called in a batch of events. */
function summarize(data) {
  const words = new BigUint64Array(data), halves = new Int32Array(data);
  const counts = new Map();
  for (let i = 0; i < data.byteLength / EVENT_SIZE; i++)
    if (halves[8 * i] === KINDS.call)
      counts.set(words[4 * i + TARGET], (counts.get(words[4 * i + TARGET]) ?? 0) + 1);
  return Object.fromEntries(Array.from(counts, ([target, count]) => ['0x' + target.toString(16), count]));
}

module.exports = {KINDS, EVENT_SIZE, maskOf, parseEvents, parseSummary, summarize};
