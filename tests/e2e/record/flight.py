#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: what marks a moment, which detail is then on disk, and how a recording is changed while it goes
on.

Usage: flight.py CONTRAIL"""
import glob
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import atf
import detail_file
import session_case
from recorder import TIMEOUT, read_line

# Fails in its last call but 50, and prints what it was called with.
LAST = 20000 if os.environ.get("CONTRAIL_TEST_EMULATED") else 1000000
FAILS = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef __x86_64__ /* the return address, then what the caller has put there */
#define ENTRY  ((uintptr_t)__builtin_frame_address(0) + 8)
#define CALLER (ENTRY + 8)
#else
#define ENTRY  ((uintptr_t)__builtin_dwarf_cfa())
#define CALLER ENTRY
#endif
__attribute__((noipa)) int step(long number, const char *text, unsigned *state, long a, long b, long c, long d,
                                long e) {
    unsigned char stack[120]; /* after the return address: a function that looks at that is recorded on entry only */
    uintptr_t entry = ENTRY;
    if (number == LAST)
        memcpy(stack, (const void *)CALLER, sizeof stack); /* before *state, which is there too, changes */
    *state = *state * 1664525u + 1013904223u;
    if (number != LAST)
        return (int)(*state >> 1);
    printf("%ld %lu %lu %ld %ld %ld %ld %ld %lu ", number, (unsigned long)text, (unsigned long)state, a, b, c, d, e,
           (unsigned long)entry);
    for (unsigned i = 0; i < sizeof stack; i++)
        printf("%02x", stack[i]);
    printf("\n");
    return -22;
}
int main(void) {
    unsigned state = 1;
    int sum = 0;
    for (long i = 1; i <= LAST; i++)
        sum += step(i, "some text", &state, i * 3, -i, i ^ 0x5555, i + 7, i << 20);
    for (long i = LAST + 1; i <= LAST + 50; i++)
        sum += step(i, "behind", &state, i * 3, -i, i ^ 0x5555, i + 7, i << 20);
    return sum == 12345;
}
"""

# Does what its input says: a letter and a number a line.
TOLD = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) int alpha(int i) {
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop" : "+r"(i));
    return i;
}
__attribute__((noipa)) int beta(int i) {
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop" : "+r"(i));
    return i % 10 ? i : -i - 1;
}
__attribute__((noipa)) void lazy(int ms) { usleep(ms * 1000); }
static volatile int sink;
static void obey(void) {
    char line[64];
    while (fgets(line, sizeof line, stdin) && *line != 'q') {
        int n = atoi(line + 1);
        for (int i = 0; i < n && *line == 'a'; i++) sink = alpha(i);
        for (int i = 0; i < n && *line == 'b'; i++) sink = beta(i);
        for (int i = 0; i < n && *line == 'c'; i++) { sink = alpha(i); sink = beta(i + 1); }
        for (int i = 0; i < n && *line == 'd'; i++) { /* a library of its own each time */
            void *library = dlopen("./late.so", RTLD_NOW);
            sink = ((int (*)(int))dlsym(library, "late"))(i);
            dlclose(library);
        }
        if (*line == 'l') lazy(n);
        if (*line == 's') usleep(n * 1000);
        if (*line == 'f' && fork() == 0) {
            if (!freopen("child", "r", stdin)) _exit(1); /* a pipe of its own */
            setvbuf(stdin, 0, _IONBF, 0);
            printf("child %d\n", (int)getpid());
            obey();
            _exit(0);
        }
        if (*line == 'x') execl("/proc/self/exe", "again", (char *)0);
        if (*line != 'f') printf("%c\n", *line);
    }
}
int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    setvbuf(stdin, 0, _IONBF, 0);
    printf("pid %d\n", (int)getpid());
    obey();
    while (wait(0) > 0)
        ;
    return 0;
}
"""


class Told:
    """A recorded TOLD, and the contrail that records it."""

    def __init__(self, case, *options, environment=None, command="spawn"):
        self.case = case
        self.process = subprocess.Popen(
            [session_case.CONTRAIL, command, "--quiet", "--output", case.path("traces"), *options, "--", case.told],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1, cwd=case.dir,
            env={**os.environ, **(environment or {})})
        self.pid = int(read_line(self.process.stdout, "the program's process id").split()[1])

    def send(self, line):
        self.process.stdin.write(line + "\n")

    def do(self, *lines):
        """Each of them is done when this returns."""
        for line in lines:
            self.send(line)
            self.case.assertEqual(read_line(self.process.stdout, "an order is done"), line[0] + "\n")

    def fork(self):
        """The pid of a child, and the pipe for its commands."""
        os.mkfifo(self.case.path("child"))
        self.send("f0")
        pipe = open(self.case.path("child"), "w")
        self.case.addCleanup(pipe.close)
        return int(read_line(self.process.stdout, "the child's process id").split()[1]), pipe

    def child_does(self, pipe, line):
        pipe.write(line + "\n")
        pipe.flush()
        self.case.assertEqual(read_line(self.process.stdout, "a child's order is done"), line[0] + "\n")

    def ctl(self, *words, pid=None):
        done = subprocess.run([session_case.CONTRAIL, "ctl", str(pid or self.pid), *words], capture_output=True,
                              text=True, timeout=TIMEOUT)
        self.case.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def status(self):
        return json.loads(self.ctl("status", "--json"))

    def until(self, holds):
        """Waits until the status is so."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            status = self.status()
            if holds(status):
                return status
            time.sleep(0.01)
        self.case.fail("it never was so: %s" % json.dumps(status))

    def pause(self):
        """It may have answered before its recorder knew that it runs."""
        self.until(lambda status: status["state"] == "running")
        return self.ctl("pause")

    def end(self, code=0):
        _, errors = self.process.communicate(timeout=TIMEOUT)
        self.case.assertEqual((self.process.returncode, errors), (code, ""))
        verify = subprocess.run([session_case.CONTRAIL, "verify", self.case.session()], capture_output=True, text=True)
        self.case.assertEqual(verify.returncode, 0, verify.stdout)
        return self.traces()[self.pid]

    def end_after_close(self):
        self.process.stdin.close()
        self.process.stdin = open(os.devnull, "w")
        return self.end()

    def traces(self):
        return {t.pid: t for t in map(atf.Trace, glob.glob(self.case.path("traces/session_*/pid_*")))}

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except OSError:
                pass
        self.process.wait()


class FlightCase(session_case.SessionCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = tempfile.TemporaryDirectory(prefix="contrail-flight-")
        for name, text in (("fails", FAILS), ("told", TOLD)):
            source = os.path.join(cls.programs.name, name + ".c")
            with open(source, "w") as out:
                out.write(text)
            setattr(cls, name, os.path.join(cls.programs.name, name))
            subprocess.run(["gcc", "-O1", "-g", "-DLAST=%d" % LAST, "-o", getattr(cls, name), source], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.programs.cleanup()

    def told_with(self, *options, **more):
        told = Told(self, *options, *(() if "command" in more else ("--lossless",)), **more)
        self.addCleanup(told.kill)
        return told

    def calls(self, trace):
        """How often each function of the program was called."""
        counts = {}
        for thread in trace.threads:
            for function, kind in zip(thread.functions, thread.kinds):
                name = trace.functions[function].name
                if kind == atf.CALL and name in ("alpha", "beta", "lazy", "late"):
                    counts[name] = counts.get(name, 0) + 1
        return counts

    def details(self, trace):
        """All detail records, after a look at the links of both sides."""
        records = []
        for thread in trace.threads:
            own = detail_file.read(os.path.join(trace.directory, "thread_%d" % thread.id))
            for ordinal, record in enumerate(own):
                at = record.index_seq
                self.assertEqual((thread.details[at], thread.functions[at], thread.times[at], thread.kinds[at]),
                                 (ordinal, record.function, record.time, record.type - 2))
            self.assertEqual([d for d in thread.details if d != atf.NO_DETAIL], list(range(len(own))))
            records += own
        return records

    def name(self, trace, record):
        return trace.functions[record.function].name


class Fails(FlightCase):
    """A program that fails in one call, after many."""

    def is_quick(self, trace, limit_ns):
        """The machine did not hold the failing call up."""
        step = next(f.id for f in trace.functions.values() if f.name == "step")
        times = [when for thread in trace.threads for when, function in zip(thread.times, thread.functions)
                 if function == step]
        return times[2 * LAST - 1] - times[2 * LAST - 2] < limit_ns

    def check(self, *options, limit_ns=None):
        """`limit_ns`: the pre-roll. In a run whose failing call takes longer than that, its record is not wanted."""
        for _ in range(20):
            done, _ = self.record(self.fails, options=options)
            trace = atf.Trace(glob.glob(self.session() + "/pid_*")[0])
            if limit_ns is None or self.is_quick(trace, limit_ns):
                break
        printed = done.stdout.split()
        expected, stack = [int(word) for word in printed[:9]], bytes.fromhex(printed[9])
        windows = trace.manifest["windows"]
        self.assertEqual(len(windows), 1, windows)
        reasons = windows[0]["reasons"]
        self.assertEqual([(r["trigger"], r["count"]) for r in reasons], [("return=step:lt:-20", 1)])
        self.assertEqual(trace.functions[reasons[0]["function_id"]].name, "step")
        records = [r for r in self.details(trace) if self.name(trace, r) == "step"]
        at = next(i for i, r in enumerate(records) if r.type == detail_file.CALL and r.registers[0] == LAST)
        call, back = records[at], records[at + 1]
        self.assertEqual(call.eight_arguments(), [n % 2**64 for n in expected[:8]])
        self.assertEqual((call.stack_pointer, call.callers[:120]), (expected[8], stack))
        # the program's own, not a stub's
        self.assertTrue(call.returns_as_stack_says())
        self.assertEqual(self.function_at(trace, call.return_address), "main")
        self.assertEqual((back.type, back.registers[0] & 0xffffffff), (detail_file.RETURN, 2**32 - 22))
        self.assertEqual(back.time, windows[0]["first_mark_ns"])
        return records, at, trace, windows[0]

    def function_at(self, trace, address):
        return next(f.name for f in trace.functions.values()
                    if f.module.base + f.offset <= address < f.module.base + f.offset + f.size)

    def check_before(self, records, at, calls):
        """So many calls are there before it, one after the other, with their arguments."""
        self.assertGreaterEqual(at, 2 * calls)
        for i in range(1, calls + 1):
            number, call, back = LAST - i, records[at - 2 * i], records[at - 2 * i + 1]
            self.assertEqual((call.type, back.type), (detail_file.CALL, detail_file.RETURN))
            arguments = call.eight_arguments()
            self.assertEqual([arguments[k] for k in (0, 3, 4, 5, 7)],
                             [number, number * 3, 2**64 - number, number ^ 0x5555, number << 20])

    def test_rolls_in_time(self):
        records, at, trace, window = self.check("--trigger", "return=step:lt:-20", "--only", "step", "--pre-roll-ms",
                                                "100",
                                            "--post-roll-ms", "100", limit_ns=10**8)
        first, last, mark = window["start_ns"], window["end_ns"], window["first_mark_ns"]
        self.assertEqual(window["pre_roll_ns"], mark - first)
        self.assertLessEqual(mark - first, 10**8)
        self.assertEqual(last == mark + 10**8, window["post_roll"] == "whole")
        self.assertIn(window["post_roll"], ("whole", "cut by the end"))
        times = [when for thread in trace.threads for when, function in zip(thread.times, thread.functions)
                 if first <= when <= last and trace.functions[function].name == "step"]
        # All of the window, as far as memory reaches. What the thread gave up before that may be there as well, if the
        # recorder came to it after the mark only.
        inside = [r.time for r in records if r.time >= first]
        self.assertEqual(inside, times[-len(inside):])
        self.assertGreaterEqual(len(inside), min(len(times), 302))
        self.check_before(records, at, min(100, at // 2))

    def test_rolls_in_records(self):
        records, at, _, window = self.check("--trigger", "return=step:lt:-20", "--only", "step", "--pre-roll-events",
                                            "41", "--post-roll-events", "10", "--format", "atf2")
        self.check_before(records, at, 20)
        self.assertEqual((at, len(records)), (40, 52))  # 41 before the return, which is marked; 10 after it
        self.assertEqual(window["records"], 52)

    def test_no_stack(self):
        self.record(self.fails,
                    options=["--trigger", "return=step:lt:-20", "--stack-bytes", "0", "--pre-roll-ms", "60000"])
        trace = atf.Trace(glob.glob(self.session() + "/pid_*")[0])
        call = next(r for r in self.details(trace) if self.name(trace, r) == "step" and r.registers[0] == LAST)
        self.assertEqual((call.stack, call.rest), (b"", b""))
        self.assertEqual(self.function_at(trace, call.return_address), "main")


class Marks(FlightCase):
    def reasons(self, trace):
        return [{r["trigger"]: r["count"] for r in w["reasons"]} for w in trace.manifest["windows"]]

    def test_far_apart_and_close_together(self):
        told = self.told_with("-t", "symbol=alpha", "-t", "return=beta:lt:0", "--pre-roll-ms", "100", "--post-roll-ms",
                              "100")
        told.do("a3", "s600", "b11", "s600", "b9")  # beta(0) and beta(10) return less than 0
        trace = told.end_after_close()
        thread = trace.threads[0]
        events = [(when, trace.functions[function].name, kind)
                  for when, function, kind in zip(thread.times, thread.functions, thread.kinds)]
        alphas = [when for when, name, kind in events if (name, kind) == ("alpha", atf.CALL)]
        betas = [when for when, name, kind in events if (name, kind) == ("beta", atf.RETURN)]
        marks = [(when, "symbol=alpha") for when in alphas] + [(betas[i], "return=beta:lt:0") for i in (0, 10, 11)]
        # those whose windows overlap: the three that are asked for here, unless the machine was held up
        groups = [[marks[0]]]
        for before, mark in zip(marks, marks[1:]):
            groups += [[]] if mark[0] - before[0] > 2 * 10**8 else []
            groups[-1].append(mark)
        expected = [{text: [t for _, t in group].count(text) for _, text in group} for group in groups]
        self.assertEqual(self.reasons(trace), expected)
        self.assertGreaterEqual(len(groups), 3)
        for group, window in zip(groups[:-1], trace.manifest["windows"]):
            self.assertEqual((window["first_mark_ns"], window["end_ns"]), (group[0][0], group[-1][0] + 10**8))
            self.assertEqual((window["post_roll"], window["post_roll_ns"]), ("whole", 10**8))
        wanted = [(w["start_ns"], w["end_ns"]) for w in trace.manifest["windows"]]
        for record in self.details(trace):
            self.assertTrue(any(a <= record.time <= b for a, b in wanted), "a record that nobody wanted")
        self.assertEqual(trace.manifest["marks"], 6)

    def test_overlaps_are_one_window_with_all_reasons(self):
        told = self.told_with("-t", "symbol=alpha", "-t", "return=beta:ne:5", "-t", "slow=lazy:250ms", "--pre-roll-ms",
                              "60000", "--post-roll-ms", "60000")
        told.do("a3", "b6", "l300", "l0", "a1")
        trace = told.end_after_close()
        thread = trace.threads[0]
        lazy = [when for when, function in zip(thread.times, thread.functions)
                if trace.functions[function].name == "lazy"]
        # the second, if the machine was held up
        slow = sum(end - begin >= 250 * 10**6 for begin, end in zip(lazy[::2], lazy[1::2]))
        self.assertIn(slow, (1, 2))
        self.assertEqual(self.reasons(trace), [{"symbol=alpha": 4, "return=beta:ne:5": 5, "slow=lazy:250ms": slow}])
        window = trace.manifest["windows"][0]
        self.assertEqual((window["pre_roll"], window["post_roll"]), ("cut by the start", "cut by the end"))
        self.assertLess(window["pre_roll_ns"], 60 * 10**9)
        calls = self.calls(trace)
        self.assertEqual(calls, {"alpha": 4, "beta": 6, "lazy": 2})
        self.assertEqual({name: sum(1 for r in self.details(trace) if r.type == detail_file.CALL
                                    and self.name(trace, r) == name)
                          for name in calls}, calls)

    def test_nothing_is_marked(self):
        told = self.told_with("-t", "symbol=gamma", "-t", "return=alpha:lt:0", "-t", "slow=lazy:100s")
        told.do("c100", "l1")
        trace = told.end_after_close()
        self.assertEqual((trace.manifest["windows"], trace.manifest["marks"], self.details(trace)), ([], 0, []))

    def test_times_of_the_day(self):
        for hours, marked in ((0, True), (6, False)):
            with self.subTest(hours=hours):
                now = time.gmtime(time.time() + hours * 3600)
                then = time.gmtime(time.time() + hours * 3600 + 600)
                span = "time=%02d:%02d-%02d:%02d" % (now.tm_hour, now.tm_min, then.tm_hour, then.tm_min)
                told = self.told_with("-t", span, "--pre-roll-ms", "0", "--post-roll-ms", "0",
                                      environment={"TZ": "UTC"})
                if marked:
                    told.until(lambda status: status["detail"]["state"] == "persisting")
                told.do("c10", "s50", "c10")
                trace = told.end_after_close()
                self.assertEqual(self.reasons(trace), [{span: 1}] if marked else [])
                found = [self.name(trace, r) for r in self.details(trace) if r.type == detail_file.CALL]
                self.assertEqual(found.count("alpha"), 20 if marked else 0)
                subprocess.run(["rm", "-r", self.path("traces")], check=True)

    def test_always(self):
        told = self.told_with("--detail", "always", "-t", "symbol=alpha")
        told.do("c50")
        trace = told.end_after_close()
        self.assertEqual(self.reasons(trace), [{"always": 1, "symbol=alpha": 50}])
        window = trace.manifest["windows"][0]
        thread = trace.threads[0]
        self.assertLessEqual(window["start_ns"], thread.times[0])
        self.assertGreaterEqual(window["end_ns"], thread.times[-1])
        records = self.details(trace)
        lost = sum(trace.manifest["detail"]["lost"].values()) + trace.manifest["detail"]["limited"]
        found = [self.name(trace, r) for r in records if r.type == detail_file.CALL]
        self.assertEqual((found.count("alpha"), found.count("beta")), (50, 50))
        self.assertGreaterEqual(len(records) + lost, sum(1 for k in thread.kinds if k == atf.CALL))

    def test_off(self):
        told = self.told_with("--detail", "off", "-t", "symbol=alpha")
        told.do("c50")
        done = subprocess.run([session_case.CONTRAIL, "ctl", str(told.pid), "mark"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn("--detail off", done.stderr)
        trace = told.end_after_close()
        self.assertEqual(self.calls(trace), {"alpha": 50, "beta": 50})
        self.assertEqual(trace.manifest["windows"], [])
        self.assertEqual(glob.glob(self.path("traces/session_*/pid_*/thread_*/detail*")), [])

    def test_storm(self):
        """A mark with each call, millions a second: no event is missing, and each mark is counted."""
        told = self.told_with("-t", "symbol=alpha", "--only", "alpha", "--pre-roll-ms", "1", "--post-roll-ms", "1")
        told.do("a200000")
        trace = told.end_after_close()
        self.assertEqual(self.calls(trace), {"alpha": 200000})
        self.assertEqual(trace.lost, 0)
        listed = sum(r["count"] for w in trace.manifest["windows"] for r in w["reasons"])
        self.assertEqual(trace.manifest["marks"], listed)
        self.assertEqual(listed + trace.manifest["detail"]["marks_not_listed"], 200000)

    def test_child_has_the_same_triggers(self):
        told = self.told_with("-t", "return=beta:lt:0", "--pre-roll-ms", "60000", "--post-roll-ms", "0")
        child, pipe = told.fork()
        told.child_does(pipe, "b1")
        pipe.close()
        told.do("a1")
        told.end_after_close()
        traces = told.traces()
        self.assertEqual({pid: trace.manifest["marks"] for pid, trace in traces.items()}, {told.pid: 0, child: 1})
        found = [self.name(traces[child], r) for r in self.details(traces[child]) if r.type == detail_file.CALL]
        self.assertEqual(found.count("beta"), 1)


class Control(FlightCase):
    def refused(self, told, code, *words):
        done = subprocess.run([session_case.CONTRAIL, "ctl", str(told.pid), *words], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (code, "", 1), words)
        return done.stderr

    def test_states(self):
        told = self.told_with("--only", "alpha", "--only", "beta", "--pre-roll-ms", "60000", "--post-roll-events", "20")
        told.do("c10")
        self.assertEqual(told.status()["detail"]["state"], "capturing")
        self.assertEqual(told.ctl("mark"), "marked\n")
        told.until(lambda status: status["detail"]["state"] == "persisting")
        told.do("c5")  # 20 records
        status = told.until(lambda status: status["detail"]["state"] == "capturing")
        self.assertEqual((status["detail"]["marks"], status["detail"]["windows"]), (1, 1))
        told.do("c3")
        trace = told.end_after_close()
        windows = trace.manifest["windows"]
        self.assertEqual([[(r["trigger"], r["count"]) for r in w["reasons"]] for w in windows], [[("manual", 1)]])
        self.assertEqual(windows[0]["post_roll"], "whole")
        found = [self.name(trace, r) for r in self.details(trace) if r.type == detail_file.CALL]
        self.assertEqual((found.count("alpha"), found.count("beta")), (15, 15))

    def test_a_mark_soon_after_a_window(self):
        """What is after the end of a window is there when the next mark wants it."""
        told = self.told_with("--pre-roll-ms", "60000", "--post-roll-ms", "0")
        told.do("c10")
        told.ctl("mark")
        told.until(lambda status: status["detail"]["windows"] == 1 and status["detail"]["state"] == "capturing")
        told.do("s300", "c7")
        told.ctl("mark")
        told.until(lambda status: status["detail"]["marks"] == 2 and status["detail"]["state"] == "capturing")
        trace = told.end_after_close()
        self.assertEqual(len(trace.manifest["windows"]), 1)  # the second reaches into the first
        found = [self.name(trace, r) for r in self.details(trace) if r.type == detail_file.CALL]
        self.assertEqual(found.count("alpha"), 17)

    def test_places_of_others(self):
        """Another recorder that is stopped while callers queue up does not hold anybody up; what leads nowhere is
        cleared away."""
        with tempfile.TemporaryDirectory(prefix="contrail-flight-",
                                         dir="/tmp") as runtime, socket.socket(socket.AF_UNIX) as stopped:
            place = os.path.join(runtime, "contrail")
            os.mkdir(place, 0o700)
            stopped.bind(os.path.join(place, "1.sock"))
            stopped.listen(0)
            callers = [socket.socket(socket.AF_UNIX) for _ in range(3)]
            for caller in callers:
                self.addCleanup(caller.close)
                caller.setblocking(False)
                caller.connect_ex(os.path.join(place, "1.sock"))
            for link, target in (("2.sock", "1.sock"), ("4.sock", "3.sock")):
                os.symlink(target, os.path.join(place, link))
            done = subprocess.run([session_case.CONTRAIL, "spawn", "--quiet", "-o", os.path.join(runtime, "out"),
                                   "/bin/true"],
                                  env=dict(os.environ, XDG_RUNTIME_DIR=runtime), timeout=TIMEOUT)
            self.assertEqual((done.returncode, sorted(os.listdir(place))), (0, ["1.sock", "2.sock"]))

    def place(self):
        """A directory for sockets, of this test's own."""
        runtime = tempfile.mkdtemp(prefix="contrail-flight-", dir="/tmp")
        self.addCleanup(shutil.rmtree, runtime, ignore_errors=True)
        return runtime

    def test_answer_to_stop(self):
        """It comes when all is done: the socket is gone, the last numbers are written, the trace is complete."""
        runtime, metrics = self.place(), self.path("metrics.prom")
        told = self.told_with("--metrics-file", metrics, environment={"XDG_RUNTIME_DIR": runtime})
        told.do("c5")
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(os.path.join(runtime, "contrail", "%d.sock" % told.pid))
            caller.sendall(b"stop\n")
            said = caller.recv(100)
            left = os.listdir(os.path.join(runtime, "contrail"))
            with open(metrics) as file:
                up = [line for line in file if line.startswith("contrail_up ")]
            trace = told.traces()[told.pid]
        self.assertEqual((said, left, up, trace.complete), (b"ok", [], ["contrail_up 0\n"], True))
        told.do("c3")
        self.assertEqual(self.calls(told.end_after_close()), {"alpha": 5, "beta": 5})

    def test_place_of_the_next(self):
        """Who records a process after us may have its socket there before we are through."""
        runtime = self.place()
        told = self.told_with(environment={"XDG_RUNTIME_DIR": runtime})
        path = os.path.join(runtime, "contrail", "%d.sock" % told.pid)
        with socket.socket(socket.AF_UNIX) as next_one:
            os.unlink(path)
            next_one.bind(path)
            next_one.listen(1)
            told.end_after_close()
            self.assertEqual(os.listdir(os.path.join(runtime, "contrail")), [os.path.basename(path)])

    def test_end_while_a_caller_waits(self):
        """Who is still in the queue when the session ends learns that nobody records the process."""
        runtime = self.place()
        environment = dict(os.environ, XDG_RUNTIME_DIR=runtime)
        told = self.told_with(environment={"XDG_RUNTIME_DIR": runtime})
        words = [session_case.CONTRAIL, "ctl", str(told.pid)]
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(os.path.join(runtime, "contrail", "%d.sock" % told.pid))
            first.sendall(b"stop\n")
            done = subprocess.run([*words, "status"], capture_output=True, text=True, env=environment, timeout=TIMEOUT)
            self.assertEqual(first.recv(100), b"ok")
        self.assertIn(done.returncode, (0, 69), done.stderr)
        if done.returncode:
            self.assertIn("nobody records process %d" % told.pid, done.stderr)
        told.end_after_close()

    def test_long_place(self):
        """Names of sockets are short; that of their directory does not matter."""
        runtime = self.path("r" * 80)
        os.mkdir(runtime, 0o700)
        told = self.told_with(environment={"XDG_RUNTIME_DIR": runtime})
        done = subprocess.run([session_case.CONTRAIL, "ctl", str(told.pid), "status"], capture_output=True, text=True,
                              env=dict(os.environ, XDG_RUNTIME_DIR=runtime), timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        place = os.path.join(runtime, "contrail")
        self.assertEqual(os.listdir(place), ["%d.sock" % told.pid])
        told.end_after_close()
        self.assertEqual(os.listdir(place), [])

    def test_triggers(self):
        told = self.told_with("-t", "symbol=nothing", "--pre-roll-ms", "0", "--post-roll-ms", "0")
        self.assertEqual(told.ctl("trigger", "list"), "symbol=nothing\n")
        told.do("a5")
        told.ctl("trigger", "add", "symbol=alpha")
        told.do("a3")
        told.ctl("trigger", "add", "return=beta:lt:0")
        told.ctl("trigger", "remove", "symbol=alpha")
        told.do("a7", "b1")
        told.ctl("trigger", "remove", "return=beta:lt:0")
        told.ctl("trigger", "remove", "symbol=nothing")
        told.do("c10")
        self.assertEqual(told.ctl("trigger", "list"), "there are no triggers\n")
        self.assertIn("symbol=GLOB", self.refused(told, 64, "trigger", "add", "nonsense"))
        self.assertIn("there is no trigger", self.refused(told, 64, "trigger", "remove", "crash"))
        trace = told.end_after_close()
        counted = {}
        for window in trace.manifest["windows"]:
            for reason in window["reasons"]:
                counted[reason["trigger"]] = counted.get(reason["trigger"], 0) + reason["count"]
        self.assertEqual(counted, {"symbol=alpha": 3, "return=beta:lt:0": 1})
        self.assertEqual(self.calls(trace), {"alpha": 25, "beta": 11})

    def test_sixteen_triggers(self):
        told = self.told_with(*["--trigger=symbol=f%d" % i for i in range(16)])
        self.assertIn("16 triggers on functions already", self.refused(told, 64, "trigger", "add", "symbol=alpha"))
        told.ctl("trigger", "remove", "symbol=f3")
        told.ctl("trigger", "add", "symbol=alpha")
        told.do("a2")
        trace = told.end_after_close()
        self.assertEqual(trace.manifest["marks"], 2)

    def test_exclude_and_record(self):
        told = self.told_with("--detail", "off")
        told.do("c10")
        told.ctl("exclude", "add", "alpha")
        told.do("c20")
        told.ctl("record", "off")
        told.do("c40")
        self.assertIn("off already", self.refused(told, 64, "record", "off"))
        told.ctl("record", "on")
        told.do("c80")
        told.ctl("exclude", "remove", "alpha")
        told.do("c160")
        status = told.status()
        self.assertEqual((status["policy"]["version"], status["policy"]["excluded"], status["policy"]["recording"]),
                         (5, [], True))
        trace = told.end_after_close()
        self.assertEqual(self.calls(trace), {"alpha": 10 + 160, "beta": 10 + 20 + 80 + 160})
        self.assertEqual(trace.check(), [])

    def test_exclude_by_module(self):
        told = self.told_with("--detail", "off")
        told.ctl("exclude", "add", "told")
        told.do("c10")
        told.ctl("exclude", "remove", "told")
        told.do("c3")
        self.assertEqual(self.calls(told.end_after_close()), {"alpha": 3, "beta": 3})

    def test_libraries_that_come_later(self):
        """What is wished is in force in them from their first call on."""
        self.build("late.so", "int late(int i) { return i * 3 + (i >> 2); }\n", "-shared", "-fPIC")
        told = self.told_with("-t", "symbol=nothing", "--pre-roll-ms", "0", "--post-roll-ms", "0")
        told.do("d1")
        told.ctl("trigger", "add", "symbol=late")
        told.do("d2")
        told.ctl("exclude", "add", "late")
        told.do("d3")
        told.ctl("exclude", "remove", "late")
        told.ctl("trigger", "remove", "symbol=late")
        told.do("d4")
        trace = told.end_after_close()
        self.assertEqual((self.calls(trace), trace.manifest["marks"]), ({"late": 1 + 2 + 4}, 2))

    def test_versions_of_the_policy(self):
        told = self.told_with("-t", "crash")
        for words in (("trigger", "add", "symbol=alpha"), ("exclude", "add", "beta"), ("record", "off"),
                      ("record", "on"), ("exclude", "remove", "beta"), ("trigger", "remove", "symbol=alpha")):
            told.ctl(*words)
        trace = told.end_after_close()
        policies = trace.manifest["policies"]
        self.assertEqual([p["change"] for p in policies],
                         ["start", "trigger add symbol=alpha", "exclude add beta", "record off", "record on",
                          "exclude remove beta", "trigger remove symbol=alpha"])
        self.assertEqual([p["version"] for p in policies], list(range(1, 8)))
        self.assertEqual([p["time_ns"] for p in policies], sorted(p["time_ns"] for p in policies))
        for policy in policies:
            expected = 0xcbf29ce484222325
            for byte in policy["text"].encode():
                expected = (expected ^ byte) * 0x100000001b3 % 2**64
            self.assertEqual(policy["hash"], "%016x" % expected)
        self.assertEqual(policies[0]["hash"], policies[-1]["hash"])
        self.assertEqual(len({p["hash"] for p in policies}), 4)
        self.assertIn("trigger crash\ntrigger symbol=alpha\nexclude beta\nrecord off\n", policies[3]["text"])

    def test_pause(self):
        told = self.told_with()
        told.do("c1")
        self.assertEqual(told.pause(), "paused\n")
        with open("/proc/%d/stat" % told.pid) as file:
            self.assertEqual(file.read().rsplit(")", 1)[1].split()[0], "t")
        self.assertTrue(told.status()["paused"])
        self.assertIn("paused already", self.refused(told, 69, "pause"))
        told.send("c5")  # it is in read, and goes on there
        self.assertEqual(select.select([told.process.stdout], [], [], 0.2)[0], [], "it answers while it is paused")
        self.assertEqual(told.ctl("resume"), "running\n")
        self.assertEqual(read_line(told.process.stdout, "an order is done"), "c\n")
        self.assertIn("running already", self.refused(told, 69, "resume"))
        self.assertEqual(self.calls(told.end_after_close()), {"alpha": 6, "beta": 6})

    def test_stop_of_a_paused_process(self):
        told = self.told_with()
        told.do("c1")
        told.pause()
        told.ctl("stop")
        told.do("c5")
        self.assertEqual(self.calls(told.end_after_close()), {"alpha": 1, "beta": 1})

    def test_followed_programs_have_no_hooks_to_switch(self):
        told = self.told_with(command="stalk")
        for words in (("mark",), ("exclude", "add", "alpha"), ("record", "off"), ("trigger", "add", "symbol=alpha")):
            self.assertIn("contrail stalk", self.refused(told, 69, *words))
        told.pause()
        told.ctl("resume")
        told.do("c1")
        told.end_after_close()

    def test_all_processes_of_the_session(self):
        told = self.told_with("--detail", "off")
        child, pipe = told.fork()
        told.until(lambda status: status["processes"] == 2 and status["state"] == "running")
        told.ctl("exclude", "add", "alpha", pid=child)
        told.do("c1")
        told.child_does(pipe, "c20")
        told.ctl("pause", pid=child)
        states = []
        for pid in (told.pid, child):
            with open("/proc/%d/stat" % pid) as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
        self.assertEqual(states, ["t", "t"])
        told.ctl("resume")
        told.ctl("exclude", "remove", "alpha")
        told.do("c300")
        told.child_does(pipe, "c4000")
        pipe.close()
        told.end_after_close()
        traces = told.traces()
        self.assertEqual(self.calls(traces[told.pid]), {"alpha": 300, "beta": 301})
        self.assertEqual(self.calls(traces[child]), {"alpha": 4000, "beta": 4020})

    def test_programs_that_are_executed_later(self):
        told = self.told_with("--detail", "off")
        told.ctl("exclude", "add", "alpha")
        told.do("c10")
        told.send("x0")
        self.assertEqual(read_line(told.process.stdout, "the program's process id"), "pid %d\n" % told.pid)
        told.until(lambda status: status["processes"] == 2)
        told.do("c10")
        told.end_after_close()
        counts = [self.calls(trace) for trace in map(atf.Trace, glob.glob(self.path("traces/session_*/pid_*")))]
        self.assertEqual(counts, [{"beta": 10}, {"beta": 10}])


class Metrics(FlightCase):
    PARSE = """if 1:
        import json, sys
        from prometheus_client.parser import text_string_to_metric_families
        print(json.dumps([[f.name, f.type, f.documentation,
                           [[s.name, sorted(s.labels.items()), s.value] for s in f.samples]]
                          for f in text_string_to_metric_families(sys.stdin.read())]))
        """

    def values(self, text):
        """By Debian's python3-prometheus-client, which the first python3 of the PATH need not know."""
        if os.environ.get("CONTRAIL_TEST_EMULATED") and not glob.glob("/usr/lib/python3/dist-packages/prometheus*"):
            self.skipTest("python3-prometheus-client is not in the guest")
        parsed = subprocess.run(["/usr/bin/python3", "-c", self.PARSE], input=text, stdout=subprocess.PIPE, text=True,
                                check=True)
        found = {}
        for name, kind, documentation, samples in json.loads(parsed.stdout):
            self.assertTrue(documentation, name)
            self.assertIn(kind, ("counter", "gauge"))
            for sample, labels, value in samples:
                found[sample, tuple(map(tuple, labels))] = value
        return found

    def test_file_for_prometheus(self):
        path = self.path("metrics.prom")
        told = self.told_with("--metrics-file", path, "-t", "return=beta:lt:0", "--pre-roll-ms", "0", "--post-roll-ms",
                              "0")
        told.until(lambda _: os.path.exists(path))

        def is_counted(status):
            told.do("a100")  # the rate is that of the last second
            return status["per_second"]["events"] > 0
        ended, torn = threading.Event(), []

        def read_often():
            while not ended.is_set():
                with open(path) as file:
                    text = file.read()
                if not text.endswith("\n") or "contrail_recording_seconds" not in text:
                    torn.append(text)

        reader = threading.Thread(target=read_often)
        reader.start()
        try:
            told.do("b11", "c100")
            told.until(is_counted)
        finally:
            ended.set()
            reader.join()
        trace = told.end_after_close()
        self.assertEqual(torn, [])
        with open(path) as file:
            values = self.values(file.read())
        manifest = trace.manifest
        self.assertEqual(values["contrail_events_total", ()], manifest["events"]["written"])
        self.assertEqual(values["contrail_windows_total", ()], len(manifest["windows"]))
        self.assertEqual(values["contrail_marks_total", ()], 12)  # every tenth result of beta is less than 0
        self.assertEqual(values["contrail_detail_records_total", ()], manifest["detail"]["written"])
        self.assertEqual(values["contrail_written_bytes_total", ()], manifest["bytes_written"])
        self.assertEqual(values["contrail_up", ()], 0)
        for reason, lost in manifest["events"]["lost"].items():
            self.assertEqual(values["contrail_lost_events_total", (("reason", reason),)], lost)
        self.assertEqual({dict(labels)["quantile"] for name, labels in values
                          if name == "contrail_write_latency_seconds"},
                         {"0.5", "0.99"})
        self.assertEqual(sum(value for (name, _), value in values.items() if name == "contrail_window_state"), 1)
        self.assertEqual([f for f in os.listdir(self.dir) if f.startswith("metrics")], ["metrics.prom"])

    def test_place_that_cannot_be_written(self):
        path = self.path("missing/metrics.prom")
        done = subprocess.run([session_case.CONTRAIL, "spawn", "--output", self.path("traces"), "--metrics-file", path,
                               "true"],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 69)
        self.assertIn("choose another place with --metrics-file", done.stderr)
        self.assertFalse(os.path.exists(self.path("traces")))

    def test_place_that_vanishes(self):
        os.mkdir(self.path("here"))
        told = self.told_with("--metrics-file", self.path("here/metrics.prom"))
        os.rename(self.path("here"), self.path("gone"))
        told.do("c10")
        self.assertEqual(self.calls(told.end_after_close()), {"alpha": 10, "beta": 10})

    def test_manifest(self):
        told = self.told_with()
        told.do("c100")
        manifest = told.end_after_close().manifest
        seconds = manifest["recording_ns"] / 1e9
        self.assertAlmostEqual(manifest["per_second"]["events"] * seconds, manifest["events"]["written"], places=3)
        self.assertEqual(set(manifest["per_second"]["lost"]), set(manifest["events"]["lost"]))
        self.assertGreater(manifest["bytes_written"], 0)
        self.assertGreater(manifest["latency"]["p99_ns"], 0)


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(argv=sys.argv)
