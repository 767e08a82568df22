#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""views.py CONTRAIL: `contrail graph` and `contrail diff` on recordings of a program agree with `contrail report`."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))
LOOP = "i=0; while [ $i -lt {} ]; do i=$((i+1)); done; {}"


def ask(*words):
    done = subprocess.run([CONTRAIL, *words, "--json"], capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def values(row):
    return [row[key] for key in ("calls", "total_ns", "self_ns") if key in row]


class Views(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.a, cls.b = cls.record("a", LOOP.format(20, "true")), cls.record("b", LOOP.format(30, "echo; true"))

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    @classmethod
    def record(cls, name, script):
        output = os.path.join(cls.dir.name, name)
        subprocess.run([CONTRAIL, "spawn", "-o", output, "--", "/bin/sh", "-c", script], check=True, timeout=120,
                       capture_output=True)
        (session,) = os.listdir(output)
        return os.path.join(output, session)

    def report(self, trace):
        """Functions by module and name; several of one name are left out."""
        found, twice = {}, set()
        for row in ask("report", "--limit", "0", trace)["functions"]:
            key = row["module"], row["name"]
            twice.update([key] if key in found else [])
            found[key] = row
        return {key: row for key, row in found.items() if key not in twice}

    def test_graph_agrees_with_report(self):
        expected = self.report(self.a)
        graph = ask("graph", "*", "--limit", "0", self.a)["functions"]
        self.assertGreater(len(expected), 50)
        self.assertGreaterEqual(len(graph), len(expected))
        for function in graph:
            key = function["module"], function["name"]
            if key not in expected:
                continue
            self.assertEqual(values(function), values(expected[key]), key)
            self.assertEqual(sum(row["calls"] for row in function["callers"]), function["calls"], key)

    def test_callers_and_callees_are_two_sides_of_one_thing(self):
        graph = ask("graph", "*", "--limit", "0", self.a)["functions"]
        ways_in, ways_out = {}, {}
        for function in graph:
            here = function["module"], function["name"]
            for ways, rows, turn in ((ways_in, function["callers"], True), (ways_out, function["callees"], False)):
                for row in rows:
                    if "name" not in row:
                        continue
                    there = row["module"], row["name"]
                    way = (there, here) if turn else (here, there)
                    ways.setdefault(way, []).append((row["calls"], row.get("total_ns")))
        self.assertEqual({way: sorted(rows, key=str) for way, rows in ways_in.items()},
                         {way: sorted(rows, key=str) for way, rows in ways_out.items()})
        self.assertGreater(len(ways_in), 50)

    def test_diff_agrees_with_reports(self):
        a, b = self.report(self.a), self.report(self.b)
        diff = ask("diff", "--all", "--limit", "0", self.a, self.b)
        states = {"new": 0, "gone": 0, "changed": 0}
        for row in diff["functions"]:
            key = row["module"], row["name"]
            states[row["state"]] += 1
            for side, report in (("a", a), ("b", b)):
                if key in report:
                    self.assertEqual(values(row[side]), values(report[key]), key)
        self.assertEqual(states, {state: diff[state] for state in states})
        changes = [abs(row.get("b", {}).get("self_ns", 0) - row.get("a", {}).get("self_ns", 0))
                   for row in diff["functions"]]
        self.assertEqual(changes, sorted(changes, reverse=True))

    def test_noise_has_no_rows(self):
        every, some = ask("diff", "--all", "--limit", "0", self.a, self.b), ask("diff", "--limit", "0", self.a, self.b)
        self.assertEqual(every["noise"], 0)
        self.assertEqual(len(every["functions"]), len(some["functions"]) + some["noise"])
        for row in some["functions"]:  # calls that differ are never noise
            if row.get("same_times"):
                self.assertNotEqual(row["a"]["calls"], row["b"]["calls"])
        names = {(row["module"], row["name"]) for row in some["functions"]}
        for row in every["functions"]:
            if row.get("a", {}).get("calls") != row.get("b", {}).get("calls"):
                self.assertIn((row["module"], row["name"]), names)

    def test_paths_of_the_same_recording_do_not_part(self):
        path = ask("diff", self.a, self.a)["path"]
        self.assertEqual((path["same"], path["common_calls"]), (True, ask("report", self.a)["calls"]))

    def test_paths_part_inside_of_main(self):
        path = ask("diff", "--next", "3", self.a, self.b)["path"]
        self.assertFalse(path["same"])
        self.assertGreater(path["common_calls"], 0)
        self.assertLessEqual(max(len(path["a"]), len(path["b"])), 3)
        self.assertEqual([call["depth"] for call in path["stack"]], list(range(len(path["stack"]))))


if __name__ == "__main__":
    unittest.main()
