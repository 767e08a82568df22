#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""documents_test.py ROOT: links and names of files in the documents lead somewhere, and lines keep to 120 columns."""

import fnmatch
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
DOCUMENTS = sorted(p for pattern in ("*.md", "docs/*.md", "tests/**/*.md") for p in ROOT.glob(pattern))
COLUMNS = 120
FOLDERS = ("abi", "debian", "docs", "examples", "include", "scripts", "src", "tests")
LAYERS = tuple(p.name for p in (ROOT / "src").iterdir() if p.is_dir())  # paths may begin there


def prose(path):
    """Numbered lines outside of code."""
    code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            code = not code
        elif not code:
            yield number, line


def anchors(path):
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
            for _, line in prose(path) if line.startswith("#")}


def exists(name):
    """A path below ROOT, perhaps with * in it, or with capital letters for what the reader puts there."""
    return "NAME" in name or any(ROOT.glob(name.rstrip("/")))


class Documents(unittest.TestCase):
    def test_there_are_some(self):
        self.assertGreater(len(DOCUMENTS), 12)

    def test_links(self):
        for path in DOCUMENTS:
            for number, line in prose(path):
                for target in re.findall(r"\]\(([^)\s]+)\)", line):
                    if re.match(r"https?:", target):
                        continue
                    with self.subTest("%s:%d" % (path.relative_to(ROOT), number), target=target):
                        name, _, anchor = target.partition("#")
                        to = path.parent / name if name else path
                        self.assertTrue(to.exists())
                        if anchor:
                            self.assertIn(anchor, anchors(to))

    def test_paths(self):
        for path in DOCUMENTS:
            for number, line in prose(path):
                for name in re.findall(r"`([\w./*-]+)`", line):
                    first = name.split("/")[0]
                    if "/" not in name or first not in FOLDERS + LAYERS:
                        continue
                    with self.subTest("%s:%d" % (path.relative_to(ROOT), number), name=name):
                        self.assertTrue(exists(name if first in FOLDERS else "src/" + name))

    def test_port(self):
        """The table of files of a machine has all of them, and no others."""
        text = (ROOT / "docs/ARCHITECTURE.md").read_text().split("## A port")[1].split("\n## ")[0]
        names = re.findall(r"`([\w/.*<>]+/[\w/.*<>]+)`", "".join(l for l in text.splitlines() if l.startswith("| `")))
        for isa in ("x64", "a64"):
            files = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*_%s.[chS]" % isa)}
            for file in sorted(files):
                with self.subTest(file=file):
                    self.assertTrue(any(fnmatch.fnmatch(file, n.replace("<isa>", isa)) for n in names))
        for name in names:
            with self.subTest(name=name):
                self.assertTrue(any(any((ROOT / "src").glob(name.replace("<isa>", isa))) for isa in ("x64", "a64")))

    def test_tour(self):
        """The tour also gives names without their folder: of the folder that was named last."""
        folder = None
        for _, line in prose(ROOT / "docs/TOUR.md"):
            for name in re.findall(r"`([\w./]+\.[chS])`", line):
                if "/" in name:
                    folder = name.rpartition("/")[0]
                    continue
                with self.subTest(name=name):
                    self.assertTrue((ROOT / folder / name).exists())

    def test_columns(self):
        for path in DOCUMENTS:
            for number, line in prose(path):
                if not line.startswith("|"):
                    with self.subTest("%s:%d" % (path.relative_to(ROOT), number)):
                        self.assertLessEqual(len(line), COLUMNS)

    def test_every_document_is_named(self):
        """README.md leads to all of docs/."""
        readme = (ROOT / "README.md").read_text()
        for path in ROOT.glob("docs/*.md"):
            self.assertIn("(docs/%s)" % path.name, readme)


if __name__ == "__main__":
    unittest.main()
