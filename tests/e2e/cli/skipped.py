#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""skipped.py CONTRAIL PROGRAM NAMELESS: nothing is missing silently. Functions without a hook are named with their
reason, and a report says which of them are perhaps called often."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.abspath(sys.argv.pop(1))
NAMELESS = os.path.abspath(sys.argv.pop(1))


def run(*words):
    result = subprocess.run([CONTRAIL, *words], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Skipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.program = shutil.copy(PROGRAM, os.path.join(cls.dir.name, "program"))
        cls.trace = cls.record()

    @classmethod
    def record(cls, *options):
        place = tempfile.mkdtemp(dir=cls.dir.name)
        run("spawn", "-q", *options, "-o", place, cls.program)
        (session,) = os.listdir(place)
        return os.path.join(place, session)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def test_all_are_named(self):
        (counts,) = json.loads(run("info", "--json", self.trace))["processes"]
        (names,) = json.loads(run("info", "--skipped", "--json", self.trace))["processes"]
        self.assertEqual(len(names["skipped"]), counts["coverage"]["skipped"])
        self.assertEqual(len(names["parts"]), counts["coverage"]["parts"])
        self.assertEqual((names["skipped_unnamed"], names["parts_unnamed"]), (0, 0))
        (mine,) = [f for f in names["skipped"] if f["module"] == self.program]
        self.assertEqual((mine["name"], mine["reason"], mine["size"]), ("no_room", "TOO_SHORT", 1))
        order = [f["module"] for f in names["skipped"]]
        self.assertEqual(len(set(order)), sum(a != b for a, b in zip(order, [None] + order)))
        self.assertIn("no_room [program]", run("info", "--skipped", self.trace))

    def test_report_names_the_frequent_one(self):
        report = run("report", "--limit", "1", self.trace)
        self.assertIn("perhaps called often: no_room [program], by often (calls: 1,000,", report)
        self.assertNotIn("perhaps called often: after_it", report)

    def test_report_names_it_in_other_forms(self):
        (mine,) = [f for f in json.loads(run("report", "--json", self.trace))["not_hooked"]
                   if f["module"] == "program"]
        self.assertEqual((mine["name"], mine["reason"], mine["caller"]["name"], mine["caller"]["calls"]),
                         ("no_room", "TOO_SHORT", "often", 1000))
        self.assertGreater(mine["caller"]["self_ns"], 0)
        self.assertNotIn("not_hooked", run("report", "--json", "--per-thread", self.trace))
        csv = subprocess.run([CONTRAIL, "report", "--csv", "--limit", "1", self.trace], capture_output=True, text=True,
                             timeout=120)
        self.assertRegex(csv.stderr,
                         r"^contrail: functions not hooked, but perhaps called often: 1 \(no_room by often\); ")
        self.assertEqual([len(line.split(",")) for line in csv.stdout.splitlines()], [13, 13])  # nothing but rows

    def test_report_needs_the_right_file(self):
        trace = self.record("--only", "program")
        self.assertIn("perhaps called often", run("report", trace))
        os.rename(self.program, self.program + ".away")
        try:
            self.assertNotIn("perhaps called often", run("report", trace))
            shutil.copy("/bin/sh", self.program)
            self.assertNotIn("perhaps called often", run("report", trace))
        finally:
            os.rename(self.program + ".away", self.program)

    def test_filtered_functions_are_not_missing(self):
        report = run("report", self.record("--exclude", "no_room"))
        self.assertNotIn("perhaps called often", report)

    def test_bytes_are_covered(self):
        (whole,) = json.loads(run("info", "--json", self.trace))["processes"]
        cover = whole["coverage"]
        self.assertGreater(cover["hooked_bytes"], 0)
        self.assertLessEqual(cover["hooked_bytes"], cover["code_bytes"])
        (less,) = json.loads(run("info", "--json", self.record("--only", "program")))["processes"]
        self.assertEqual(less["coverage"]["code_bytes"], cover["code_bytes"])
        self.assertLess(less["coverage"]["hooked_bytes"], cover["hooked_bytes"] / 2)
        self.assertIn("% of the code's bytes", run("info", self.trace))

    def test_missing_tables_are_reported(self):
        place = tempfile.mkdtemp(dir=self.dir.name)
        result = subprocess.run([CONTRAIL, "spawn", "-o", place, NAMELESS], capture_output=True, text=True, timeout=120)
        self.assertIn("the tables of 1 module name only 0 functions for 128 KiB of code", result.stderr)
        self.assertNotIn("--only", result.stderr)
        result = subprocess.run([CONTRAIL, "spawn", "--only", "nothing", "-o", place, self.program],
                                capture_output=True, text=True, timeout=120)
        self.assertIn("no function matches --only", result.stderr)
        self.assertNotIn("the tables of", result.stderr)


if __name__ == "__main__":
    unittest.main()
