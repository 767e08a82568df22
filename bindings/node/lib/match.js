/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: globs of names, and bytes with wildcards. */
'use strict';

/* A glob (* and ?) as a regular expression over whole names. */
function globToRegExp(glob, ignoreCase = false) {
  const text = glob.replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*/g, '.*').replace(/\?/g, '.');
  return new RegExp(`^${text}$`, ignoreCase ? 'is' : 's');
}

/* Matches of a regular expression are taken to be no longer than this. */
const LONGEST_TEXT = 4096;

/* "13 37 ?? ff", "1? 3?", "13 37 : 1f ff" (a mask): {bytes, mask}. "/some\\s*text/": {text}, a regular expression over
 * bytes as characters. `span`: how long a match can be. */
function parsePattern(pattern) {
  if (pattern instanceof MatchPattern)
    return pattern.parsed;
  if (typeof pattern !== 'string')
    throw new TypeError('expected a pattern like "13 37 ?? ff"');
  const expression = /^\/(.+)\/$/s.exec(pattern.trim());
  if (expression)
    return {text: new RegExp(expression[1], 'gs'), span: LONGEST_TEXT};
  const [wanted, masked] = pattern.split(':').map((part) => part.trim().replace(/\s+/g, ''));
  if (!/^([0-9a-f?]{2})+$/i.test(wanted) || (masked !== undefined && !/^([0-9a-f]{2})+$/i.test(masked)))
    throw new Error(`"${pattern}" is no pattern: pairs of hexadecimal digits or ?`);
  if (masked !== undefined && masked.length !== wanted.length)
    throw new Error(`"${pattern}" is no pattern: the mask has another length`);
  const bytes = [], mask = [];
  for (let i = 0; i < wanted.length; i += 2) {
    const pair = wanted.slice(i, i + 2);
    const own = (pair[0] === '?' ? 0 : 0xf0) | (pair[1] === '?' ? 0 : 0x0f);
    mask.push(masked === undefined ? own : own & parseInt(masked.slice(i, i + 2), 16));
    bytes.push(parseInt(pair.replace(/\?/g, '0'), 16) & mask.at(-1));
  }
  return {bytes: Buffer.from(bytes), mask: Buffer.from(mask), span: bytes.length};
}

/* A pattern that is read once, for many scans. */
class MatchPattern {
  #parsed;

  constructor(pattern) {
    this.#parsed = parsePattern(pattern);
  }

  get parsed() {
    return this.#parsed;
  }
}

/* [offset, size] of all matches in `data`; those of bytes may overlap. */
function* findPattern(data, pattern) {
  if (pattern.text)
    for (const match of data.toString('latin1').matchAll(pattern.text))
      yield [match.index, match[0].length];
  else
    for (const at of findBytes(data, pattern))
      yield [at, pattern.bytes.length];
}

function* findBytes(data, {bytes, mask}) {
  const exact = mask.indexOf(0xff); /* a byte that is wholly known can be searched for quickly */
  const last = data.length - bytes.length;
  for (let at = 0; at <= last; at++) {
    if (exact >= 0) {
      const found = data.indexOf(bytes[exact], at + exact);
      if (found < 0 || found - exact > last)
        return;
      at = found - exact;
    }
    let i = 0;
    while (i < bytes.length && (data[at + i] & mask[i]) === bytes[i])
      i++;
    if (i === bytes.length)
      yield at;
  }
}

module.exports = {globToRegExp, parsePattern, findPattern, MatchPattern};
