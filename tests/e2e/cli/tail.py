#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tail.py CONTRAIL STEPS LIBRARY: `contrail tail` beside real recordings of a program that does a step when it is asked
to."""

import collections
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import driver
from driver import LIMIT, run

CONTRAIL = driver.PROGRAM = os.path.abspath(sys.argv.pop(1))
STEPS = os.path.abspath(sys.argv.pop(1))
LIBRARY = os.path.abspath(sys.argv.pop(1))


class Piped:
    """A process whose standard output is read as it comes."""

    def __init__(self, *words, **how):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        **how)
        self.seen = ""

    def until(self, pattern):
        end = time.monotonic() + LIMIT
        while not (found := re.search(pattern, self.seen, re.M)):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not more:
                raise AssertionError(f"{pattern!r} did not come, only {self.seen!r}")
            self.seen += more.decode()
        return found

    def tell(self, letters):
        self.process.stdin.write(letters.encode())
        self.process.stdin.flush()

    def end(self):
        out, err = self.process.communicate(timeout=LIMIT)
        self.seen += out.decode()
        self.errors = err.decode()
        return self.process.returncode

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Tail(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.started = []

    def tearDown(self):
        for piped in self.started:
            piped.stop()
        shutil.rmtree(self.dir)

    def record(self, *options):
        self.recorder = Piped(CONTRAIL, "spawn", *options, STEPS, LIBRARY, cwd=self.dir)
        self.started.append(self.recorder)
        self.pid = int(self.recorder.until(r"^(\d+)\n")[1])

    def tail(self, *options, pid=None):
        tail = Piped(CONTRAIL, "tail", str(pid or self.pid), *options, cwd="/")
        self.started.append(tail)
        tail.until("CALL\n")
        return tail

    def finish(self, *tails):
        """The recording ends, and with it the commands that watch it."""
        self.assertEqual(self.recorder.end(), 0)
        for tail in tails:
            self.assertEqual(tail.end(), 0, tail.errors)
            self.assertEqual(tail.errors, "")

    @staticmethod
    def calls(tail):
        """Each line without time and thread."""
        return [re.sub(r"^ *\d+\.\d{9}  (\S+/)?\d+ +", "", line) for line in tail.seen.splitlines()[1:]]

    def begun(self, tail):
        """Names of the calls that are shown, in the order of their beginnings: one that lasts has a second line, for
        its end."""
        return [line.split()[0] for line in self.calls(tail) if not line.startswith("}")]

    def test_as_it_happens(self):
        self.record()
        tail = self.tail("--only", "step_*", "--only", "inner")
        self.recorder.tell("a")
        tail.until(r"step_a \{")
        tail.until(r"\}.* step_a$")
        self.assertEqual(self.begun(tail), ["step_a", "inner", "inner"])
        self.recorder.tell("w")
        tail.until(r"step_w \{$")
        self.assertNotRegex(tail.seen, r"\}.*step_w")
        self.recorder.tell("-")
        tail.until(r"\} \S+ \S+  step_w$")
        self.finish(tail)

    def test_same_as_replay(self):
        self.record()
        self.recorder.tell("at")
        tail = self.tail("--all", "--kind", "call", "--kind", "return", "--kind", "exception")
        self.recorder.tell("atal")
        late = self.tail("--only", "late_*", "--show-module")
        self.finish(tail, late)
        self.assertNotRegex(tail.seen, r"function_\d+_\d+")
        opened = collections.Counter(line.removesuffix(" {").removesuffix("  -") for line in self.calls(tail)
                                     if not line.startswith("}"))
        replayed = run("replay", cwd=self.dir).stdout
        names = re.findall(r"^ *\d+\.\d{9}  \S+/\d+ +([^}\s]\S*)(?: \{|  )", replayed, re.M)
        self.assertEqual(opened, collections.Counter(names))
        self.assertEqual(opened["step_a"], 5)
        self.assertEqual(opened["late_inner"], 1)
        times = [float(line.split()[0]) for line in tail.seen.splitlines()[1:]]
        self.assertEqual(times, sorted(times))

    def test_library_loaded_later(self):
        self.record()
        tail = self.tail("--only", "late_*", "--show-module")
        self.recorder.tell("l")
        tail.until(r"\} \S+ \S+  late_step \[" + re.escape(os.path.basename(LIBRARY)) + r"\]$")
        self.finish(tail)

    def test_filters(self):
        self.record()
        calls = self.tail("--kind", "call", "--only", "step_a", "--only", "inner")
        returns = self.tail("-k", "return", "--only", "step_a")
        helper = self.tail("--thread", "helper", "--only", "step_a", "--only", "inner")
        below = self.tail("--function", "step_a", "--depth", "1")
        without = self.tail("--function", "step_a", "--exclude", "inner")
        module = self.tail("--only", os.path.basename(STEPS), "-x", "main", "-x", "*letter*", "-x", "in_thread")
        slow = self.tail("--min-duration", "1h", "--only", "step_*")
        self.recorder.tell("a")
        calls.until("step_a")
        self.recorder.tell("t")
        self.finish(calls, returns, helper, below, without, module, slow)
        self.assertEqual(self.calls(calls), ["step_a {", "inner {", "inner {"] * 2)
        self.assertEqual([line.split()[-1] for line in self.calls(returns)], ["step_a", "step_a"])
        self.assertTrue(all("helper/" in line for line in helper.seen.splitlines()[1:]), helper.seen)
        self.assertEqual(self.begun(helper), ["step_a", "inner", "inner"])
        for tail in (below, without):
            self.assertEqual(self.begun(tail), ["step_a", "step_a"])
        self.assertEqual(self.begun(module).count("inner"), 4)
        self.assertEqual(self.calls(slow), [])

    def test_selection(self):
        """--where shows calls when they have ended, with the calls around them; times count from the beginning."""
        self.record()
        self.recorder.tell("a")
        where = self.tail("--all", "--where", "function = inner or function like late_st*")
        module = self.tail("--all", "--module", os.path.basename(LIBRARY))
        nobody = self.tail("--all", "--process", "1")
        program = self.tail("--all", "--process", os.path.basename(STEPS), "--only", "step_*")
        program.until("step_a")
        early = self.tail("--from", "0s", "--to", "-0s", "--only", "step_a")
        late = self.tail("--from", "1h")
        self.recorder.tell("al")
        module.until("late_step")
        self.assertEqual(early.end(), 0, early.errors)  # it ends at --to
        self.finish(where, module, nobody, program, late)
        self.assertEqual(len(re.findall(r"  inner  \d.* in .*step_a$", where.seen, re.M)), 4, where.seen)
        self.assertEqual([line.split()[0] for line in self.calls(where)], 4 * ["inner"] + ["late_step"])
        self.assertIn("late_inner", self.begun(module))
        self.assertNotIn("inner", self.begun(module))
        self.assertEqual((self.calls(nobody), self.calls(late)), ([], []))
        self.assertEqual(self.begun(program), ["step_a", "step_a"])
        self.assertEqual(self.begun(early), ["step_a"])

    def test_limit(self):
        self.record()
        tail = self.tail("--only", "inner", "-n", "3")
        self.recorder.tell("aaaa")
        self.assertEqual(tail.end(), 0)
        self.assertEqual(len(self.calls(tail)), 3)
        self.finish()

    def test_children(self):
        self.record()
        family, alone = self.tail("--only", "step_*"), self.tail("--only", "step_*", "--no-children")
        self.recorder.tell("f")
        child = int(self.recorder.until(r"^\d+\n(\d+)\n")[1])
        family.until(rf"\b{child} .*step_a")
        deadline = time.monotonic() + LIMIT
        while run("ctl", str(child), "status").returncode and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertLess(time.monotonic(), deadline, "the child is not recorded")
        own = self.tail("--only", "step_*", pid=child)
        self.recorder.tell("--a")
        self.assertEqual((own.end(), own.errors), (0, ""))
        self.finish(family, alone)
        self.assertIn("step_w", own.seen)
        self.assertNotRegex(own.seen, rf"\b{self.pid} ")
        self.assertRegex(family.seen, rf"\b{self.pid} ")
        self.assertNotRegex(alone.seen, rf"\b{child} ")
        self.assertIn("step_a", alone.seen)

    def test_deleted_events(self):
        """What the recorder does not keep is reported, once."""
        self.record("--keep", "256K", "--format", "atf2")
        self.recorder.tell("bbbbb")
        early = self.tail("--only", "step_a")
        self.recorder.tell("a")
        early.until("step_a")
        late = self.tail("--all", "--only", "step_*")
        self.finish(early, late)
        self.assertEqual(late.seen.count("deleted by --keep"), 1, late.seen)
        self.assertRegex(late.seen.splitlines()[1],
                         r"-- [\d,]+ events lost here: deleted by --keep before they were read --")
        self.assertIn("step_a", late.seen)

    def test_marks(self):
        """While the process does nothing, and of the recording's last moment; each once, here and in replay."""
        self.record()
        self.assertEqual(run("ctl", str(self.pid), "mark", "--label", "zero").returncode, 0)
        time.sleep(0.2)  # longer than what a tail from now on shows of the past
        later = self.tail("--only", "step_*")
        every = self.tail("--all", "--kind", "mark")
        self.assertEqual(run("ctl", str(self.pid), "mark", "--label", "one").returncode, 0)
        later.until(r'^ *\S+ +-- mark "one" --$')
        every.until(r'-- mark "one" --$')
        self.recorder.tell("a")
        later.until(r"step_a ")
        self.assertEqual(run("ctl", str(self.pid), "mark").returncode, 0)
        self.finish(later, every)
        self.assertEqual(re.findall("-- mark.*", later.seen), ['-- mark "one" --', "-- mark --"])
        self.assertEqual(re.findall("-- mark.*", every.seen), ['-- mark "zero" --', '-- mark "one" --', "-- mark --"])
        self.assertEqual(len(every.seen.splitlines()), 4)
        shown = json.loads(run("replay", "--json", cwd=self.dir).stdout)
        self.assertEqual([m.get("label") for m in shown if m["kind"] == "mark"], ["zero", "one", None])
        self.assertEqual([m["time_ns"] for m in shown], sorted(m["time_ns"] for m in shown))
        few = json.loads(run("replay", "--json", "--limit", "1", "--around", "mark=one", cwd=self.dir).stdout)
        self.assertEqual(len(few), 1)

    def test_reader_goes_away(self):
        self.record()
        tail = self.tail()
        tail.process.stdout.close()
        self.assertEqual(tail.process.wait(LIMIT), 0)
        self.finish()

    def test_ends_with_detach_and_with_keys(self):
        self.record()
        detached, broken = self.tail(), self.tail()
        broken.process.send_signal(signal.SIGINT)
        self.assertEqual(broken.end(), -signal.SIGINT)
        self.assertEqual(run("detach", str(self.pid)).returncode, 0)
        self.assertEqual(detached.end(), 0)
        self.finish()

    def test_killed_recorder(self):
        self.record()
        tail = self.tail("--only", "step_a")
        self.recorder.tell("a")
        tail.until("step_a")
        self.recorder.process.kill()
        self.assertEqual(tail.end(), 0)
        self.assertIn("the recorder was killed", tail.errors)
        os.kill(self.pid, signal.SIGKILL)

    def test_values(self):
        """Results, of calls that ended a while ago and of the last ones. next_letter returns the letter."""
        self.record("--detail", "always")
        given = r"next_letter(\(\))? = (97|0x61)\b"
        where = self.tail("--all", "--args", "--where", "function = next_letter and result = 97")
        every = self.tail("--all", "--args", "--only", "next_letter")
        self.recorder.tell("a")
        where.until(given)
        every.until(given)
        self.assertNotIn("in main > step_w", where.seen)
        self.recorder.tell("bwa")
        where.until(r"next_letter.*in .*main > step_w$")
        self.finish(where, every)
        self.assertEqual(len(re.findall(given, where.seen)), 2, where.seen)
        self.assertEqual(len(self.calls(where)), 2)
        self.assertEqual(len(re.findall(r"next_letter(\(\))? = ", every.seen)), 5, every.seen)

    def test_no_values(self):
        self.record()
        for word in ("--args", "--where=result < 0"):
            done = run("tail", str(self.pid), word)
            self.assertEqual((done.returncode, done.stdout), (69, ""))
            self.assertIn("recorded with --detail always, and process %d is not" % self.pid, done.stderr)
        done = run("tail", str(self.pid), "--where", "rezult < 0")
        self.assertEqual(done.returncode, 64)
        self.assertIn("did you mean result?", done.stderr)
        self.finish()

    def test_mistakes(self):
        with driver.target("sleep", "60") as process:
            done = run("tail", str(process.pid))
        self.assertEqual(done.returncode, 69)
        self.assertIn(f"nobody records process {process.pid}; `contrail attach {process.pid}` records it", done.stderr)
        self.assertEqual(run("tail", "4194304").returncode, 69)
        self.assertEqual(run("tail").returncode, 64)
        self.assertEqual(run("tail", "one").returncode, 64)
        self.assertEqual(run("tail", "1", "--from", "noon").returncode, 64)
        self.assertEqual(run("tail", "1", "--where", "result <").returncode, 64)
        done = run("tail", "--kind", "exeption", "1")
        self.assertEqual(done.returncode, 64)
        self.assertIn("did you mean exception?", done.stderr)


if __name__ == "__main__":
    unittest.main()
