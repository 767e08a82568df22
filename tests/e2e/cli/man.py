#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""man.py CONTRAIL DIRECTORY: every command has a manual page there, man(1) has nothing to say against it, and it has
all that --help says."""

import os
import re
import subprocess
import sys
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))
PAGES = os.path.abspath(sys.argv.pop(1))


def ask(*words):
    return subprocess.run([CONTRAIL, *words], capture_output=True, text=True, check=True).stdout


def words(text):
    """Without layout."""
    return "".join(text.split())


class Pages(unittest.TestCase):
    commands = re.findall(r"(?m)^  (\S+) +(.*)", ask("--help"))

    def show(self, name):
        """As lintian asks man."""
        path = os.path.join(PAGES, name + ".1")
        env = dict(os.environ, LC_ALL="C.UTF-8", MANROFFSEQ="", MANWIDTH="200", MAN_KEEP_FORMATTING="")
        done = subprocess.run(["man", "--warnings", "--no-hyphenation", "-E", "UTF-8", "-l", path], capture_output=True,
                              text=True, env=env, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        return done.stdout

    def test_every_command_has_a_page(self):
        self.assertGreater(len(self.commands), 10)
        for name, summary in self.commands:
            with self.subTest(name):
                page = self.show(f"contrail-{name}")
                self.assertIn(f"contrail-{name} - {summary}", page)
                for title in ("SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"):
                    self.assertRegex(page, rf"(?m)^{title}$")
                self.assertRegex(page, r"(?m)^EXAMPLES?$")

    def test_pages_tell_all(self):
        for name, _ in self.commands:
            help_text, page = ask("help", name), words(self.show(f"contrail-{name}"))
            rest = help_text.split("\n\n", 1)[1]
            options = re.findall(r"(?m)^ {2,6}((?:-\w, )?--\S+(?: \S+)?)(?:\n| {2,})(.*(?:\n {30}.*)*)", rest)
            self.assertGreater(len(options), 0)
            for head, text in options:
                self.assertIn(words(head + text), page, name)
            rest = rest.replace("Options:", "")
            for line in rest.split("\n"):
                if not re.match(r"\S.*:$", line):
                    self.assertIn(words(line), page, name)

    def test_overview(self):
        page = self.show("contrail")
        for name, summary in self.commands:
            self.assertRegex(page, rf"contrail-{name}\(1\)\s+{re.escape(summary)}")
        self.assertNotIn("@", page)

    def test_no_others(self):
        there = sorted(name for name in os.listdir(PAGES) if name.endswith(".1"))
        self.assertEqual(there, sorted(["contrail.1"] + [f"contrail-{name}.1" for name, _ in self.commands]))


if __name__ == "__main__":
    unittest.main()
