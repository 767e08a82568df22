#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that are open when the recording ends last until then, in every command, whichever way it ends.

Usage: hangs.py CONTRAIL"""
import glob
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import session_case
from recorder import TIMEOUT, read_line

# Writes a line when it is about to hang: the main thread in stuck, a thread in wait_for_ever if there is an argument.
# One thread has ended before.
HANGS = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int over;
static __attribute__((noinline)) int step(int i) { volatile int sum = i; return ++sum; }
static __attribute__((noinline)) int stuck(void) { while (!over) pause(); return over; }
static __attribute__((noinline)) void *be_short(void *arg) { step(1); return arg; }
static __attribute__((noinline)) void *wait_for_ever(void *arg) { step(2); while (!over) pause(); return arg; }
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, NULL, be_short, NULL);
    pthread_join(thread, NULL);
    if (argc > 1)
        pthread_create(&thread, NULL, wait_for_ever, NULL);
    for (int i = 0; i < 1000; i++)
        step(i);
    puts("now");
    fflush(stdout);
    return stuck() + argv[0][0];
}
"""

# Two threads that wait for each other.
LOCKS = r"""
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t meeting;
static __attribute__((noinline)) void take(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    if (pthread_barrier_wait(&meeting)) {
        puts("now");
        fflush(stdout);
    }
    pthread_mutex_lock(second);
}
static __attribute__((noinline)) void *take_left(void *arg) { take(&left, &right); return arg; }
static __attribute__((noinline)) void *take_right(void *arg) { take(&right, &left); return arg; }
int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&meeting, NULL, 2);
    pthread_create(&threads[0], NULL, take_left, NULL);
    pthread_create(&threads[1], NULL, take_right, NULL);
    pthread_join(threads[0], NULL);
    return 0;
}
"""

IDLE = 1.2  # seconds; more than what counts as long


class Hangs(session_case.SessionCase):
    def start(self, program, *arguments, options=()):
        """Returns when the program hangs: the recorder, the target's pid."""
        plain = [session_case.CONTRAIL, "spawn", "--quiet", "--output", self.path("traces"), *options, "--", program,
                 *arguments]
        recorder = subprocess.Popen(plain, stdout=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stdout.close)
        self.addCleanup(recorder.wait, 60)
        self.assertEqual(read_line(recorder.stdout, "the program says that it waits now"), "now\n")
        with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children") as file:
            candidates = [int(word) for word in file.read().split()]
        mine = [pid for pid in candidates if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(program)]
        self.assertEqual(len(mine), 1, candidates)
        self.addCleanup(self.end, mine[0])
        return recorder, mine[0]

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def hang(self, *arguments, options=(), how="detach"):
        """Records a program that hangs. Returns its session."""
        recorder, pid = self.start(self.build("hangs", HANGS), *arguments, options=options)
        tail = subprocess.Popen([session_case.CONTRAIL, "tail", "--all", str(pid)], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)
        time.sleep(IDLE)
        if how == "detach":
            subprocess.run([session_case.CONTRAIL, "detach", str(pid)], check=True, capture_output=True,
                           timeout=TIMEOUT)
            self.assertRegex(tail.communicate(timeout=TIMEOUT)[0], r"\} 1\.\S+ s  stuck  still open at the end")
        elif how == "kill":
            recorder.kill()
        self.end(pid)
        recorder.wait(60)
        tail.communicate(timeout=TIMEOUT)
        return self.session()

    def ask(self, *words):
        done = subprocess.run([session_case.CONTRAIL, *words], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def info(self, session):
        return json.loads(self.ask("info", "--json", session))["processes"][0]

    def check_rows(self, session, functions, least):
        """Times of open calls reach from their beginning to the end of the recording."""
        rows = {row["name"]: row for row in json.loads(self.ask("report", "--json", session))["functions"]}
        for name in functions:
            self.assertEqual(rows[name]["open"], 1, name)
            self.assertGreater(rows[name]["total_ns"], least, name)
        self.assertIn("(1 open)", self.ask("report", session))
        return rows

    def test_until_detach(self):
        """In report, graph, replay, info and exports. The thread that has ended is no hang."""
        session = self.hang("thread", options=("--only", "hangs"))
        info = self.info(session)
        self.assertTrue(info["recording_known"])
        self.assertGreater(info["duration_ns"], 1e9)
        self.assertLess(info["time_end_ns"] + 1e9, info["recording_end_ns"])
        self.assertEqual(sorted(idle["innermost"]["function"] for idle in info["idle"]), ["stuck", "wait_for_ever"])
        self.assertEqual({idle["id"] for idle in info["idle"]}, {1, 3})
        rows = self.check_rows(session, ["stuck", "wait_for_ever"], 1e9)
        self.assertGreaterEqual(rows["main"]["total_ns"], rows["stuck"]["total_ns"])
        self.assertLess(rows["be_short"]["total_ns"], rows["stuck"]["total_ns"])
        graph = json.loads(self.ask("graph", "--json", "stuck", session))
        self.assertIn("still open at the end", self.ask("replay", session))
        self.assertEqual(graph["functions"][0]["total_ns"], rows["stuck"]["total_ns"])
        self.assertIn("thread 1 has been in stuck (called by main) for 1.", self.ask("info", session))
        self.check_exports(session, rows["stuck"]["total_ns"], info["waited_ns"])

    def check_exports(self, session, total_ns, waited_ns):
        """The spans of open calls reach the end. Reports leave out the time in which the process was stopped by us."""
        out = self.path("out")
        self.ask("export", "--format", "chrome", "-o", out, session)
        begins = {}
        with open(out) as file:
            for event in json.load(file)["traceEvents"]:
                if event["ph"] == "B" and event["name"] == "stuck":
                    begins = event
                elif event["ph"] == "E" and begins and event["tid"] == begins["tid"]:
                    span_ns = round((event["ts"] - begins["ts"]) * 1000)
                    self.assertGreaterEqual(span_ns, total_ns)
                    self.assertLessEqual(span_ns, total_ns + waited_ns)
                    self.assertIn("open", event["args"]["end"])
                    break
            else:
                self.fail("stuck does not end")
        self.ask("export", "--format", "folded", "-o", out, session)
        with open(out) as file:
            times = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in file}
        self.assertGreaterEqual(times["main;stuck"] + 1, total_ns / 1000)
        self.assertLessEqual(times["main;stuck"] - 1, (total_ns + waited_ns) / 1000)

    def test_until_a_kill_of_the_target(self):
        session = self.hang(how="end", options=("--only", "hangs"))
        self.check_rows(session, ["stuck", "main"], 1e9)
        self.assertEqual([idle["innermost"]["function"] for idle in self.info(session)["idle"]], ["stuck"])

    def test_until_the_recorder_was_killed(self):
        """Its last stamp is at most a second or so old: the program hangs longer."""
        global IDLE
        IDLE, before = 2.5, IDLE
        session = self.hang(how="kill", options=("--only", "hangs"))
        IDLE = before
        info = self.info(session)
        self.assertFalse(info["complete"])
        self.assertTrue(info["recording_known"])
        self.check_rows(session, ["stuck", "main"], 0.5e9)
        self.assertEqual([idle["innermost"]["function"] for idle in info["idle"]], ["stuck"])

    def test_an_older_trace(self):
        """It does not say when the recording ended."""
        session = self.hang(options=("--only", "hangs"))
        path = glob.glob(session + "/pid_*/manifest.json")[0]
        with open(path) as file:
            manifest = json.load(file)
        for key in ("recording_start_ns", "recording_end_ns"):
            del manifest[key]
        with open(path, "w") as file:
            json.dump(manifest, file)
        self.assertIn(" until the last event, by ", self.ask("info", session))
        self.assertEqual(self.info(session)["idle"], [])

    def test_a_deadlock(self):
        recorder, pid = self.start(self.build("locks", LOCKS))
        time.sleep(IDLE)
        live = self.ask("info", self.session())  # while it is recorded
        subprocess.run([session_case.CONTRAIL, "detach", str(pid)], check=True, capture_output=True, timeout=TIMEOUT)
        self.end(pid)
        recorder.wait(60)
        text = self.ask("info", self.session())
        self.assertIn("not finished", live)
        for number, name in ((2, "take_left"), (3, "take_right")):
            self.assertRegex(text, rf"thread {number} has been in \w*mutex_lock \(called by take\) for 1\.")
        self.assertRegex(text, r"thread 1 has been in \w*pthread_\w*join\w* \(called by main\) for 1\.")
        idle = {item["id"]: item for item in self.info(self.session())["idle"]}
        self.assertEqual(sorted(idle), [1, 2, 3])


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(argv=sys.argv)
