/* SPDX-License-Identifier: Apache-2.0 */
/* Calling conventions: where arguments and results of native functions are, on x86_64 (System V) and arm64 (AAPCS64).
 *
 * A value is made of parts of at most 8 bytes; each part is in a general register, in a vector register or on the
 * stack. The same places serve for calling (NativeFunction) and for being called (NativeCallback). */
'use strict';

const {parseType, parseMember} = require('./types');

const REGISTERS = {x64: {general: 6, vector: 8}, arm64: {general: 8, vector: 8}};
const WORD = 8;
const ADDRESS = {kind: 'address', offset: 0, size: WORD, vector: false}; /* of a large structure */

/* Parts of a value: {offset, size, vector}. */
function partsOf(type, arch) {
  if (type.kind !== 'structure')
    return [{offset: 0, size: type.size, vector: type.kind === 'real'}];
  if (arch === 'arm64')
    return realsOnly(type) ?? wordsOf(type).map((word) => ({...word, vector: false}));
  return wordsOf(type).map((word) => ({
    ...word,
    vector: type.fields.filter(({offset}) => Math.floor(offset / WORD) * WORD === word.offset)
      .every((field) => field.type.kind === 'real'),
  }));
}

function wordsOf(type) {
  const words = [];
  for (let offset = 0; offset < type.size; offset += WORD)
    words.push({offset, size: Math.min(WORD, type.size - offset)});
  return words;
}

/* arm64: up to four floating-point numbers of one size have a register each. */
function realsOnly(type) {
  const [first] = type.fields;
  const alike = type.fields.length <= 4 && first.type.kind === 'real' &&
    type.fields.every((field) => field.type.kind === 'real' && field.type.size === first.type.size);
  return alike ? type.fields.map(({offset, type: {size}}) => ({offset, size, vector: true})) : null;
}

/* Structures that are in memory. As arguments x86_64 has them on the stack; arm64 passes the address of a copy. Who
 * wants one as a result says where it goes. */
function isLarge(type, arch) {
  return type.kind === 'structure' && type.size > 2 * WORD && !(arch === 'arm64' && realsOnly(type));
}

class Places {
  general = 0;
  vector = 0;
  stack = 0;

  constructor(arch) {
    this.arch = arch;
    this.limits = REGISTERS[arch];
  }

  #onStack(parts) {
    return parts.map((part) => ({...part, where: 'stack', index: this.stack++}));
  }

  next(type) {
    if (!isLarge(type, this.arch))
      return this.#inRegisters(partsOf(type, this.arch), type);
    return this.arch === 'arm64' ? this.#inRegisters([{...ADDRESS}], ADDRESS) : this.#onStack(wordsOf(type));
  }

  #inRegisters(parts, type) {
    const vectors = parts.filter((part) => part.vector).length;
    const generals = parts.length - vectors;
    if (this.general + generals > this.limits.general || this.vector + vectors > this.limits.vector) {
      if (this.arch === 'arm64') { /* no later argument uses what is left */
        this.general = generals ? this.limits.general : this.general;
        this.vector = vectors ? this.limits.vector : this.vector;
      }
      return this.#onStack(type.kind === 'structure' ? wordsOf(type) : parts);
    }
    return parts.map((part) => part.vector
      ? {...part, where: 'vector', index: this.vector++}
      : {...part, where: 'general', index: this.general++});
  }
}

/* Parts of a result, each in the next result register of its kind. */
function placesOfResult(type, arch) {
  if (type.kind === 'void' || isLarge(type, arch))
    return [];
  let general = 0, vector = 0;
  return partsOf(type, arch).map((part) => part.vector
    ? {...part, where: 'vector', index: vector++}
    : {...part, where: 'general', index: general++});
}

/* Writes a value into {general, vector, stack}, arrays of 64-bit words. */
function scatter(type, places, value, words) {
  const view = new DataView(new ArrayBuffer(Math.ceil(Math.max(type.size, WORD) / WORD) * WORD + WORD));
  type.put(view, 0, value);
  for (const {where, index, offset, size} of places) {
    let word = view.getBigUint64(offset, true);
    if (size < WORD)
      word = type.kind === 'integer' && type.signed ? BigInt.asUintN(64, BigInt.asIntN(size * 8, word))
        : BigInt.asUintN(size * 8, word);
    words[where][index] = word;
  }
}

/* Reads one with word(where, index). */
function gather(type, places, word) {
  const view = new DataView(new ArrayBuffer(Math.ceil(Math.max(type.size, WORD) / WORD) * WORD + WORD));
  for (const {where, index, offset, size} of places) {
    const value = BigInt.asUintN(64, word(where, index));
    for (let i = 0; i < size; i++)
      view.setUint8(offset + i, Number(value >> BigInt(8 * i) & 0xffn));
  }
  return type.get(view, 0);
}

function bytesOf(type, value) {
  const bytes = Buffer.alloc(type.size);
  type.put(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0, value);
  return bytes;
}

function valueOf(type, bytes) {
  return type.get(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0);
}

/* What comes after "..." is passed as C promotes it. */
function promoted(name) {
  return name === 'float' ? 'double' : name;
}

class Signature {
  constructor(arch, result, names, NativePointer) {
    if (!Array.isArray(names))
      throw new TypeError('expected an array of argument types');
    if (!REGISTERS[arch])
      throw new Error(`functions of ${arch} cannot be called`);
    const dots = names.indexOf('...');
    const all = dots < 0 ? names : [...names.slice(0, dots), ...names.slice(dots + 1).map(promoted)];
    this.isVariadic = dots >= 0;
    this.result = parseType(result, NativePointer);
    this.types = all.map((name) => parseMember(name, NativePointer));
    const places = new Places(arch);
    this.hasPlace = isLarge(this.result, arch);
    this.placeIsArgument = this.hasPlace && arch === 'x64';
    places.general += this.placeIsArgument ? 1 : 0;
    this.places = this.types.map((type) => places.next(type));
    this.counts = {general: places.general, vector: places.vector, stack: places.stack};
    this.resultPlaces = placesOfResult(this.result, arch);
  }

  /* Of a call: words for registers and stack; `place` is where a large result goes. copy(bytes): the address of a copy
   * in the target, which stays until the call is over. */
  putArguments(values, copy) {
    if (values.length !== this.types.length)
      throw new TypeError(`expected ${this.types.length} arguments, not ${values.length}`);
    const words = {
      general: new Array(this.counts.general).fill(0n),
      vector: new Array(this.counts.vector).fill(0n),
      stack: new Array(this.counts.stack).fill(0n),
      place: this.hasPlace ? copy(Buffer.alloc(this.result.size)) : 0n,
    };
    if (this.placeIsArgument)
      words.general[0] = words.place;
    this.types.forEach((type, i) => {
      const [{kind, where, index}] = this.places[i];
      if (kind === ADDRESS.kind)
        words[where][index] = copy(bytesOf(type, values[i]));
      else
        scatter(type, this.places[i], values[i], words);
    });
    return words;
  }

  /* read(address, size): bytes of the target. */
  getArguments(word, read) {
    return this.types.map((type, i) => {
      const [{kind, where, index}] = this.places[i];
      return kind === ADDRESS.kind ? valueOf(type, read(word(where, index), type.size))
        : gather(type, this.places[i], word);
    });
  }

  getResult(word, place, read) {
    if (this.hasPlace)
      return valueOf(this.result, read(place, this.result.size));
    return this.result.kind === 'void' ? undefined : gather(this.result, this.resultPlaces, word);
  }

  /* write(address, bytes): into the target. */
  putResult(value, place, write) {
    const words = {general: this.placeIsArgument ? [place] : [], vector: [], stack: []};
    if (this.hasPlace)
      write(place, bytesOf(this.result, value));
    else if (this.result.kind !== 'void')
      scatter(this.result, this.resultPlaces, value ?? 0, words);
    return words;
  }
}

module.exports = {Signature};
