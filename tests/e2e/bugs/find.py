#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the bugs of the programs in this directory as docs/FINDING-BUGS.md says: one recording, at most two commands.

Usage: find.py CONTRAIL"""
import glob
import os
import re
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "record"))
import recorder
import session_case

STILL = 1.3  # seconds without a switch until a program counts as hung; `contrail info` lists idle threads from 1 s on


def switches(pid):
    """How often each thread has slept, while all of them sleep; else None."""
    seen = {}
    for path in glob.glob("/proc/%d/task/*/status" % pid):
        with open(path) as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        if not fields["State"].startswith("S"):
            return None
        seen[path] = fields["voluntary_ctxt_switches"]
    return seen


class Hung:
    """True once a process has not moved for a while."""

    def __init__(self, pid):
        self.pid, self.seen, self.since = pid, None, 0

    def __call__(self):
        now = switches(self.pid)
        if now is None or now != self.seen:
            self.seen, self.since = now, time.monotonic()
        return time.monotonic() - self.since > STILL


class Find(session_case.SessionCase):
    def compile(self, name, *options, directory="."):
        os.makedirs(self.path(directory), exist_ok=True)
        program = os.path.join(self.path(directory), name)
        source = os.path.join(HERE, "programs", name + ".c")
        subprocess.run(["gcc", "-g", "-O1", "-o", program, source, *options, "-pthread"], check=True)
        return program

    def spawn(self, program, *options, output="traces", code=0):
        """Records a program to its end; returns the trace."""
        command = [session_case.CONTRAIL, *session_case.COMMAND, "--output", self.path(output), *options, "--", program]
        done = subprocess.run(command, cwd=self.dir, capture_output=True, text=True, timeout=recorder.TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        return glob.glob(self.path(output) + "/session_*")[0]

    def spawn_hung(self, program, last_line):
        """Records a program until it hangs; marks that moment, and detaches."""
        spawn = subprocess.Popen([session_case.CONTRAIL, "spawn", "--output", self.path("traces"), "--", program],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(recorder.read_line(spawn.stdout, last_line), last_line + "\n")
        pid = next(child for child in recorder.children_of(spawn.pid)
                   if os.path.realpath("/proc/%d/exe" % child) == os.path.realpath(program))
        try:
            recorder.wait_for("the program hangs", Hung(pid))
            self.ask("ctl", str(pid), "mark")
            self.ask("detach", str(pid))
        finally:
            os.kill(pid, signal.SIGKILL)
            spawn.communicate(timeout=recorder.TIMEOUT)
        return self.session()

    def ask(self, *words):
        done = subprocess.run([session_case.CONTRAIL, *words], capture_output=True, text=True, cwd=self.dir,
                              timeout=recorder.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    # ---- one for each program ----

    def test_hang(self):
        trace = self.spawn_hung(self.compile("silent_peer"), "working")
        idle = self.ask("info", trace)
        self.assertRegex(idle, r"thread 1 has been in read \(called by read_answer\) for \d")
        self.assertNotIn("report --locks", idle)
        last = self.ask("replay", "--tail", "60", "--args", trace)
        self.assertRegex(last, r"ask_peer\(socket=\d+, request=40, ")
        self.assertRegex(last, r"\} \S+ m?s  read_answer  still open at the end")

    def test_deadlock(self):
        trace = self.spawn_hung(self.compile("two_accounts"), "the last round")
        idle = self.ask("info", trace)
        self.assertRegex(idle, r"has been in pthread_mutex_lock \(called by transfer\) for \d")
        self.assertIn("`contrail report --locks` shows which threads wait", idle)
        locks = self.ask("report", "--locks", trace)
        self.assertIn("Deadlock", locks)
        waits = re.findall(r"(thread \d) has waited \S+ m?s for mutex (\w+) \(0x\w+\) in transfer, "
                           r"held by (thread \d) since \S+ s \(locked in transfer\)", locks)
        self.assertEqual({lock for _, lock, _ in waits}, {"checking", "savings"}, locks)
        self.assertEqual([(waits[0][0], waits[0][2])], [(waits[1][2], waits[1][0])], locks)

    def test_rare_error(self):
        trace = self.spawn(self.compile("rare_miss"), "--strings", "64", "--trigger",
                           "return=open*:errno:eq:ENOENT")
        failed = 'function like "open*" and result < 0'
        self.assertIn(r'file: always "acme\n.conf"', self.ask("report", "--where", failed, "--args", trace))
        call = self.ask("replay", "--where", failed, "--args", trace)
        self.assertRegex(call, r'open\(file="acme\\n.conf", .*\) = -1 ENOENT .* main > import_order > load_settings')
        self.assertEqual(call.count("open("), 1, call)

    def test_race(self):
        trace = self.spawn(self.compile("sold_twice"), "--detail", "always")
        wrong = self.ask("replay", "--where", 'function = "sell_seat" and result != 0', "--args", trace)
        seats = re.findall(r"sell_seat\(seat=(\d+), customer=\d+\) = \d+", wrong)
        self.assertEqual(seats, ["500"], wrong)
        story = self.ask("replay", "--where", "seat = " + seats[0], "--args", trace)
        steps = re.findall(r"sold_twice/(\d+) +(is_free|sell_seat)\(seat=500.*\) = (\d+)", story)
        self.assertEqual([step[1:] for step in steps[:2]], [("is_free", "1")] * 2, story)
        self.assertEqual([step[1] for step in steps[2:]], ["sell_seat"] * 2, story)
        self.assertEqual(len({step[0] for step in steps[:2]}), 2, story)

    def test_corruption(self):
        trace = self.spawn(self.compile("long_name"), "--trigger", "crash", "--strings", "64", "--detail-mem", "64M",
                           code=128 + signal.SIGSEGV)
        crash = self.ask("replay", "--around", "crash", "--args", trace)
        item = re.search(r'price_of\(item=(0x\w+) \{label="a label of thirt", price=0x\w+\}\) \{\n.*SIGSEGV', crash)
        self.assertTrue(item, crash)
        story = self.ask("replay", "--where", "item = %s and function != 'price_of'" % item[1], "--args", trace)
        self.assertRegex(story.splitlines()[-1], r'set_label\(item=.*, label="a label of thirty-two characters"\)')

    def test_regression(self):
        traces = [self.spawn(self.compile("lost_cache", "-DVERSION=%d" % version, directory="v%d" % version),
                             output="traces%d" % version) for version in (1, 2)]
        self.assertRegex(self.ask("diff", *traces), r" 20,000 +\+19,992 +resolve_name \[lost_cache\]")
        self.assertRegex(self.ask("graph", "resolve_name", traces[1]), r" 20,000 +100 % .* look_up \[lost_cache\]")


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
