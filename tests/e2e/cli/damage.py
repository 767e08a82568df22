#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""damage.py CONTRAIL: commands that read a damaged trace say what is missing, and exit with 65."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))
DAMAGED = 65
READERS = (["report"], ["graph", "*"], ["replay", "--limit", "5"], ["export", "--format", "folded", "-o", "-"],
           ["query", "SELECT count(*), sum(self) FROM calls"])


def run(*words):
    return subprocess.run([CONTRAIL, *words], capture_output=True, text=True, timeout=120)


def change(path, at, byte):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(bytes([byte]))


def largest_block(path):
    """Place and size of the largest block of events. Others are not read by each command."""
    with open(path, "rb") as f:
        data = f.read()
    blocks, at = [], 64
    while data[at:at + 4] == b"CTPB":
        size, _, kind = struct.unpack_from("<III", data, at + 8)
        if kind == 1:
            blocks.append((size, at))
        at += size
    size, at = max(blocks)
    return at, size


class Damage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        output = os.path.join(cls.dir.name, "whole")
        script = "i=0; while [ $i -lt 600 ]; do i=$((i+1)); done"
        subprocess.run([CONTRAIL, "spawn", "--lossless", "--detail", "always", "-o", output, "--", "/bin/sh", "-c",
                        script], check=True, timeout=120, capture_output=True)
        (session,) = os.listdir(output)
        cls.whole = os.path.join(output, session)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def copy(self):
        """A copy of the trace, and the directory of its process."""
        path = os.path.join(self.dir.name, "copy")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.whole, path)
        (process,) = os.listdir(path)
        return path, os.path.join(path, process)

    def check(self, path, sentence, readers=READERS):
        for words in readers:
            with self.subTest(command=words[0]):
                result = run(*words, path)
                self.assertEqual(result.returncode, DAMAGED, result.stderr)
                self.assertRegex(result.stderr, sentence)
                allowed = run(*words, "--allow-damaged", path)
                self.assertEqual(allowed.returncode, 0, allowed.stderr)
                self.assertEqual(allowed.stdout, result.stdout)
                self.assertRegex(allowed.stderr, sentence)
        both = run("diff", self.whole, path)
        self.assertEqual(both.returncode, DAMAGED, both.stderr)
        self.assertRegex(both.stderr, sentence)

    def check_info(self, path, sentence):
        info = run("info", path)
        self.assertEqual(info.returncode, DAMAGED)
        self.assertRegex(info.stdout, r"Damaged +\S+: " + sentence)
        self.assertEqual(run("info", "--allow-damaged", path).returncode, 0)
        lines = json.loads(run("info", "--json", path).stdout)["damage"]
        self.assertTrue(any(re.search(sentence, line) for line in lines), lines)

    def test_whole(self):
        for words in READERS:
            result = run(*words, self.whole)
            self.assertEqual((result.returncode, result.stderr if words[0] != "export" else ""), (0, ""), words)
        self.assertNotIn("Damaged", run("info", self.whole).stdout)
        self.assertEqual(json.loads(run("info", "--json", self.whole).stdout)["damage"], [])

    def test_cut_index(self):
        path, process = self.copy()
        index = os.path.join(process, "thread_1", "index.ctp")
        os.truncate(index, os.path.getsize(index) // 2)
        self.check(path, r"thread_1: \d+ events are missing, \d+ can be read")
        self.check_info(path, r"\d+ events are missing, \d+ can be read")

    def test_missing_index(self):
        path, process = self.copy()
        os.unlink(os.path.join(process, "thread_1", "index.ctp"))
        self.check(path, r"thread_1: \d+ events are missing, 0 can be read", [["replay"]])
        self.check_info(path, r"\d+ events are missing, 0 can be read")
        # what is not found may be in the part that is missing
        self.assertEqual(run("graph", "*", path).returncode, DAMAGED)
        self.assertEqual(run("graph", "--allow-damaged", "*", path).returncode, 69)

    def test_checksum(self):
        path, process = self.copy()
        index = os.path.join(process, "thread_1", "index.ctp")
        at, size = largest_block(index)
        for i in range(at + size // 2, at + size // 2 + 4):
            change(index, i, 0xA5)
        self.check(path, "blocks of events are damaged|events are missing", [["report"], ["replay"]])

    def test_header(self):
        path, process = self.copy()
        change(os.path.join(process, "thread_1", "index.ctp"), 1, 0)
        self.check(path, "its header is damaged", [["replay"]])

    def test_newer(self):
        path, process = self.copy()
        change(os.path.join(process, "thread_1", "index.ctp"), 5, 99)
        self.check(path, "was written by a newer contrail", [["replay"]])
        self.check_info(path, "|was written by a newer contrail")

    def test_newer_manifest(self):
        path, process = self.copy()
        self.edit(process, lambda manifest: manifest.update(version=7))
        self.check(path, "newer contrail .version 7 of the manifest", [["replay", "--limit", "5"]])

    def test_counts(self):
        path, process = self.copy()

        def more(manifest):
            manifest["threads"][0]["events"] += 17
        self.edit(process, more)
        self.check(path, "17 events are missing", [["replay", "--limit", "5"]])

    def test_disk_full(self):
        path, process = self.copy()
        self.edit(process, lambda manifest: manifest["end"].update(reason="disk"))
        self.check(path, "the disk was full", [["report"]])
        self.check_info(path, "the disk was full")

    def test_detail(self):
        path, process = self.copy()
        detail = os.path.join(process, "thread_1", "detail.atf")
        os.truncate(detail, os.path.getsize(detail) // 2)
        self.check(path, "it ends early: detail records are missing", [["replay", "--limit", "5"]])
        os.unlink(detail)
        self.check(path, r"\d+ of \d+ detail records are missing", [["replay", "--limit", "5"]])

    def test_symbols_and_manifest(self):
        path, process = self.copy()
        symbols = os.path.join(process, "symbols")
        os.truncate(symbols, os.path.getsize(symbols) // 2)
        self.check(path, "symbols: .*: names are missing", [["report"]])
        os.truncate(os.path.join(process, "manifest.json"), 100)
        self.check(path, "manifest.json cannot be read", [["replay", "--limit", "5"]])

    def edit(self, process, change_manifest):
        name = os.path.join(process, "manifest.json")
        with open(name) as f:
            manifest = json.load(f)
        change_manifest(manifest)
        with open(name, "w") as f:
            json.dump(manifest, f)


if __name__ == "__main__":
    unittest.main()
