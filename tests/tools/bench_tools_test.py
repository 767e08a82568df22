#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make bench` makes of figures: comparison, plots, goals; on made-up values. usage: bench_tools_test.py FOLDER"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

FOLDER = sys.argv.pop(1)
sys.path.insert(0, FOLDER)
import compare  # noqa: E402
import measure  # noqa: E402
import svg  # noqa: E402
import work  # noqa: E402


def figure(name, values, more=False):
    return measure.Figure("group", name, "ns", values, more=more).record()


class Comparing(unittest.TestCase):
    def test_what_moved_beyond_the_spread_is_marked(self):
        self.assertEqual(compare.mark(figure("a", [10, 10.1, 10.2]), figure("a", [8, 8.1, 8.2])), "better")
        self.assertEqual(compare.mark(figure("a", [10, 10.1, 10.2]), figure("a", [12, 12.1, 12.2])), "worse")

    def test_more_is_better_where_it_is_said(self):
        self.assertEqual(compare.mark(figure("a", [10, 10], True), figure("a", [12, 12], True)), "better")

    def test_noise_is_not_marked(self):
        self.assertEqual(compare.mark(figure("a", [10, 13, 14]), figure("a", [9, 14, 14])), "")

    def test_the_command_names_new_and_left_out_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, figures in (("old.json", [figure("a", [10]), figure("gone", [1])]),
                                  ("new.json", [figure("a", [5]), figure("fresh", [1])])):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    json.dump({"commit": name, "machine": {"model": "m", "cpus": 2}, "figures": figures}, file)
            command = [sys.executable, os.path.join(FOLDER, "compare.py"), os.path.join(folder, "old.json")]
            text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        lines = {line.split()[1]: line for line in text.splitlines()[1:]}
        self.assertIn("-50.0 %", lines["a"])
        self.assertTrue(lines["a"].endswith("better"))
        self.assertTrue(lines["fresh"].endswith("new"))
        self.assertTrue(lines["gone"].endswith("no longer measured"))


class Figures(unittest.TestCase):
    def test_goals(self):
        self.assertTrue(measure.Figure("g", "a", "ns", [9, 20], 10).met())
        self.assertFalse(measure.Figure("g", "a", "ns", [11, 20], 10).met())
        self.assertTrue(measure.Figure("g", "a", "%", [50, 100], 100, True).met())
        self.assertIsNone(measure.Figure("g", "a", "ns", [1]).met())

    def test_times_of_work(self):
        self.assertEqual(work.milliseconds("3 4\nms 120\n"), 120)
        self.assertEqual(work.milliseconds("clock 1000\n5\nclock 1250\n"), 250)
        self.assertEqual(work.pair_ns("flat       1.53 ns/call     40000000 calls, sum 0\n"), 1.53)

    def test_ways_are_measured_in_turns(self):
        bench = measure.Bench("/nowhere", None, 3, 1)
        order = []
        self.addCleanup(bench.close)
        found = bench.in_turns({name: lambda name=name: order.append(name) or len(order) for name in "ab"})
        self.assertEqual(order, list("ababab"))
        self.assertEqual(found, {"a": [1, 3, 5], "b": [2, 4, 6]})


class Plots(unittest.TestCase):
    def check(self, points):
        text = svg.plot({"title": "A <title>", "x": "x & y", "y": "ns", "lines": {"one": points, "empty": []}})
        document = xml.dom.minidom.parseString(text)
        self.assertEqual(len(document.getElementsByTagName("circle")), len(points))
        for circle in document.getElementsByTagName("circle"):
            self.assertTrue(0 <= float(circle.getAttribute("cx")) <= svg.WIDTH)
            self.assertTrue(0 <= float(circle.getAttribute("cy")) <= svg.HEIGHT)

    def test_plots_are_xml_with_a_dot_for_each_value(self):
        self.check([(1, 5), (10, 7), (100, 9), (100000, 400)])
        self.check([(0, 0), (64, 3.5)])
        self.check([(1, 0)])


if __name__ == "__main__":
    unittest.main()
