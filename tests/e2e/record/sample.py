#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--sample N: every Nth call of a function is recorded with all that it calls, and all calls are counted.

usage: sample.py CONTRAIL [unittest arguments]"""
import json
import os
import re
import subprocess
import sys
import unittest

import session_case

# Calls `middle` 10,000 times on each thread, which calls `leaf` 10 times.
CALLS = r"""
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) unsigned leaf(unsigned x) { return x * 2654435761u + 1; }
__attribute__((noipa)) unsigned middle(unsigned x) { for (int i = 0; i < 10; i++) x = leaf(x); return x; }
__attribute__((noipa)) unsigned once(unsigned x) { return x + 3; }
static jmp_buf back;
__attribute__((noipa)) void jumps(int x) { if (x) longjmp(back, 1); }
__attribute__((noipa)) void jumped(volatile int x) { if (!setjmp(back)) jumps(x); }
static void *work(void *arg) {
    unsigned *x = arg;
    for (int i = 0; i < 10000; i++) *x = middle(*x);
    return arg;
}
int main(int argc, char **argv) {
    unsigned a = 1, b = 2;
    pthread_t thread;
    int status = 0;
    if (argc > 1 && !strcmp(argv[1], "gs")) syscall(SYS_arch_prctl, 0x1001, &a); /* ARCH_SET_GS */
    pthread_create(&thread, NULL, work, &b);
    work(&a);
    pthread_join(thread, NULL);
    if (argc > 1 && !strcmp(argv[1], "many")) {
        pthread_t more[24];
        unsigned values[24] = {0};
        for (int i = 0; i < 24; i++) pthread_create(&more[i], NULL, work, &values[i]);
        for (int i = 0; i < 24; i++) pthread_join(more[i], NULL);
    }
    for (int i = 0; i < 1000; i++) jumped(1);
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t child = fork();
        if (!child) {
            work(&a);
            _exit(a & 0x7f);
        }
        waitpid(child, &status, 0);
    }
    printf("%u %u %d\n", a, once(b), status);
    return 0;
}
"""
THROWS = r"""
#include <cstdio>
__attribute__((noipa)) int thrower(int x) { if (x % 3 == 0) throw x; return x; }
__attribute__((noipa)) int caller(int x) { return thrower(x) + 1; }
__attribute__((noipa)) int catcher(int x) { try { return caller(x); } catch (int caught) { return -caught; } }
int main() {
    long sum = 0;
    for (int i = 0; i < 3000; i++) sum += catcher(i);
    std::printf("%ld\n", sum);
}
"""


class Sample(session_case.SessionCase):
    def setUp(self):
        super().setUp()
        self.program = self.build("calls", CALLS)

    def rows(self, *options):
        done = subprocess.run([session_case.CONTRAIL, "report", "--json", "--limit", "0", *options, self.session()],
                              capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        return report, {row["name"]: row for row in report["functions"]}

    def check(self, *options, arguments=()):
        native = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=True)
        done, manifests = self.record(self.program, *arguments, options=["--sample", "100", *options])
        self.assertEqual(done.stdout, native.stdout)
        report, rows = self.rows()
        self.assertEqual(report["sample"], 100)
        return manifests, rows

    def check_two_threads(self, rows):
        self.assertEqual(rows["middle"]["calls"], 20000)
        self.assertEqual(rows["leaf"]["calls"], 200000)
        self.assertEqual(rows["once"]["calls"], 1)
        self.assertEqual(rows["once"]["recorded_calls"], 0)
        self.assertEqual(rows["middle"]["recorded_calls"], 200)  # each thread has its own turns
        self.assertGreaterEqual(rows["leaf"]["recorded_calls"], 10 * rows["middle"]["recorded_calls"])
        self.assertLess(rows["leaf"]["recorded_calls"], 200000 / 10)
        self.assertEqual(rows["jumped"]["calls"], 1000)

    def test_counts(self):
        _, rows = self.check()
        self.check_two_threads(rows)
        report, rows = self.rows("--from", "0s", "--to", "100s")  # of a part nothing more is known
        self.assertEqual(rows["middle"]["calls"], 200)
        text = subprocess.run([session_case.CONTRAIL, "report", self.session()], capture_output=True, text=True).stdout
        self.assertIn("every 100th call", text)
        self.assertRegex(text, r"(?m)^Calls: [\d,]+ recorded; threads")  # the rows have all calls

    def test_other_commands_say_it(self):
        self.check("--only", "calls")
        session = self.session()
        for words in (["graph", "leaf", session], ["replay", "--limit", "1", session], ["diff", session, session],
                      ["report", "--csv", session], ["report", "--slowest", "1", session],
                      ["report", "--histogram", "leaf", session],
                      ["export", "--format", "folded", "--output", self.path("folded"), session]):
            done = subprocess.run([session_case.CONTRAIL, *words], capture_output=True, text=True)
            self.assertIn("recorded with --sample 100", done.stderr, words)

    def test_other_options(self):
        done, manifests = self.record(self.program, options=["--sample", "2", "--clock", "fast", "--trigger", "crash",
                                                             "--trigger", "symbol=once"])
        self.assertIn("--clock fast has no effect with --sample", done.stderr)
        self.assertIn("all calls of functions that --trigger symbol=once names are recorded", done.stderr)
        self.assertNotIn("late_ns", manifests[0]["clock"])
        info = subprocess.run([session_case.CONTRAIL, "info", self.session()], capture_output=True, text=True).stdout
        self.assertIn("every 2nd call", info)

    def test_triggers_see_all_calls(self):
        manifests, rows = self.check("--only", "calls", "--trigger", "symbol=jum*d")
        for name in "jumped", "jumps":  # the one calls the other
            self.assertEqual(rows[name]["calls"], 1000)
            self.assertNotIn("recorded_calls", rows[name])  # all of them
        self.assertEqual(rows["middle"]["recorded_calls"], 200)
        self.assertEqual(rows["once"]["recorded_calls"], 0)
        self.assertGreaterEqual(manifests[0]["marks"], 1000)

    def test_whole_subtrees(self):
        self.check("--only", "calls")
        _, rows = self.rows("--where", "depth > 0")  # what was called by a recorded call
        self.assertEqual(rows["leaf"]["calls"], 10 * 200)

    def test_without_detail(self):
        self.check_two_threads(self.check("--detail", "off")[1])

    def test_with_detail(self):
        manifests, rows = self.check("--detail", "always", "--only", "calls")
        self.check_two_threads(rows)
        self.assertGreater(manifests[0]["detail"]["written"], 0)

    def test_program_that_uses_gs(self):
        self.check_two_threads(self.check(arguments=["gs"])[1])

    def test_fork(self):
        manifests, rows = self.check(arguments=["fork"])
        self.assertEqual(len(manifests), 2)
        self.assertEqual(rows["middle"]["calls"], 30000)
        self.assertEqual(rows["leaf"]["calls"], 300000)

    def test_many_threads(self):
        """More than have counts of their own."""
        _, rows = self.check("--only", "calls", arguments=["many"])
        self.assertEqual(rows["middle"]["calls"], 26 * 10000)
        self.assertEqual(rows["leaf"]["calls"], 26 * 100000)

    def test_exceptions(self):
        source = self.write("throws.cc", THROWS)
        program = self.path("throws")
        subprocess.run(["g++", "-O1", "-o", program, source], check=True)
        native = subprocess.run([program], capture_output=True, text=True, check=True)
        done, _ = self.record(program, options=["--sample", "7"])
        self.assertEqual(done.stdout, native.stdout)
        _, rows = self.rows()
        calls = {name.split("(")[0]: row["calls"] for name, row in rows.items()}
        self.assertEqual([calls[name] for name in ("thrower", "caller", "catcher")], [3000, 3000, 3000])

    def test_config_file(self):
        config = self.write("conf", "sample_rate = 100\n")
        self.record(self.program, options=["--config", config])
        self.check_two_threads(self.rows()[1])

    def test_with_a_budget(self):
        _, rows = self.check("--budget", "500%")
        self.assertEqual(rows["middle"]["calls"], 20000)

    def test_hot_list_is_documented(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
        with open(os.path.join(root, "src/plan/hot.c")) as source, open(os.path.join(root, "docs/OVERHEAD.md")) as text:
            globs = re.findall(r'"([^"]+)"', source.read().split("ct_hot_globs[]")[1].split("NULL")[0])
            named = re.findall(r"`([^`]+)`", text.read().split("## The list @hot")[1].split("any module:")[1])
        self.assertEqual(named, globs)

    def test_hot_list(self):
        self.record(self.program, options=["--exclude", "@hot"])
        self.assertIn("once", self.calls())
        self.assertFalse({"malloc", "_int_malloc", "free", "calloc"} & set(self.calls()))
        wrong = subprocess.run([session_case.CONTRAIL, "spawn", "--exclude", "@cold", "--", "true"],
                               capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 64)
        self.assertIn("@hot", wrong.stderr)


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
