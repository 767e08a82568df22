#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session of several processes: its tree, its span, what it takes on disk.

Usage: processes.py CONTRAIL"""
import glob
import json
import os
import re
import subprocess
import sys
import unittest

import session_case
from recorder import TIMEOUT

# Makes as many children as the argument says, one after the other; each exits with its number, sleeps a little and has
# a child of its own if it is the first. The parent ends before the last child does.
FAMILY = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static __attribute__((noinline)) int step(int i) { volatile int sum = i; return ++sum; }
static __attribute__((noinline)) void be_child(int number, int last) {
    int status;
    step(number);
    if (!number && !fork())
        _exit(step(41));
    usleep(last ? 300000 : 1000);
    if (!number)
        wait(&status);
    _exit(number & 127);
}
int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 2, status;
    for (int i = 0; i < count; i++)
        if (!fork())
            be_child(i, i + 1 == count);
        else if (i + 1 < count)
            wait(&status);
    return step(count) - 1 - count;
}
"""


class Processes(session_case.SessionCase):
    def ask(self, *words, code=0):
        done = subprocess.run([session_case.CONTRAIL, *words], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def du(self):
        done = subprocess.run(["du", "-s", "--block-size=1", self.session()], capture_output=True, text=True,
                              check=True)
        return int(done.stdout.split()[0])

    def test_tree(self):
        done, manifests = self.record(self.build("family", FAMILY), "2", options=("--only", "family"))
        self.assertEqual(len(manifests), 4)
        info = json.loads(self.ask("info", "--json", self.session()))
        processes = {process["pid"]: process for process in info["processes"]}
        first = next(process for process in processes.values() if process["origin"] == "spawn")
        text = self.ask("info", self.session())
        tree = text.split("COMMAND\n")[1].split("\n\n")[0].splitlines()
        self.assertEqual(len(tree), 4)
        self.assertEqual(sorted(line.split("exit ")[1].split()[0] for line in tree), ["0", "0", "1", "42"])
        self.assertEqual(int(tree[0].split()[0]), first["pid"])
        column = [line.index(first["command_line"]) for line in tree]
        self.assertEqual(column, [column[0], column[0] + 2, column[0] + 4, column[0] + 2])
        parents = [processes[int(line.split()[0])]["parent_pid"] for line in tree]
        self.assertEqual(parents[1:], [first["pid"], int(tree[1].split()[0]), first["pid"]])
        # the last child outlives its parent, and the session lasts as long
        spans = [(p["recording_start_ns"], p["recording_end_ns"]) for p in processes.values()]
        self.assertEqual(info["recording_start_ns"], min(start for start, _ in spans))
        self.assertEqual(info["recording_end_ns"], max(end for _, end in spans))
        self.assertGreater(info["recording_end_ns"], first["recording_end_ns"])
        self.assertNotIn("\nProgram ", text)
        self.check_selection(processes, first)

    def check_selection(self, processes, first):
        one = self.ask("info", "--process", str(first["pid"]), self.session())
        self.assertEqual(one.count("\nProgram "), 1)
        self.assertIn(f"/pid_{first['pid']}\n", one)
        named = json.loads(self.ask("info", "--json", "--process", "fam*", self.session()))
        self.assertEqual(len(named["processes"]), len(processes))
        self.assertEqual(self.ask("info", "--all", self.session()).count("\nProgram "), len(processes))
        self.ask("info", "--process", "nobody", self.session(), code=69)

    def test_size_and_span(self):
        """The line at the end says what du says, and how long the session lasted: the last child sleeps 300 ms."""
        done, _ = self.record(self.build("family", FAMILY), "2", options=("--only", "family"))
        before = self.du()
        info = json.loads(self.ask("info", "--json", self.session()))
        self.assertIn(info["disk_bytes"], (before, self.du()))
        line = done.stderr.splitlines()[-1]
        number, unit = re.search(r" in 4 processes in ([\d.]+) (\w+), ", line).groups()
        self.assertGreaterEqual(float(number) * {"ms": 1, "s": 1000}[unit], 300)
        self.assertIn(" on disk; read it with", line)

    def test_size_counts_summaries(self):
        """They are made after the recording, and are there when the line at the end gives the size."""
        text = "static __attribute__((noipa)) int step(int i) { return i + 1; }\n" \
               "int main(void) { int sum = 0; for (int i = 0; i < 150000; i++) sum += step(i); return sum == 1; }\n"
        done, _ = self.record(self.build("many", text), options=("--only", "many"))
        number, unit = re.search(r", ([\d.]+) (\w+) on disk; read it with", done.stderr.splitlines()[-1]).groups()
        files = glob.glob(self.session() + "/pid_*/thread_*/summary.cts")
        size = sum(os.stat(file).st_blocks * 512 for file in files)
        self.assertGreater(size, 0)
        shown = float(number) * {"kB": 1000, "KiB": 1024, "MB": 10**6, "MiB": 1 << 20}[unit]
        self.assertLess(abs(shown - self.du()), size / 2)

    def test_many(self):
        """Beyond a screenful the tree says how many are left out."""
        self.record(self.build("family", FAMILY), "24", options=("--only", "family"), check=False)
        text = self.ask("info", self.session())
        self.assertIn("\nProcesses (26)\n", text)
        self.assertIn("  ... and 6 more (--all)\n", text)
        self.assertNotIn("more (--all)", self.ask("info", "--all", self.session()).split("\n\n")[1])


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(argv=sys.argv)
