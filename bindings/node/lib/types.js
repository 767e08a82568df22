/* SPDX-License-Identifier: Apache-2.0 */
/* Types of native functions: "int", "pointer", ["int", "double"] (a structure by value) ... and their values as
 * bytes. */
'use strict';

const {toBigInt, Int64, UInt64} = require('./int64');

const LITTLE = true;

function integer(size, signed) {
  const bits = size * 8;
  const cut = signed ? (x) => BigInt.asIntN(bits, x) : (x) => BigInt.asUintN(bits, x);
  return {
    kind: 'integer', size, signed,
    put: (view, at, value) => putWord(view, at, size, cut(toBigInt(value === true ? 1 : value === false ? 0 : value))),
    get: (view, at) => {
      const word = cut(getWord(view, at, size));
      return size < 8 ? Number(word) : signed ? new Int64(word) : new UInt64(word);
    },
  };
}

function putWord(view, at, size, value) {
  for (let i = 0; i < size; i++)
    view.setUint8(at + i, Number(value >> BigInt(8 * i) & 0xffn));
}

function getWord(view, at, size) {
  let value = 0n;
  for (let i = size - 1; i >= 0; i--)
    value = value << 8n | BigInt(view.getUint8(at + i));
  return value;
}

const REALS = {
  float: {
    kind: 'real', size: 4,
    put: (view, at, value) => view.setFloat32(at, Number(value), LITTLE),
    get: (view, at) => view.getFloat32(at, LITTLE),
  },
  double: {
    kind: 'real', size: 8,
    put: (view, at, value) => view.setFloat64(at, Number(value), LITTLE),
    get: (view, at) => view.getFloat64(at, LITTLE),
  },
};

const SCALARS = {
  void: {kind: 'void', size: 0},
  bool: {
    kind: 'integer', size: 1, signed: false,
    put: (view, at, value) => view.setUint8(at, value ? 1 : 0),
    get: (view, at) => view.getUint8(at) !== 0,
  },
  char: integer(1, true), uchar: integer(1, false), int8: integer(1, true), uint8: integer(1, false),
  short: integer(2, true), ushort: integer(2, false), int16: integer(2, true), uint16: integer(2, false),
  int: integer(4, true), uint: integer(4, false), int32: integer(4, true), uint32: integer(4, false),
  long: integer(8, true), ulong: integer(8, false), int64: integer(8, true), uint64: integer(8, false),
  ssize_t: integer(8, true), size_t: integer(8, false), 'unsigned char': integer(1, false),
  'unsigned int': integer(4, false), 'unsigned long': integer(8, false),
  ...REALS,
};

/* What a script may pass as a pointer: null too. */
function pointerOf(value) {
  return value === null ? 0n : BigInt.asUintN(64, toBigInt(value, 'a pointer'));
}

function pointerType(NativePointer) {
  return {
    kind: 'integer', size: 8, signed: false,
    put: (view, at, value) => putWord(view, at, 8, pointerOf(value)),
    get: (view, at) => new NativePointer(getWord(view, at, 8)),
  };
}

function roundUp(value, alignment) {
  return Math.ceil(value / alignment) * alignment;
}

/* A structure: its scalars with their offsets, and how it is made of an array of values. */
function structure(members) {
  let size = 0, alignment = 1;
  const placed = members.map((type) => {
    const own = type.alignment ?? type.size;
    const offset = roundUp(size, own);
    size = offset + type.size;
    alignment = Math.max(alignment, own);
    return {type, offset};
  });
  const fields = placed.flatMap(({type, offset}) => type.fields
    ? type.fields.map((inner) => ({type: inner.type, offset: offset + inner.offset}))
    : [{type, offset}]);
  return {
    kind: 'structure', size: roundUp(size, alignment), alignment, fields,
    put(view, at, values) {
      if (!Array.isArray(values) || values.length !== placed.length)
        throw new TypeError(`expected an array of ${placed.length} values for a structure`);
      placed.forEach(({type, offset}, i) => type.put(view, at + offset, values[i]));
    },
    get: (view, at) => placed.map(({type, offset}) => type.get(view, at + offset)),
  };
}

/* A type as a script names it. */
function parseType(name, NativePointer) {
  if (Array.isArray(name)) {
    if (!name.length)
      throw new TypeError('a structure has at least one member');
    return structure(name.map((member) => parseMember(member, NativePointer)));
  }
  if (name === 'pointer')
    return pointerType(NativePointer);
  if (typeof name === 'string' && Object.hasOwn(SCALARS, name))
    return SCALARS[name];
  throw new TypeError(`there is no type ${typeof name === 'string' ? `"${name}"` : String(name)}`);
}

function parseMember(name, NativePointer) {
  const type = parseType(name, NativePointer);
  if (type.kind === 'void')
    throw new TypeError('only a function can be of type "void"');
  return type;
}

module.exports = {parseType, parseMember, pointerOf};
