#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far marks reach: what is kept grows with --detail-mem until the pre-roll is whole, and a mark keeps the calls
that are open and the last events of each thread however old they are.

Usage: reach.py CONTRAIL"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import atf
import detail_file
import session_case
from recorder import read_line

STEPS = 40000

# Makes a known number of calls. Then it crashes, returns less than 0, gets a signal, ends, or hangs.
PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noipa)) long step(long i) {
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop" : "+r"(i));
    return i + 1;
}
__attribute__((noipa)) int hang(int request) {
    char c;
    printf("%d\n", (int)getpid());
    fflush(stdout);
    return read(0, &c, 1) == 1 ? request : 0;
}
__attribute__((noipa)) int handle(int request, long steps) {
    for (long i = 0; i < steps; i++)
        step(i);
    return -request;
}
__attribute__((noipa)) int serve(int request, long steps, const char *way) {
    long sum = 0;
    for (long i = 0; i < steps; i++)
        sum += step(i);
    if (!strcmp(way, "crash"))
        *(volatile int *)8 = 1;
    if (!strcmp(way, "signal"))
        raise(SIGUSR1);
    if (!strcmp(way, "kill"))
        raise(SIGKILL);
    if (!strcmp(way, "fail"))
        for (int i = 0; i < 40; i++)
            handle(1000 + i, steps);
    if (!strcmp(way, "hang"))
        return hang(request + 1);
    return sum == 1 ? 0 : -request;
}
__attribute__((noipa)) int again(int request, long steps) {
    int result = serve(request, steps, "return");
    for (long i = 0; i < steps; i++)
        result += (int)step(i);
    return result;
}
int main(int count, char **words) {
    (void)count;
    signal(SIGUSR1, SIG_IGN);
    return again(40, atol(words[2])) + serve(41, atol(words[2]), words[1]) == 1;
}
"""


class Reach(session_case.SessionCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = tempfile.TemporaryDirectory(prefix="contrail-reach-")
        source = os.path.join(cls.programs.name, "reach.c")
        with open(source, "w") as out:
            out.write(PROGRAM)
        cls.program = os.path.join(cls.programs.name, "reach")
        subprocess.run(["gcc", "-O1", "-g", "-o", cls.program, source], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.programs.cleanup()

    def kept(self, way, steps, *options):
        """The trace of a run, and of each record its name, type and first argument."""
        self.record(self.program, way, str(steps), options=["--only", "reach", *options])
        return self.read()

    def read(self):
        trace = atf.Trace(glob.glob(self.session() + "/pid_*")[0])
        records = []
        for thread in trace.threads:
            for r in detail_file.read(os.path.join(trace.directory, "thread_%d" % thread.id)):
                if r.type in (detail_file.CALL, detail_file.RETURN):
                    records.append((trace.functions[r.function].name, r.type, r.registers[0] & 0xffffffff))
        return trace, records

    def shown(self, command, *options):
        return subprocess.run([session_case.CONTRAIL, command, self.session(), *options], capture_output=True,
                              text=True, check=True).stdout

    def assert_open_calls(self, records, *calls):
        for name, argument in calls:
            self.assertEqual(records.count((name, detail_file.CALL, argument)), 1, (name, argument))

    def test_memory_is_used(self):
        counts = []
        for memory in ("4M", "16M", "96M"):
            trace, records = self.kept("crash", STEPS, "-t", "crash", "--detail-mem", memory, "--pre-roll-ms", "600000")
            steps = [r[2] for r in records if r[0] == "step" and r[1] == detail_file.CALL]
            self.assertEqual(steps[-1], STEPS - 1)
            self.assertEqual(steps[-1000:], list(range(STEPS - 1000, STEPS)))
            self.assert_open_calls(records, ("serve", 41))
            self.assertLessEqual(trace.manifest["windows"][0]["end_ns"], trace.manifest["recording_end_ns"])
            counts.append(len(records))
        self.assertEqual(sorted(set(counts)), counts)  # each is larger than the one before
        for count, mebibytes in zip(counts, (4, 16)):  # a call takes 240 bytes, a return 72
            self.assertGreater(count * 156, 0.9 * mebibytes * (1 << 20))
        # everything
        self.assertEqual([r[2] for r in records if r[0] == "step" and r[1] == detail_file.CALL], 3 * list(range(STEPS)))
        window = trace.manifest["windows"][0]
        self.assertEqual(window["pre_roll"], "cut by the start")

    def test_whole_pre_roll_needs_no_more_memory(self):
        trace, _ = self.kept("crash", STEPS, "-t", "crash", "--detail-mem", "64M", "--pre-roll-events", "1000")
        self.assertLess(trace.manifest["detail"]["most_of_a_thread"], 8 << 20)
        self.assertEqual(trace.manifest["windows"][0]["pre_roll"], "whole")

    def test_info_says_what_would_be_enough(self):
        enough = r"--detail-mem (\d+)M would reach"
        done, _ = self.record(self.program, "crash", str(STEPS),
                              options=["--only", "reach", "-t", "crash", "--detail-mem", "4M", "--pre-roll-events",
                                       "100000"])
        self.assertRegex(done.stderr, enough)
        memory = re.search(enough, self.shown("info")).group(1) + "M"
        trace, records = self.kept("crash", STEPS, "-t", "crash", "--detail-mem", memory, "--pre-roll-events", "100000")
        self.assertEqual(trace.manifest["windows"][0]["pre_roll"], "whole")
        self.assertGreaterEqual(len(records), 100000)

    def test_events_before_all_kinds_of_marks(self):
        for way, trigger in (("crash", "crash"), ("signal", "signal=SIGUSR1"), ("kill", "crash"),
                             ("return", "return=serve:eq:-41")):
            with self.subTest(way=way):
                _, records = self.kept(way, 3000, "-t", trigger, "--pre-roll-events", "51", "--post-roll-ms", "0")
                steps = [r for r in records if r[0] == "step"]
                # The last ones of the thread: those that are calls or returns of other functions are few. Where two
                # events have the same time, a window begins with both.
                self.assertIn(len(steps), range(44, 54), len(records))
                self.assertEqual(steps[-1], ("step", detail_file.RETURN, 3000))
                self.assert_open_calls(records, ("serve", 41), ("main", 3))

    def test_marked_call_has_its_arguments(self):
        """It was called long before what memory holds."""
        for memory in ("1M", "4M"):
            _, records = self.kept("return", STEPS, "-t", "return=serve:eq:-41", "--detail-mem", memory)
            self.assert_open_calls(records, ("serve", 41), ("main", 3))

    def test_marks_soon_after_another(self):
        """Memory is used up by what the first one wants; each has its call's arguments and its result."""
        for memory in ("1M", "4M"):
            trace, records = self.kept("fail", 2000, "-t", "return=handle:lt:0", "--detail-mem", memory)
            self.assertEqual(trace.manifest["marks"], 40)
            for i in range(40):
                self.assertEqual(records.count(("handle", detail_file.CALL, 1000 + i)), 1, (memory, i))
                self.assertEqual(records.count(("handle", detail_file.RETURN, -1000 - i & 0xffffffff)), 1, (memory, i))

    def test_default_rolls_are_bounded(self):
        trace, records = self.kept("return", STEPS, "-t", "return=serve:lt:0")
        self.assertEqual(trace.manifest["marks"], 2)
        self.assertLess(trace.manifest["detail"]["bytes"], 60 << 20)
        self.assert_open_calls(records, ("serve", 40), ("again", 40), ("main", 3))

    def hanging(self, *options):
        process = subprocess.Popen(
            [session_case.CONTRAIL, "spawn", "--quiet", "--output", self.path("traces"), "--only", "reach", *options,
             "--", self.program, "hang", "2000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        pid = int(read_line(process.stdout, "the program's process id"))
        return process, pid

    def ctl(self, pid, *words):
        return subprocess.run([session_case.CONTRAIL, "ctl", str(pid), *words], capture_output=True, text=True)

    def wait_for(self, pid, holds):
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            status = json.loads(self.ctl(pid, "status", "--json").stdout)
            if holds(status):
                return
            time.sleep(0.01)
        self.fail("it never was so: %s" % json.dumps(status))

    def test_mark_of_a_process_that_hangs(self):
        process, pid = self.hanging("--pre-roll-ms", "1", "--post-roll-ms", "1")
        time.sleep(0.1)  # more than the pre-roll
        done = self.ctl(pid, "mark", "--label", "it hangs")
        self.assertEqual((done.returncode, done.stdout), (0, "marked\n"))
        self.wait_for(pid, lambda status: status["detail"]["written"] >= 100)
        process.communicate("x")
        trace, records = self.read()
        self.assert_open_calls(records, ("hang", 42), ("serve", 41), ("main", 3))
        steps = [r for r in records if r[0] == "step"]
        self.assertIn(len(steps), range(90, 101))
        self.assertEqual(steps[-1], ("step", detail_file.RETURN, 2000))
        window = trace.manifest["windows"][0]
        self.assertGreaterEqual(window["older_records"], 100)
        self.assertEqual([(r["trigger"], r["label"]) for r in window["reasons"]], [("manual", "it hangs")])
        self.assertIn('manual "it hangs"', self.shown("info"))
        self.assertIn('"it hangs"', self.shown("replay"))

    def test_rolls_of_a_mark(self):
        process, pid = self.hanging("--post-roll-ms", "1", "--detail-mem", "16M", "--pre-roll-ms", "600000")
        self.assertEqual(self.ctl(pid, "mark", "--pre-roll", "10m", "--post-roll", "20ms").returncode, 0)
        self.wait_for(pid, lambda status: status["detail"]["written"] >= 12000)  # all of it
        self.assertEqual(self.ctl(pid, "mark", "--pre-roll-events", "3", "--label", "second").returncode, 0)
        for words in (["--label", "x" * 80], ["--label", "a\tb"], ["--pre-roll", "2h"], ["--pre-roll-events", "0"]):
            done = self.ctl(pid, "mark", *words)
            self.assertEqual((done.returncode, done.stdout), (64, ""), words)
        self.assertEqual(self.ctl(pid, "pause", "--label", "x").returncode, 64)
        process.communicate("x")
        trace, _ = self.read()
        first = trace.manifest["windows"][0]
        self.assertEqual((first["pre_roll"], first["post_roll_ns"] >= 20 * 10**6), ("cut by the start", True))
        labels = [r.get("label") for w in trace.manifest["windows"] for r in w["reasons"]]
        self.assertEqual(labels, [None, "second"])


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
