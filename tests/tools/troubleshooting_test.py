#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""troubleshooting_test.py ROOT: the messages of docs/TROUBLESHOOTING.md and docs/LIMITS.md are messages of the program,
word for word."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')


def literals():
    """Texts of the sources; neighbouring literals are one."""
    for path in sorted((ROOT / "src").rglob("*.c")) + sorted((ROOT / "include").rglob("*.h")):
        source = re.sub(r'(?m)^#include.*$', "", path.read_text())
        source = re.sub(r'\\\n', "\n", source)
        source = re.sub(r'" PRI[a-z]+\d+ "', "d", source)
        for match in LITERALS.finditer(source):
            yield re.sub(r'"\s*"', "", match.group())[1:-1].replace('\\"', '"')


def messages():
    for line in (ROOT / "docs/TROUBLESHOOTING.md").read_text().splitlines():
        if line.startswith("| `"):
            yield re.match(r"\| `([^`]*)`", line).group(1)


def sayings():
    for match in re.finditer(r"[Ii]t\s+says:\s+`([^`]*)`", (ROOT / "docs/LIMITS.md").read_text()):
        yield match.group(1)


class Troubleshooting(unittest.TestCase):
    def test_messages_are_the_programs(self):
        texts = list(literals())
        found = list(messages())
        self.assertGreater(len(found), 40)
        self.assertGreater(len(list(sayings())), 14)
        found += sayings()
        for message in found:
            if re.fullmatch(r"[A-Z_]+|epoll_wait", message):
                continue  # names, not sentences
            pattern = re.compile(".*?".join(map(re.escape, message.split("…"))))
            self.assertTrue(any(pattern.search(text) for text in texts), message)

    def test_reasons_of_losses(self):
        page = (ROOT / "docs/TROUBLESHOOTING.md").read_text()
        header = (ROOT / "include/contrail/event.h").read_text()
        names = re.findall(r"X\((\w+),", re.search(r"(?s)CT_LOSS_LIST\(X\).*?enum", header).group())
        for name in re.findall(r"`([A-Z]+_[A-Z]+)`", page):
            self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main()
