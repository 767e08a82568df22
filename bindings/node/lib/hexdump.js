/* SPDX-License-Identifier: Apache-2.0 */
/* hexdump(): bytes of the target or of a buffer, as text. */
'use strict';

const WIDTH = 16;
const RESET = '\x1b[0m';

/* The bytes of any buffer that JavaScript has. */
function bytesOf(data) {
  if (data instanceof ArrayBuffer || data instanceof SharedArrayBuffer)
    return new Uint8Array(data);
  if (ArrayBuffer.isView(data))
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (Array.isArray(data))
    return Uint8Array.from(data);
  throw new TypeError('expected an ArrayBuffer, a typed array or an array of numbers');
}

function colour(byte) {
  return byte === 0 ? '\x1b[0;90m' : byte >= 0x20 && byte < 0x7f ? '\x1b[0;32m' : '\x1b[0;33m';
}

function painter(ansi) {
  return ansi ? (text, code) => `${code}${text}${RESET}` : (text) => text;
}

function header(digits, paint) {
  const columns = Array.from({length: WIDTH}, (_, i) => ' ' + i.toString(16).toUpperCase()).join(' ');
  const letters = Array.from({length: WIDTH}, (_, i) => i.toString(16).toUpperCase()).join('');
  return `${' '.repeat(digits)}  ${paint(columns, '\x1b[0;90m')}  ${paint(letters, '\x1b[0;90m')}`;
}

function line(bytes, at, address, digits, paint) {
  const hex = [], text = [];
  for (let i = at; i < at + WIDTH; i++) {
    const byte = bytes[i];
    hex.push(byte === undefined ? '  ' : paint(byte.toString(16).padStart(2, '0'), colour(byte)));
    if (byte !== undefined)
      text.push(paint(byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.', colour(byte)));
  }
  return `${address.toString(16).padStart(digits, '0')}  ${hex.join(' ')}  ${text.join('')}`;
}

/* `target` is a buffer, or something with readByteArray. */
function hexdump(target, options = {}) {
  const {offset = 0, header: withHeader = true, ansi = false} = options;
  const isPointer = target !== null && typeof target === 'object' && typeof target.readByteArray === 'function';
  let bytes, base;
  if (isPointer) {
    base = options.address === undefined ? target.toBigInt() : BigInt(options.address.toString());
    bytes = new Uint8Array(target.readByteArray(offset + (options.length ?? 256)));
  } else {
    bytes = bytesOf(target);
    base = options.address === undefined ? 0n : BigInt(options.address.toString());
    bytes = bytes.subarray(0, options.length === undefined ? bytes.length : offset + options.length);
  }
  const last = base + BigInt(Math.max(bytes.length - 1, 0));
  const digits = Math.max(8, last.toString(16).length);
  const paint = painter(ansi);
  const lines = withHeader ? [header(digits, paint)] : [];
  for (let at = offset; at < bytes.length; at += WIDTH)
    lines.push(line(bytes, at, base + BigInt(at), digits, paint));
  return lines.join('\n');
}

module.exports = {hexdump, bytesOf};
