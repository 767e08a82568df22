/* SPDX-License-Identifier: Apache-2.0 */
/* File and Checksum with the names that scripts know. Files are those of the machine that the script runs on, as with
 * node:fs. */
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const {bytesOf} = require('./hexdump');

const SET = 0, CURRENT = 1, END = 2;
const STEP = 4096;
const MODES = /^([rwa])(b|t)?(\+)?(b|t)?$/;

const dataOf = (data) => typeof data === 'string' ? Buffer.from(data) : bytesOf(data);
const bufferOf = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);

function textOf(bytes) {
  try {
    return new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes);
  } catch {
    throw new Error('the file holds no UTF-8 text');
  }
}

class File {
  static SEEK_SET = SET;
  static SEEK_CUR = CURRENT;
  static SEEK_END = END;
  #fd;
  #at = 0;
  #appends;

  constructor(path, mode) {
    const letters = MODES.exec(mode);
    if (typeof path !== 'string' || !letters)
      throw new TypeError('expected the name of a file, and a mode like "r", "w", "a" or "wb"');
    this.#fd = fs.openSync(path, letters[1] + (letters[3] ?? ''));
    this.#appends = letters[1] === 'a' || !fs.fstatSync(this.#fd).isFile(); /* a pipe has no places */
  }

  static readAllBytes(path) {
    return bufferOf(fs.readFileSync(path));
  }

  static readAllText(path) {
    return textOf(fs.readFileSync(path));
  }

  static writeAllBytes(path, bytes) {
    fs.writeFileSync(path, bytesOf(bytes));
  }

  static writeAllText(path, text) {
    fs.writeFileSync(path, String(text));
  }

  get #open() {
    if (this.#fd === null)
      throw new Error('the file is closed');
    return this.#fd;
  }

  #read(count) {
    const bytes = Buffer.alloc(count);
    const got = fs.readSync(this.#open, bytes, 0, count, this.#at);
    this.#at += got;
    return bytes.subarray(0, got);
  }

  #readAll(count) {
    const parts = [];
    for (let left = count; left > 0;) {
      const part = this.#read(Math.min(left, 1 << 20));
      if (!part.length)
        break;
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }

  tell() {
    return this.#at;
  }

  seek(offset, whence = SET) {
    const from = whence === END ? fs.fstatSync(this.#open).size : whence === CURRENT ? this.#at : 0;
    const at = from + Number(offset);
    if (!Number.isSafeInteger(at) || at < 0)
      throw new TypeError('there is no such place in the file');
    this.#at = at;
    return at;
  }

  readBytes(count = Infinity) {
    return bufferOf(this.#readAll(count));
  }

  readText(count = Infinity) {
    return textOf(this.#readAll(count));
  }

  /* With its line feed; '' at the end of the file. */
  readLine() {
    const start = this.#at, parts = [];
    for (;;) {
      const part = this.#read(STEP), end = part.indexOf(10);
      parts.push(end < 0 ? part : part.subarray(0, end + 1));
      if (end >= 0 || !part.length)
        break;
    }
    const line = Buffer.concat(parts);
    this.#at = start + line.length;
    return textOf(line);
  }

  write(data) {
    const bytes = dataOf(data);
    for (let done = 0; done < bytes.length;)
      done += fs.writeSync(this.#open, bytes, done, bytes.length - done, this.#appends ? null : this.#at + done);
    this.#at = this.#appends ? fs.fstatSync(this.#fd).size : this.#at + bytes.length;
  }

  flush() {}

  close() {
    if (this.#fd !== null)
      fs.closeSync(this.#fd);
    this.#fd = null;
  }
}

const TYPES = ['md5', 'sha1', 'sha256', 'sha384', 'sha512'];

class Checksum {
  #type;
  #hash;
  #digest = null;

  constructor(type) {
    if (!TYPES.includes(type))
      throw new TypeError(`there is no checksum "${String(type)}": ${TYPES.join(', ')}`);
    this.#type = type;
    this.#hash = crypto.createHash(type);
  }

  static compute(type, data) {
    return new Checksum(type).update(data).getString();
  }

  update(data) {
    if (this.#digest)
      throw new Error('the checksum is computed already: make a new one');
    this.#hash.update(dataOf(data));
    return this;
  }

  copy() {
    const copy = new Checksum(this.#type);
    copy.#hash = this.#digest ? this.#hash : this.#hash.copy();
    copy.#digest = this.#digest;
    return copy;
  }

  #peek() {
    return this.#digest ?? this.#hash.copy().digest();
  }

  #get() {
    this.#digest ??= this.#hash.digest();
    return this.#digest;
  }

  getString() {
    return this.#get().toString('hex');
  }

  peekString() {
    return this.#peek().toString('hex');
  }

  getDigest() {
    return bufferOf(this.#get());
  }

  peekDigest() {
    return bufferOf(this.#peek());
  }
}

module.exports = {File, Checksum};
