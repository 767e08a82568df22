#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_sources.py finds what it is to find, and nothing else."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)
LICENCE = "SPDX-License-Identifier: Apache-2.0"


class CheckSources(unittest.TestCase):
    def check(self, name, text, *options):
        with tempfile.TemporaryDirectory(prefix="contrail-test-") as tree:
            path = os.path.join(tree, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            result = subprocess.run([sys.executable, SCRIPT, tree, *options], capture_output=True, text=True)
            with open(path, encoding="utf-8") as file:
                return result.returncode, result.stdout, file.read()

    def test_good(self):
        for name, text in (("src/a.c", "/* %s */\nint a;\n" % LICENCE), ("a.sh", "#!/bin/sh\n# %s\n" % LICENCE),
                           ("src/b.h", "/* %s */\n/* %s */\n" % (LICENCE, "ä" * 114)), ("note.txt", "x" * 200)):
            self.assertEqual(self.check(name, text)[:2], (0, ""), name)

    def test_no_licence(self):
        for name in ("src/a.c", "src/a.S", "tests/t.py", "scripts/s.sh", "meson.build", "Makefile"):
            code, said, _ = self.check(name, "\n\n\n# %s\n" % LICENCE)
            self.assertEqual((code, said), (1, "%s:1: there is no line \"%s\"\n" % (name, LICENCE)))

    def test_wide(self):
        code, said, _ = self.check("src/a.c", "/* %s */\n%s\n" % (LICENCE, "x" * 121))
        self.assertEqual((code, said), (1, "src/a.c:2: 121 columns, 120 are allowed\n"))

    def test_add(self):
        for name, before, after in (("src/a.c", "int a;\n", "/* %s */\nint a;\n" % LICENCE),
                                    ("a.sh", "#!/bin/sh\n:\n", "#!/bin/sh\n# %s\n:\n" % LICENCE)):
            self.assertEqual(self.check(name, before, "--add-licence"), (0, "", after))


if __name__ == "__main__":
    unittest.main()
