#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names.py CONTRAIL PROGRAM: the same names everywhere: in report, in modules and in exports, demangled or as the
symbol tables have them, and for a stripped program module+0xoffset."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import driver
from driver import run

CONTRAIL = driver.PROGRAM = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.abspath(sys.argv.pop(1))
SHOWN = {"main", "shop::basket::add(int)", "int shop::twice<int>(int)", "double shop::twice<double>(double)"}
MANGLED = {"main", "_ZN4shop6basket3addEi", "_ZN4shop5twiceIiEET_S1_", "_ZN4shop5twiceIdEET_S1_"}


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp()
        shutil.copy(PROGRAM, os.path.join(cls.dir, "plain"))
        subprocess.run(["strip", "-o", os.path.join(cls.dir, "bare"), PROGRAM], check=True)
        for name in ("plain", "bare"):
            done = run("spawn", "--output", os.path.join(cls.dir, "traces-" + name), os.path.join(cls.dir, name),
                       stdin=subprocess.DEVNULL)
            assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def trace(self, name):
        root = os.path.join(self.dir, "traces-" + name)
        return os.path.join(root, os.listdir(root)[0])

    def ask(self, *words):
        done = run(*words, cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def report(self, name, *options):
        rows = json.loads(self.ask("report", "--json", "--limit", "0", "--module", name, *options,
                                   self.trace(name)))["functions"]
        return {row["name"] for row in rows}

    def modules(self, name, *options):
        """Names as text and in JSON, which must agree; and as the symbol table has them."""
        with subprocess.Popen([os.path.join(self.dir, name)], stdin=subprocess.PIPE) as process:
            words = ("modules", str(process.pid), "--functions", "--module", name, *options)
            text, rows = self.ask(*words), json.loads(self.ask(*words, "--json"))["functions"]
            process.stdin.close()
        names = {row["name"] for row in rows}
        self.assertEqual(names, set(re.findall(rf"(?m)^0x[0-9a-f]{{16}} +\d+  (.*)  {name}$", text)))
        return names, {row["linkage_name"] for row in rows}

    def exported(self, name, *options):
        stacks = self.ask("export", "--format", "folded", "--weight", "calls", "--output", "-", *options,
                          self.trace(name))
        return {frame for line in stacks.splitlines() for frame in line.rsplit(" ", 1)[0].split(";")}

    def test_shown(self):
        self.assertLessEqual(SHOWN, self.report("plain"))
        names, linkage = self.modules("plain")
        self.assertLessEqual(self.report("plain"), names)
        self.assertLessEqual(SHOWN, names)
        self.assertLessEqual(MANGLED, linkage)
        self.assertLessEqual(SHOWN, self.exported("plain"))
        self.assertFalse(MANGLED - {"main"} & self.exported("plain"))

    def test_mangled(self):
        for names in (self.report("plain", "--mangled"), self.modules("plain", "--mangled")[0],
                      self.exported("plain", "--mangled")):
            self.assertLessEqual(MANGLED, names)
            self.assertFalse((SHOWN - {"main"}) & names)

    def test_nameless(self):
        reported, (names, _) = self.report("bare"), self.modules("bare")
        self.assertGreater(len([name for name in reported if re.fullmatch(r"bare\+0x[0-9a-f]+", name)]), 3)
        self.assertLessEqual(reported, names)
        self.assertLessEqual(reported, self.exported("bare"))


if __name__ == "__main__":
    unittest.main()
