#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hardening_test.py [--fortified] FILE... ARCHIVE.a...: reads the ELF files that are installed and checks how they were
built (docs/TRUST.md, "Build"). The archives are their hosted parts: a file may have a guarded function from
elsewhere."""
import struct
import subprocess
import sys
import unittest

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO, PT_GNU_PROPERTY = 1, 2, 0x6474E551, 0x6474E552, 0x6474E553
(DT_NULL, DT_STRTAB, DT_SYMTAB, DT_TEXTREL, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1,
 DT_PLTGOT) = 0, 5, 6, 22, 24, 30, 0x6FFFFFFB, 3
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 4, 8, 1, 0x08000000
PF_X, PF_W = 1, 2
ET_DYN = 3
SHT_DYNSYM = 11
X86_FEATURE_1_AND, SHSTK = 0xC0000002, 2
FORTIFIED = False
FILES = []
ARCHIVES = []


class Elf:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        assert self.bytes[:6] == b"\x7fELF\x02\x01", path + " is no 64-bit ELF file"
        self.type, = struct.unpack_from("<H", self.bytes, 16)
        at, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        # type, flags, offset, address, physical address, size in the file, size in memory, alignment
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.bytes, at + i * size) for i in range(count)]

    def one(self, kind):
        found = [s for s in self.segments if s[0] == kind]
        return found[0] if found else None

    def dynamic(self):
        """Tag to value; of tags that are there more than once, one."""
        _, _, offset, _, _, size, _, _ = self.one(PT_DYNAMIC)
        pairs = [struct.unpack_from("<QQ", self.bytes, at) for at in range(offset, offset + size, 16)]
        return dict(pairs[:[tag for tag, _ in pairs].index(DT_NULL)])

    def imports(self):
        """Names of the undefined dynamic symbols."""
        at, = struct.unpack_from("<Q", self.bytes, 40)
        size, count = struct.unpack_from("<HH", self.bytes, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, at + i * size) for i in range(count)]
        symbols = next(s for s in sections if s[1] == SHT_DYNSYM)
        strings = sections[symbols[6]][4]
        names = set()
        for entry in range(symbols[4], symbols[4] + symbols[5], 24):
            name, _, _, section = struct.unpack_from("<IBBH", self.bytes, entry)
            if section == 0:
                names.add(self.bytes[strings + name:self.bytes.index(b"\0", strings + name)].decode())
        return names

    def features(self):
        """The x86 features that all code of the file is said to bear."""
        segment = self.one(PT_GNU_PROPERTY)
        at, end = (segment[2] + 16, segment[2] + segment[5]) if segment else (0, 0)
        while at + 8 <= end:
            kind, size = struct.unpack_from("<II", self.bytes, at)
            if kind == X86_FEATURE_1_AND:
                return struct.unpack_from("<I", self.bytes, at + 8)[0]
            at += 8 + (size + 7) // 8 * 8
        return 0


class Hardening(unittest.TestCase):
    @staticmethod
    def each():
        return [(path, Elf(path)) for path in FILES]

    def test_is_position_independent(self):
        for path, elf in self.each():
            self.assertEqual(elf.type, ET_DYN, path)
            if ".so" not in path:
                self.assertTrue(elf.dynamic().get(DT_FLAGS_1, 0) & DF_1_PIE, path)

    def test_all_is_bound_and_then_read_only(self):
        for path, elf in self.each():
            dynamic = elf.dynamic()
            self.assertTrue(DT_BIND_NOW in dynamic or dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or
                            dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW, path)
            relro = elf.one(PT_GNU_RELRO)
            self.assertIsNotNone(relro, path)
            table = dynamic.get(DT_PLTGOT)  # what lazy binding would have to write to
            if table:
                self.assertTrue(relro[3] <= table < relro[3] + relro[6], path)

    def test_nothing_is_writable_and_executable(self):
        for path, elf in self.each():
            for segment in elf.segments:
                self.assertFalse(segment[0] == PT_LOAD and segment[1] & PF_W and segment[1] & PF_X, path)
            stack = elf.one(PT_GNU_STACK)
            self.assertIsNotNone(stack, path)
            self.assertFalse(stack[1] & PF_X, path)
            self.assertNotIn(DT_TEXTREL, elf.dynamic(), path)
            self.assertFalse(elf.dynamic().get(DT_FLAGS, 0) & DF_TEXTREL, path)

    def test_stacks_are_guarded(self):
        for path, elf in self.each():
            self.assertIn("__stack_chk_fail", elf.imports(), path)
        for path in ARCHIVES:
            names = subprocess.run(["nm", "-u", path], capture_output=True, text=True, check=True).stdout.split()
            self.assertIn("__stack_chk_fail", names, path)

    def test_libc_checks_sizes(self):
        if not FORTIFIED:
            self.skipTest("not this build: it does not optimise, or has sanitizers")
        for path, elf in self.each():
            checked = {name for name in elf.imports() if name.endswith("_chk")}
            self.assertTrue({"__snprintf_chk", "__memcpy_chk"} & checked, path)

    def test_no_shadow_stack_is_promised(self):
        """Hooks change return addresses: a process that has them must not get a shadow stack of the processor."""
        for path, elf in self.each():
            self.assertFalse(elf.features() & SHSTK, path)


if __name__ == "__main__":
    FORTIFIED = "--fortified" in sys.argv
    FILES = [word for word in sys.argv[1:] if not word.startswith("--") and not word.endswith(".a")]
    ARCHIVES = [word for word in sys.argv[1:] if word.endswith(".a")]
    if not FILES:
        sys.exit("hardening_test.py takes the files to read")
    unittest.main(argv=sys.argv[:1])
