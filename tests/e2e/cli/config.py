#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""config.py CONTRAIL: settings of spawn and attach from a file."""

import os
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))


class Config(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def write(self, text, name=".contrail.conf", mode=0o644):
        path = os.path.join(self.dir, name)
        with open(path, "w") as out:
            out.write(text)
        os.chmod(path, mode)

    def spawn(self, *options):
        return subprocess.run([CONTRAIL, "spawn", *options, "true"], capture_output=True, text=True, cwd=self.dir,
                              timeout=60)

    def made(self):
        return sorted(name for name in os.listdir(self.dir) if os.path.isdir(os.path.join(self.dir, name)))

    def test_own_file(self):
        self.write('# where\n\noutput = "here it is"\nquiet=yes\nno_children = TRUE\nlossless = no\n'
                   "INDEX_LANE_SIZE = 4M\nDRAIN_INTERVAL_MS = 2\nsample_rate = 1\n"
                   "DETAIL_LANE_SIZE = 4M\nPRE_ROLL_MS = 5\nPOST_ROLL_MS = 0\ntrigger = symbol=main\nvectors = yes\n"
                   "stack_bytes = 256\nkeep = 1G\nformat = atf2\n")
        done = self.spawn()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.made(), ["here it is"])

    def read(self, *words):
        return subprocess.run([CONTRAIL, *words], capture_output=True, text=True, cwd=self.dir, timeout=60)

    def test_readers_look_there_too(self):
        self.write("output = here\nquiet = yes\n")
        self.assertEqual(self.spawn().returncode, 0)
        self.assertIn("Trace      here/session_", self.read("info").stdout)
        self.assertEqual(self.read("stalk", "--quiet", "true").returncode, 0)
        self.assertEqual(self.made(), ["here"])
        self.assertEqual(self.read("export", "-f", "folded", "-o", "out").returncode, 0)
        os.unlink(os.path.join(self.dir, ".contrail.conf"))
        self.assertIn("no trace found under ./traces", self.read("info").stderr)

    def test_a_trace_without_events_is_not_the_newest(self):
        self.write("quiet = yes\n")
        self.assertEqual(self.read("stalk", "--quiet", "--events", "none", "true").returncode, 0)
        (empty,) = os.listdir(os.path.join(self.dir, "traces"))
        self.assertIn(empty, self.read("info").stdout)
        self.spawn()
        self.read("stalk", "--quiet", "--events", "none", "true")
        first, second, third = sorted(os.listdir(os.path.join(self.dir, "traces")),
                                      key=lambda name: os.stat(os.path.join(self.dir, "traces", name)).st_mtime_ns)
        self.assertIn(second, self.read("info").stdout)

    def test_an_hour_that_comes_twice(self):
        """Clocks are set back: the session that was recorded last has the earlier name."""
        self.write("quiet = yes\n")
        self.spawn()
        self.spawn()
        traces = os.path.join(self.dir, "traces")
        first, second = sorted(os.listdir(traces), key=lambda name: os.stat(os.path.join(traces, name)).st_mtime_ns)
        os.rename(os.path.join(traces, first), os.path.join(traces, "session_20261025_025959"))
        os.rename(os.path.join(traces, second), os.path.join(traces, "session_20261025_020001"))
        self.assertIn("session_20261025_020001", self.read("info").stdout)
        os.rename(os.path.join(traces, "session_20261025_020001"), os.path.join(traces, "session_20261024_020001"))
        self.assertIn("session_20261025_025959", self.read("info").stdout)

    def test_command_line_prevails(self):
        self.write("output = a\nquiet = yes\n")
        done = self.spawn("--output", "b")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.made(), ["b"])

    def test_named_file_instead_of_the_own(self):
        self.write("output = a\n")
        self.write("output = c\nquiet = on\n", name="other")
        done = self.spawn("--config", "other")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.made(), ["c"])

    def test_lists_are_added_up(self):
        self.write("only = no_such_function\n")
        self.assertIn("nothing is recorded", self.spawn().stderr)
        self.assertNotIn("nothing is recorded", self.spawn("--only", "*").stderr)

    def test_options_of_the_program_are_its_own(self):
        self.write("output = a\nquiet = 1\n")
        done = subprocess.run([CONTRAIL, "spawn", "echo", "--config", "none"], capture_output=True, text=True,
                              cwd=self.dir)
        self.assertEqual((done.returncode, done.stdout), (0, "--config none\n"))

    def test_errors_name_file_and_line(self):
        for text, line, words in (("\nnonsense\n", 2, "KEY = VALUE"), ("= 3\n", 1, "KEY = VALUE"),
                                  ("out_put = a\n", 1, "did you mean --output?"),
                                  ("max_depth = many\n", 1, "--max-depth takes"),
                                  ("INDEX_LANE_SIZE = 1\n", 1, "at least"), ("quiet = perhaps\n", 1, "yes or no"),
                                  ("#\n#\nsample_rate = 0\n", 3, "--sample must be"),
                                  ("config = x\n", 1, "cannot name another"),
                                  ("PRE_ROLL_MS = x\n", 1, "--pre-roll-ms takes"),
                                  ("DETAIL_LANE_SIZE = 1\n", 1, "--detail-mem must be"),
                                  ("format = zip\n", 1, "packed or atf2"), ("output =\n", 1, "needs a value"),
                                  ("help = 1\n", 1, "help")):
            self.write(text, name="c")
            done = self.spawn("--config", "c")
            self.assertEqual(done.returncode, 64, text)
            self.assertTrue(done.stderr.startswith(f"contrail: c:{line}: "), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.made(), [])

    def test_no_file(self):
        for name in ("missing", "."):
            done = self.spawn("--config", name)
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"the config file {name} cannot be read", done.stderr)

    def test_file_that_everybody_may_write(self):
        self.write("output = a\n", mode=0o666)
        done = self.spawn("--output", "b")
        self.assertIn("./.contrail.conf is left out", done.stderr)
        self.write("output = a\nquiet = yes\n", mode=0o666)
        self.assertEqual(self.spawn("--config", "./.contrail.conf").stderr, "")
        self.assertEqual(self.made(), ["a", "b"])

    def test_attach(self):
        self.write("output = a\nduration = 10ms\nquiet = yes\n")
        process = subprocess.Popen(["sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        done = subprocess.run([CONTRAIL, "attach", str(process.pid)], capture_output=True, text=True, cwd=self.dir,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.made(), ["a"])


if __name__ == "__main__":
    unittest.main()
