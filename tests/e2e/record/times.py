#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What belongs to whom: waits for the recorder are in no call's time, time off the processor is known where the kernel
reports switches, and wall-clock times are those of the machine.

Usage: times.py CONTRAIL"""
import ctypes
import datetime
import json
import os
import platform
import signal
import struct
import subprocess
import sys
import time
import unittest

import session_case

LOADS = """
#include <dlfcn.h>
__attribute__((noinline)) static int load(const char *path) { return dlopen(path, RTLD_NOW) != 0; }
int main(int argc, char **argv) {
    int loaded = 0;
    for (int i = 1; i < argc; i++) loaded += load(argv[i]);
    return loaded != argc - 1;
}
"""

# Two threads: one sleeps, one computes; the second was made after the start.
SLEEPS = """
#include <pthread.h>
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline)) static void nap(void) { nanosleep(&(struct timespec){0, 60000000}, 0); }
__attribute__((noinline)) static void spin(void) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
        for (int i = 0; i < 100000; i++) sum += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000l + now.tv_nsec - start.tv_nsec < 60000000);
}
static void *work(void *arg) { spin(); nap(); return arg; }
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, work, 0);
    nap();
    spin();
    return pthread_join(t, 0);
}
"""

EXECS = """
#include <unistd.h>
__attribute__((noinline)) static int again(char **argv) { return execv(argv[0], argv); }
int main(int argc, char **argv) { argv[1] = 0; return argc > 1 ? again(argv) : 0; }
"""

# Begins when it gets a byte, and makes more events than the memory holds.
MANY = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noipa)) static long leaf(long x) { return x + 1; }
__attribute__((noipa)) static long work(long x) { for (int i = 0; i < 100000; i++) x = leaf(x); return x; }
int main(void) {
    char byte;
    printf("%d\\n", (int)getpid());
    fflush(stdout);
    return read(0, &byte, 1) != 1 || work(0) != 100000;
}
"""

AUDIT_ARCH_X86_64, PERF_EVENT_OPEN = 0xC000003E, 298
RETURN_ERRNO, ALLOW = 0x00050000, 0x7FFF0000


def refuse_perf(errno):
    """A seccomp filter, as containers have it: perf_event_open fails."""
    code = [(0x20, 0, 0, 4), (0x15, 0, 3, AUDIT_ARCH_X86_64), (0x20, 0, 0, 0), (0x15, 0, 1, PERF_EVENT_OPEN),
            (0x06, 0, 0, RETURN_ERRNO | errno), (0x06, 0, 0, ALLOW)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *c) for c in code))
    program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "prctl")


class Times(session_case.SessionCase):
    def read(self, command, *options):
        done = subprocess.run([session_case.CONTRAIL, command, *options, self.session()], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def report(self):
        return json.loads(self.read("report", "--json", "--limit", "0"))

    def row(self, report, name):
        return [f for f in report["functions"] if f["name"] == name][0]

    def test_a_library_is_hooked_on_our_time(self):
        plugins = [self.build("plugin%d.so" % i, "int plug%d(void) { return 1; }" % i, "-shared", "-fPIC")
                   for i in range(3)]
        _, (manifest,) = self.record(self.build("loads", LOADS), *plugins)
        waits = manifest["waits"]["list"]
        own = [w for w in waits if w[3] == "libraries"]
        self.assertGreaterEqual(len(own), 3)
        self.assertEqual({w[0] for w in own}, {manifest["pid"]})
        self.assertEqual([w[3] for w in waits].count("start"), 1)
        for _, begin, end, _ in waits:
            self.assertLess(begin, end)
        # What the loader's hook waited is neither its own time nor that of the calls around it.
        waited = sum(end - begin for _, begin, end, _ in own)
        report = self.report()
        self.assertLess(self.row(report, "_dl_debug_state")["self_ns"], waited / 2)
        self.assertGreater(report["waited_ns"], waited / 2)
        duration = manifest["time_end_ns"] - manifest["time_start_ns"]
        self.assertLessEqual(self.row(report, "main")["total_ns"] + report["waited_ns"], duration)
        self.assertIn("no time above includes", self.read("report"))
        self.assertIn("waited for the recorder", self.read("info"))
        lines = json.loads(self.read("replay", "--json"))
        shown = [line for line in lines if line["kind"] == "waited"]
        self.assertGreaterEqual(len(shown), 3)
        self.assertEqual(lines, sorted(lines, key=lambda line: line["time_ns"]))
        for line in shown:  # at its place: inside the call that waited
            at = lines.index(line)
            opened = [o for o in lines[:at] if o["kind"] == "open" and o["indent"] == line["indent"] - 1][-1]
            self.assertIn(opened["function"], ("_dl_debug_state", "__GI__dl_debug_state", "dl_debug_state"))
            closed = [c for c in lines[at:] if c["kind"] == "close" and c["indent"] == opened["indent"]][0]
            self.assertLessEqual(closed["duration_ns"] + line["duration_ns"],
                                 closed["time_ns"] - opened["time_ns"] + 1000)

    def ctl(self, pid, *words):
        return subprocess.run([session_case.CONTRAIL, "ctl", pid, *words], capture_output=True, text=True)

    @staticmethod
    def ran_ns(pid):
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0])

    @staticmethod
    def state(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0]

    def test_memory_is_waited_for_on_our_time(self):
        """The recorder is stopped while the program makes more events than there is memory for: it waits until the
        recorder goes on, loses nothing, and no call has the time."""
        command = [session_case.CONTRAIL, "spawn", "--quiet", "--lossless", "--index-mem", "1M", "--only", "many",
                   "--output", self.path("traces"), "--", self.build("many", MANY)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
            pid = recorder.stdout.readline().strip()
            limited, wrong = self.ctl(pid, "wait-ms", "900"), self.ctl(pid, "wait-ms", "long")
            self.assertEqual((limited.returncode, wrong.returncode), (69, 64), limited.stderr + wrong.stderr)
            self.assertIn("lossless", limited.stderr)
            os.kill(recorder.pid, signal.SIGSTOP)
            ran_ns = self.ran_ns(pid)
            recorder.stdin.write("x")
            recorder.stdin.flush()
            while self.ran_ns(pid) < ran_ns + 1000000 or self.state(pid) != "S":  # until it waits
                self.assertIsNone(recorder.poll())
                time.sleep(0.05)
            time.sleep(0.1)
            os.kill(recorder.pid, signal.SIGCONT)
            self.assertEqual(recorder.wait(60), 0)
        info = json.loads(self.read("info", "--json"))["processes"][0]
        drain = info["drain"]
        self.assertGreater(drain["waited_ns"], 0)
        self.assertGreater(drain["ran_ns"], 0)
        self.assertIn("waited for memory", self.read("info"))
        report = self.report()
        leaf, work = self.row(report, "leaf"), self.row(report, "work")
        self.assertEqual(leaf["calls"], 100000)
        self.assertGreaterEqual(report["waited_ns"], drain["waited_ns"])
        self.assertLessEqual(work["total_ns"] + drain["waited_ns"], info["duration_ns"])
        self.assertLess(leaf["max_ns"], drain["waited_ns"])
        self.read("verify")

    def test_exports_show_waits(self):
        plugin = self.build("plugin.so", "int plug(void) { return 1; }", "-shared", "-fPIC")
        self.record(self.build("loads", LOADS), plugin)
        waits = [line for line in json.loads(self.read("replay", "--json")) if line["kind"] == "waited"]
        self.assertTrue(waits)
        chrome = json.loads(self.read("export", "--format", "chrome", "-o", "-"))
        start = int(chrome["otherData"]["start_ns"])
        events = [e for e in chrome["traceEvents"] if e["ph"] != "M" and e["tid"] >= 1 << 22]
        begins, ends = events[::2], events[1::2]
        self.assertEqual([(e["ph"], e["name"]) for e in begins], [("B", "waited for the recorder")] * len(waits))
        self.assertEqual([e["ph"] for e in ends], ["E"] * len(waits))
        for wait, begin, end in zip(waits, begins, ends):
            self.assertEqual(begin["args"], {"reason": wait["reason"]})
            self.assertEqual(start + round(begin["ts"] * 1000), wait["time_ns"])
            self.assertEqual(round((end["ts"] - begin["ts"]) * 1000), wait["duration_ns"])

    def test_an_exec_waits(self):
        _, manifests = self.record(self.build("execs", EXECS), "again")
        first = [m for m in manifests if m["origin"] == "spawn"][0]
        self.assertIn("exec", [w[3] for w in first["waits"]["list"]])

    def test_wall_clock(self):
        before = time.time()
        _, (manifest,) = self.record(self.build("loads", LOADS))
        after = time.time()
        pairs = manifest["clock"]["realtime"]
        self.assertGreaterEqual(len(pairs), 2)
        for boot, real, offset in pairs:
            self.assertTrue(before - 1 < real / 1e9 < after + 1)
            self.assertEqual(offset, time.localtime(real / 1e9).tm_gmtoff)
        for line in json.loads(self.read("replay", "--json", "--clock", "wall")):
            at = datetime.datetime.fromisoformat(line["time"][:26] + line["time"][29:])
            self.assertTrue(before - 1 < at.timestamp() < after + 1)
        month = datetime.datetime.fromtimestamp(before).strftime("%Y-%m-")
        self.assertIn(month, self.read("replay", "--clock", "wall"))

    def test_reports_with_the_wall_clock(self):
        self.record(self.build("loads", LOADS))
        lines = {line["time_ns"]: line["time"] for line in json.loads(self.read("replay", "--json", "--clock", "wall"))}
        plain, slowest = (json.loads(self.read("report", "--slowest", "3", "--json", *words))["calls"]
                          for words in ([], ["--clock", "wall"]))
        self.assertNotIn("time", plain[0])
        self.assertEqual([call["time"] for call in slowest], [lines[call["time_ns"]] for call in plain])
        text = self.read("report", "--slowest", "3", "--clock", "wall").splitlines()
        self.assertEqual([line.split()[0] for line in [text[0], *text[1:7:2]]],
                         ["WHEN", *(call["time"] for call in slowest)])
        boot = self.read("report", "--slowest", "3", "--clock", "boot").splitlines()
        self.assertEqual([line.split()[0] for line in boot[1:7:2]],
                         ["%d.%09d" % divmod(call["time_ns"], 10**9) for call in plain])
        wrong = subprocess.run([session_case.CONTRAIL, "report", "--clock", "wall", self.session()],
                               capture_output=True, text=True)
        self.assertEqual((wrong.returncode, wrong.stdout), (64, ""))
        self.assertIn("give it with --slowest or --locks", wrong.stderr)

    def test_a_range_of_the_wall_clock(self):
        self.record(self.build("loads", LOADS))
        lines = json.loads(self.read("replay", "--json", "--clock", "wall"))
        ends = [line for line in lines if line["kind"] == "close"]
        middle = ends[len(ends) // 2]
        after = json.loads(self.read("replay", "--json", "--from", middle["time"]))
        self.assertEqual([line["time_ns"] for line in after if line["kind"] == "close"][0], middle["time_ns"])
        until = json.loads(self.read("replay", "--json", "--to", middle["time"][11:]))  # without its date
        self.assertLessEqual(max(line["time_ns"] for line in until), middle["time_ns"])
        early = self.read("replay", "--json", "--clock", "wall", "--from", "1980-01-01T00:00:00")  # the machine was off
        self.assertEqual(json.loads(early), lines)
        wrong = subprocess.run([session_case.CONTRAIL, "replay", "--from", "25:00:00", self.session()],
                               capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 64)
        self.assertIn("13:04:05.5", wrong.stderr)

    def test_on_and_off_the_processor(self):
        _, (manifest,) = self.record(self.build("sleeps", SLEEPS), options=["--cpu"])
        if manifest["cpu"]["state"] != "recorded":
            self.skipTest(manifest["cpu"]["state"])
        self.assertGreater(manifest["cpu"]["switches"], 4)
        report = self.report()
        self.assertEqual(report["cpu_threads"], 2)
        nap, spin = self.row(report, "nap"), self.row(report, "spin")
        if not manifest["cpu"]["lost"]:
            self.assertGreater(nap["total_blocked_ns"], nap["total_ns"] / 2)
            self.assertLess(nap["total_cpu_ns"], spin["total_cpu_ns"])
            self.assertGreater(spin["total_cpu_ns"] + spin["total_preempted_ns"], spin["total_ns"] * 0.9)
            self.assertLess(spin["total_blocked_ns"], nap["total_blocked_ns"])
            kinds = [line["kind"] for line in json.loads(self.read("replay", "--json"))]
            self.assertGreaterEqual(kinds.count("blocked"), 2)
        for row in report["functions"]:
            if "self_ns" in row:
                parts = row["cpu_ns"] + row["blocked_ns"] + row["preempted_ns"] + row["unknown_ns"]
                self.assertEqual(parts, row["self_ns"], row["name"])
        self.assertIn("BLOCKED", self.read("report"))
        self.assertIn("switches", self.read("info"))
        self.assertIn("blocked_ns", self.read("report", "--csv").splitlines()[0])

    def test_without_it_nothing_is_shown(self):
        _, (manifest,) = self.record(self.build("loads", LOADS))
        self.assertNotIn("cpu", manifest)
        self.assertNotIn("BLOCKED", self.read("report"))
        self.assertNotIn("blocked_ns", self.read("report", "--csv"))

    def test_the_kernel_refuses(self):
        if platform.machine() != "x86_64":
            self.skipTest("the filter is for x86_64")
        program = self.build("sleeps", SLEEPS)
        for errno, remedy in ((1, "perf_event_paranoid"), (13, "perf_event_paranoid"), (38, "container"),
                              (22, "leave out --cpu")):
            os.environ["REFUSE_PERF"] = str(errno)
            done, (manifest,) = self.record(program, options=["--cpu"], before=[sys.executable, __file__, "--refuse"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(remedy, manifest["cpu"]["state"])
            self.assertIn("--cpu has no effect", done.stderr)
            self.assertIn("not recorded: ", self.read("info"))
            self.assertEqual(self.report()["cpu_threads"], 0)
            self.assertEqual(self.calls()["spin"], 2)


if __name__ == "__main__":
    if sys.argv[1] == "--refuse":
        refuse_perf(int(os.environ["REFUSE_PERF"]))
        os.execv(sys.argv[2], sys.argv[2:])
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
