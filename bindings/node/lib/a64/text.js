/* SPDX-License-Identifier: Apache-2.0 */
/* The text of A64 instructions is the project's own (src/isa/a64/text.c); here it is taken apart. */
'use strict';

const {Int64} = require('../int64');

function operandOf(text) {
  if (text.startsWith('['))
    return {type: 'mem', value: {text}};
  const number = /^#?(-?(?:0x[0-9a-f]+|[0-9]+))$/i.exec(text);
  if (number) {
    const negative = number[1].startsWith('-');
    const value = BigInt(number[1].replace('-', ''));
    return {type: 'imm', value: new Int64(negative ? -value : value)};
  }
  return {type: /^(w|x|b|h|s|d|q|v|z|p)[0-9]|^w?sp$|^[wx]zr$/.test(text) ? 'reg' : 'other', value: text};
}

/* At commas that are not inside of brackets. */
function split(text) {
  const parts = [];
  let depth = 0, from = 0;
  for (let i = 0; i < text.length; i++) {
    if ('[{('.includes(text[i]))
      depth++;
    else if (']})'.includes(text[i]))
      depth--;
    else if (text[i] === ',' && depth === 0) {
      parts.push(text.slice(from, i).trim());
      from = i + 1;
    }
  }
  const last = text.slice(from).trim();
  return last ? [...parts, last] : parts;
}

function textOf(fields) {
  const space = fields.text.search(/\s/);
  const mnemonic = space < 0 ? fields.text : fields.text.slice(0, space);
  const opStr = space < 0 ? '' : fields.text.slice(space).trim();
  return {mnemonic, opStr, operands: split(opStr).map(operandOf)};
}

module.exports = {textOf, registerOf: (number) => number === 31 ? 'sp' : `x${number}`};
