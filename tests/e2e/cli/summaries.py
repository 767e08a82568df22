#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""summaries.py CONTRAIL PROGRAM: the recorder leaves summaries of large threads; answers are the same without them."""

import os
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.abspath(sys.argv.pop(1))


def run(*words):
    return subprocess.run([CONTRAIL, *words], capture_output=True, text=True, timeout=120)


def lines(*words):
    result = run(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


class Summaries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        result = run("spawn", "--lossless", "--only", os.path.basename(PROGRAM), "-o", cls.dir.name, PROGRAM)
        assert result.returncode == 0, result.stderr
        (session,) = os.listdir(cls.dir.name)
        cls.trace = os.path.join(cls.dir.name, session)
        (process,) = os.listdir(cls.trace)
        cls.thread = os.path.join(cls.trace, process, "thread_1")

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def test_answers_are_the_same(self):
        summary = os.path.join(self.thread, "summary.cts")
        index = os.path.join(self.thread, "index.ctp")
        self.assertEqual(sorted(os.listdir(self.thread)), ["index.ctp", "summary.cts"])
        self.assertEqual(os.stat(summary).st_mode, os.stat(index).st_mode)
        self.assertEqual(run("verify", self.trace).returncode, 0)
        late = lines("replay", "--function", "seldom", self.trace)
        self.assertGreater(len(late), 3)
        start = next(line for line in late if not line.startswith("#")).split()[0]
        questions = (["replay", "--function", "seldom"], ["replay", "--function", "main", "--depth", "1"],
                     ["replay", "--from", start, "--limit", "50"])
        with_summary = [lines(*words, self.trace) for words in questions]
        os.rename(summary, summary + ".away")
        self.assertEqual([lines(*words, self.trace) for words in questions], with_summary)
        os.rename(summary + ".away", summary)

    def test_verify_finds_a_lie(self):
        summary = os.path.join(self.thread, "summary.cts")
        with open(summary, "rb") as f:
            right = f.read()
        wrong = bytearray(right)
        wrong[-1] ^= 1
        with open(summary, "wb") as f:
            f.write(wrong)
        self.assertEqual(run("verify", self.trace).returncode, 0)  # its checksum is wrong: nobody uses it
        with open(summary, "wb") as f:
            f.write(right)


if __name__ == "__main__":
    unittest.main()
