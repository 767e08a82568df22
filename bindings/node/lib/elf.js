/* SPDX-License-Identifier: Apache-2.0 */
/* Sections and dependencies of a module, from its file as the target sees it. The file is not believed: what does not
 * fit is left out. */
'use strict';

const fs = require('node:fs');

const MOST_BYTES = 1 << 30, MOST = 1 << 16;
const ALLOC = 2, DYNAMIC = 6, NEEDED = 1n;

function readFile(pid, file) {
  const fd = fs.openSync(`/proc/${pid}/root${file}`, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    const status = fs.fstatSync(fd);
    if (!status.isFile() || status.size > MOST_BYTES)
      throw new Error('it is no file of a module');
    return fs.readFileSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

const word = (bytes, at) => Number(bytes.readBigUInt64LE(at));

function textAt(bytes, at) {
  const end = bytes.indexOf(0, at);
  return at < 0 || at >= bytes.length || end < 0 ? '' : bytes.toString('utf8', at, end);
}

/* [{name, type, flags, address, offset, size, link}] */
function sectionsOf(bytes) {
  const start = word(bytes, 0x28), each = bytes.readUInt16LE(0x3a), names = bytes.readUInt16LE(0x3e);
  const out = [];
  for (let i = 0; i < Math.min(bytes.readUInt16LE(0x3c), MOST); i++) {
    const at = start + each * i;
    if (each < 64 || at + 64 > bytes.length)
      return [];
    out.push({
      nameAt: bytes.readUInt32LE(at), type: bytes.readUInt32LE(at + 4), flags: word(bytes, at + 8),
      address: bytes.readBigUInt64LE(at + 16), offset: word(bytes, at + 24), size: word(bytes, at + 32),
      link: bytes.readUInt32LE(at + 40),
    });
  }
  for (const section of out)
    section.name = textAt(bytes, (out[names]?.offset ?? -1) + section.nameAt);
  return out;
}

function neededOf(bytes, sections) {
  const out = [];
  for (const dynamic of sections.filter(({type}) => type === DYNAMIC))
    for (let at = dynamic.offset; at + 16 <= Math.min(dynamic.offset + dynamic.size, bytes.length); at += 16)
      if (bytes.readBigUInt64LE(at) === NEEDED)
        out.push(textAt(bytes, (sections[dynamic.link]?.offset ?? -1) + word(bytes, at + 8)));
  return out.filter(Boolean);
}

/* {sections, needed} of a file; throws with a sentence. */
function readElf(pid, file) {
  try {
    const bytes = readFile(pid, file);
    if (bytes.length < 64 || bytes.readUInt32BE(0) !== 0x7f454c46 || bytes[4] !== 2 || bytes[5] !== 1)
      throw new Error('it is no ELF file');
    const sections = sectionsOf(bytes);
    return {sections: sections.map((section, id) => ({id, ...section})).filter(({flags}) => flags & ALLOC),
      needed: neededOf(bytes, sections)};
  } catch (error) {
    throw new Error(`the file ${file} of the process cannot be read: ${error.message}`);
  }
}

module.exports = {readElf};
