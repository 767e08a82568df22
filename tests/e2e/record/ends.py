#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long contrail lasts after the program's end, and what execs cost that fail. Times are compared with others of
this machine.

Usage: ends.py CONTRAIL"""
import os
import shutil
import subprocess
import sys
import time
import unittest

import session_case
from recorder import TIMEOUT

# Has made threads, and prints when it ends.
ENDS = r"""
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static void *run(void *argument) { return argument; }
int main(void) {
    struct timespec now;
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
    return 0;
}
"""

EXECS = r"""#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
/* The fastest of some children that try this many programs which are not there, then one that is. */
int main(int argc, char **argv) {
    double best = 1e9;
    for (int i = 0; i < 6; i++) {
        double begin = now();
        pid_t child = fork();
        if (!child) {
            for (int n = atoi(argv[argc - 1]); n; n--)
                execl("/nowhere/true", "true", (char *)0);
            execl("/bin/true", "true", (char *)0);
            _exit(1);
        }
        int status;
        waitpid(child, &status, 0);
        if (status)
            return 1;
        best = now() - begin < best ? now() - begin : best;
    }
    printf("%f\n", best);
    return 0;
}
"""


class Ends(session_case.SessionCase):
    """Contrail ends when the program has, whatever it waits for meanwhile."""
    TIMES, GENEROUS = 3, 6

    def lasts(self, program, *options):
        """From the program's end to contrail's."""
        shutil.rmtree(self.path("traces"), ignore_errors=True)
        done = subprocess.run([session_case.CONTRAIL, "spawn", "--output", self.path("traces"), *options, "--",
                               program],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return time.monotonic() - float(done.stdout)

    def test_threads_that_were_traced(self):
        """Where a process stays traced, nobody waits for threads that are gone. How long the machine takes without a
        trigger is the measure."""
        program = self.build("ends", ENDS)
        for trigger in ("crash", "signal=USR1"):
            with_trigger, without = [], []
            for _ in range(self.TIMES):
                without.append(self.lasts(program))
                with_trigger.append(self.lasts(program, "--trigger", trigger))
            self.assertLess(min(with_trigger), self.GENEROUS * min(without), trigger)

    def test_execs_that_fail(self):
        """A search along PATH: what fails is asked for and answered at once. One that does not fail is the measure."""
        program = self.build("execs", EXECS)
        def child(failing):
            done = subprocess.run([session_case.CONTRAIL, "spawn", "--quiet", "--output", self.path("traces"), "--",
                                   program, failing],
                                  capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stderr)
            return float(done.stdout)
        self.assertLess(child("4"), self.GENEROUS * child("0"))


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(argv=sys.argv)
