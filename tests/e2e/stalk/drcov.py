# SPDX-License-Identifier: Apache-2.0
"""Reads coverage files in the format of drcov, version 2, from the format's description: text lines with the version,
the flavor and a table of modules whose columns are named, then the number of blocks and this many records of 8 bytes,
little-endian: offset of the block from the beginning of its module (4), its size (2), the module's id (2)."""
import re
import struct


class BadFile(Exception):
    pass


class Module:
    def __init__(self, fields):
        self.id = int(fields["id"])
        self.base, self.end = int(fields["base"], 16), int(fields["end"], 16)
        self.path = fields["path"]


def read(path):
    """(modules by id, [(module id, offset, size)])"""
    with open(path, "rb") as f:
        data = f.read()
    at = 0

    def line():
        nonlocal at
        end = data.index(b"\n", at)
        text, at = data[at:end].decode(), end + 1
        return text

    def expect(pattern):
        text = line()
        match = re.fullmatch(pattern, text)
        if not match:
            raise BadFile("%r is not %r" % (text, pattern))
        return match

    expect(r"DRCOV VERSION: 2")
    expect(r"DRCOV FLAVOR: \S+")
    count = int(expect(r"Module Table: version 2, count (\d+)").group(1))
    columns = expect(r"Columns: (.+)").group(1).split(", ")
    modules = {}
    for _ in range(count):
        values = [v.strip() for v in line().split(",", len(columns) - 1)]
        module = Module(dict(zip(columns, values)))
        if module.id in modules or module.end <= module.base:
            raise BadFile("module %d is there twice, or is empty" % module.id)
        modules[module.id] = module
    blocks = int(expect(r"BB Table: (\d+) bbs").group(1))
    if len(data) - at != 8 * blocks:
        raise BadFile("%d bytes for %d blocks" % (len(data) - at, blocks))
    found = [(module, offset, size) for offset, size, module in struct.iter_unpack("<IHH", data[at:])]
    for module, offset, size in found:
        if module not in modules or not size or offset + size > modules[module].end - modules[module].base:
            raise BadFile("block %#x of module %d is not in it" % (offset, module))
    return modules, found
