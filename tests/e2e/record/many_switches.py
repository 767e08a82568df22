#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach --cpu to thousands of threads: few descriptors and little locked memory, and what is recorded is right. Where
whole processors may not be looked at, each thread needs descriptors, and when there are too few the message says so.

Usage: many_switches.py CONTRAIL"""
import ctypes
import glob
import json
import os
import platform
import re
import resource
import struct
import subprocess
import sys
import unittest

import session_case

# Threads wait until the standard input ends; then each makes a recorded call that sleeps.
WAITERS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static void nap(void) { nanosleep(&(struct timespec){0, 1000000}, 0); }
static void *wait(void *arg) {
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    nap();
    return arg;
}
int main(int argc, char **argv) {
    int count = atoi(argv[argc - 1]), made = 0;
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_mutex_lock(&gate);
    while (made < count && !pthread_create(&threads[made], &small, wait, NULL))
        made++;
    printf("%d\\n", made);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    pthread_mutex_unlock(&gate);
    while (made-- > 0)
        pthread_join(threads[made], NULL);
    return 0;
}
"""

AUDIT_ARCH_X86_64, PERF_EVENT_OPEN = 0xC000003E, 298
RETURN_EACCES, ALLOW = 0x0005000D, 0x7FFF0000
ALL_THREADS = 0xFFFFFFFF  # the argument pid: -1
HANGS = 600  # seconds after which something hangs for sure


def refuse_processors():
    """A seccomp filter that does what perf_event_paranoid 1 does to a user: no event for all threads of a processor."""
    code = [(0x20, 0, 0, 4), (0x15, 0, 5, AUDIT_ARCH_X86_64), (0x20, 0, 0, 0), (0x15, 0, 3, PERF_EVENT_OPEN),
            (0x20, 0, 0, 24), (0x15, 0, 1, ALL_THREADS), (0x06, 0, 0, RETURN_EACCES), (0x06, 0, 0, ALLOW)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *c) for c in code))
    program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "prctl")


def locked_bytes(pid):
    """Of the kernel's rings, which are locked in memory."""
    with open(f"/proc/{pid}/maps") as maps:
        spans = re.findall(r"^(\w+)-(\w+) .*\[perf_event\]$", maps.read(), re.M)
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


class ManySwitches(session_case.SessionCase):
    def attach(self, threads, *before, files=None):
        """Records the program; returns the manifest, the recorder's words, its descriptors and its locked memory."""
        target = subprocess.Popen([self.build("waiters", WAITERS), str(threads)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(target.stdout.close)
        self.addCleanup(target.kill)
        if int(target.stdout.readline()) < threads:
            self.skipTest("this many threads are not allowed here")

        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        recorder = subprocess.Popen([*before, session_case.CONTRAIL, "attach", str(target.pid), "--cpu", "--index-mem",
                                     "256M", "--only", "waiters", "-o", self.path("traces")],
                                    stderr=subprocess.PIPE, text=True,
                                    preexec_fn=limit)
        self.addCleanup(recorder.kill)
        words = ""
        while "recording" not in words:
            line = recorder.stderr.readline()
            self.assertTrue(line, words)
            words += line
        descriptors, locked = len(os.listdir(f"/proc/{recorder.pid}/fd")), locked_bytes(recorder.pid)
        target.stdin.close()
        self.assertEqual(target.wait(HANGS), 0)
        words += recorder.stderr.read()  # communicate() would miss what is buffered already
        self.assertEqual(recorder.wait(HANGS), 0, words)
        (path,) = glob.glob(os.path.join(self.session(), "pid_*", "manifest.json"))
        with open(path) as file:
            return json.load(file), words, descriptors, locked

    def report(self):
        text = subprocess.run([session_case.CONTRAIL, "report", "--json", self.session()], check=True,
                              capture_output=True, text=True).stdout
        report = json.loads(text)
        return report, [row for row in report["functions"] if row["name"] == "nap"][0]

    def test_thousands(self):
        processors = os.sysconf("SC_NPROCESSORS_CONF")
        manifest, words, descriptors, locked = self.attach(4096)
        if manifest["cpu"]["state"] != "recorded":
            self.skipTest(manifest["cpu"]["state"])
        self.assertNotIn("--cpu has no effect", words)
        if os.geteuid() == 0:  # others may not look at whole processors
            self.assertLess(descriptors, 64 + 2 * processors)
        self.assertGreater(locked, 0)
        self.assertLessEqual(locked, processors * ((1 << 20) + os.sysconf("SC_PAGESIZE")))
        self.assertEqual([wait[3] for wait in manifest["waits"]["list"]].count("start"), 1)  # stopped once
        report, nap = self.report()
        self.assertEqual((nap["calls"], report["threads"]), (4096, report["cpu_threads"]))
        if not manifest["cpu"]["lost"]:
            self.assertEqual(nap["unknown_ns"], 0)
        self.assertGreater(nap["total_blocked_ns"], nap["total_cpu_ns"])

    def test_each_thread_for_itself(self):
        if platform.machine() != "x86_64":
            self.skipTest("the filter is for x86_64")
        processors, refuse = os.sysconf("SC_NPROCESSORS_ONLN"), [sys.executable, __file__, "--refuse"]
        manifest, _, descriptors, locked = self.attach(150, *refuse)
        if manifest["cpu"]["state"] != "recorded":
            self.skipTest(manifest["cpu"]["state"])
        self.assertGreater(descriptors, 150 * processors)
        self.assertLessEqual(locked, processors * ((256 << 10) + os.sysconf("SC_PAGESIZE")))
        self.assertEqual(self.report()[1]["calls"], 150)

    def test_too_few_descriptors(self):
        if platform.machine() != "x86_64":
            self.skipTest("the filter is for x86_64")
        manifest, words, _, _ = self.attach(150, sys.executable, __file__, "--refuse", files=120)
        self.assertIn("--cpu has no effect: the process has too many threads for our descriptors: raise `ulimit -n`",
                      words)
        self.assertIn("ulimit -n", manifest["cpu"]["state"])
        self.assertEqual(self.report()[1]["calls"], 150)


if __name__ == "__main__":
    if sys.argv[1] == "--refuse":
        refuse_processors()
        os.execv(sys.argv[2], sys.argv[2:])
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
