#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guess.py CONTRAIL PROGRAM: functions that no table names are recorded with --guess, and only then; the program runs
as it would by itself."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.abspath(sys.argv.pop(1))
NAME = os.path.basename(PROGRAM)


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def contrail(*words):
    result = run(CONTRAIL, *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def symbols(trace):
    """{function_id: columns} of the program's own functions."""
    (process,) = [n for n in os.listdir(trace) if n.startswith("pid_")]
    with open(os.path.join(trace, process, "symbols")) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    (module,) = [int(line[1], 16) for line in lines if line[0] == "module" and line[4] == PROGRAM]
    return {int(line[0], 16): line for line in lines if re.fullmatch("[0-9a-f]+", line[0])
            and int(line[0], 16) >> 32 == module}


class Guess(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.alone = run(PROGRAM)
        with open(PROGRAM, "rb") as file:
            base = 0x400000 if file.read(18)[16] == 2 else 0  # ET_EXEC
        words = cls.alone.stdout.split()
        cls.leaf, cls.odd, cls.odd_inner = (int(word, 16) + base for word in words[:3])
        cls.leaf_calls = int(words[3])

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def record(self, *options):
        place = tempfile.mkdtemp(dir=self.dir.name)
        done = run(CONTRAIL, "spawn", "--lossless", "--only", NAME, *options, "-o", place, PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (self.alone.returncode, self.alone.stdout), done.stderr)
        (session,) = os.listdir(place)
        trace = os.path.join(place, session)
        contrail("verify", trace)
        return trace, done.stderr

    def calls_of_leaf(self, trace):
        rows = json.loads(contrail("report", "--json", "--limit", "100000", trace))["functions"]
        return sum(row["calls"] for row in rows if row["name"] == f"{NAME}+{self.leaf:#x}")

    def test_nothing_is_guessed_by_itself(self):
        trace, stderr = self.record()
        self.assertEqual(self.calls_of_leaf(trace), 0)
        self.assertIn("install debug symbols, or use --guess, or contrail stalk", stderr)
        self.assertFalse([line for line in symbols(trace).values() if "guessed" in line])
        self.assertNotIn("guessed", contrail("info", "--json", trace))
        self.assertNotIn("guessed", contrail("info", trace))

    def test_calls_are_exact(self):
        trace, stderr = self.record("--guess")
        self.assertNotIn("use --guess", stderr)
        self.assertGreater(self.leaf_calls, 500)
        self.assertEqual(self.calls_of_leaf(trace), self.leaf_calls)

    def test_they_are_marked(self):
        trace, _ = self.record("--guess")
        marked = [line for line in symbols(trace).values() if line[-1] == "guessed"]
        offsets = [int(line[1], 16) for line in marked]
        self.assertIn(self.leaf, offsets)
        self.assertIn(self.odd, offsets)
        self.assertNotIn(self.odd_inner, offsets)
        self.assertTrue(all(len(line) == 9 and not line[3] for line in marked))
        hooked = sum(not line[4] for line in marked)
        (process,) = json.loads(contrail("info", "--json", trace))["processes"]
        self.assertEqual(process["coverage"]["guessed"], hooked)
        self.assertIn(f", {hooked} of them guessed", contrail("info", trace))

    def test_from_the_cache(self):
        first, second = (self.record("--guess")[0] for _ in range(2))
        self.assertEqual(symbols(first), symbols(second))
        self.assertFalse([line for line in symbols(self.record()[0]).values() if "guessed" in line])


SMALL = r"""
#include <stdlib.h>
static volatile int sum;
static __attribute__((noinline)) void leaf(int i) { sum += i; sum ^= i; }
int main(int argc, char **argv) {
    for (int i = 0; i < atoi(argv[argc - 1]); i++) leaf(i);
    return sum & 1;
}
"""


@unittest.skipUnless(shutil.which("gcc"), "needs gcc")
class Small(unittest.TestCase):
    """A small program gets what was asked for too."""

    def test_small(self):
        with tempfile.TemporaryDirectory() as place:
            program = os.path.join(place, "small")
            subprocess.run(["gcc", "-O1", "-s", "-fno-asynchronous-unwind-tables", "-x", "c", "-", "-o", program],
                           input=SMALL, text=True, check=True)
            subprocess.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", program], check=True)
            plain = run(CONTRAIL, "spawn", "-o", os.path.join(place, "plain"), program, "77")
            guessed = run(CONTRAIL, "spawn", "--guess", "-o", os.path.join(place, "guessed"), program, "77")
            self.assertIn("use --guess", plain.stderr)
            self.assertEqual(guessed.returncode, run(program, "77").returncode)
            (session,) = os.listdir(os.path.join(place, "guessed"))
            rows = json.loads(contrail("report", "--json", "--limit", "0", "--module", "small",
                                       os.path.join(place, "guessed", session)))["functions"]
            self.assertIn(77, [row["calls"] for row in rows])


if __name__ == "__main__":
    unittest.main()
