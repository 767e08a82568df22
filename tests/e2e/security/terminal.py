#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names that a program chooses (its own, of threads, functions, files and arguments) must not reach a terminal as
escape sequences, whichever command shows them.

Usage: terminal.py CONTRAIL"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

CONTRAIL = ""
LIMIT = 200
ODD = "e\x1b[31m\x07\x7f\u009b1m"
# Function and thread have names with escape sequences, C1 and a byte that is no UTF-8.
SOURCE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
__attribute__((noinline)) int odd(const char *text) __asm__("\"odd\033[31m\302\2331m\2331m\"");
int odd(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop"); return text[0]; }
static volatile int sum;
static void *run(void *arg) {
    prctl(PR_SET_NAME, "t\033[31m\302\2331m\233x");
    for (int i = 0; i < 10; i++)
        sum += odd(arg);
    puts("ready");
    fflush(stdout);
    getchar();
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, argv[argc - 1]);
    pthread_join(thread, NULL);
    return 0;
}
"""


class Terminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="contrail-terminal-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        source, plain = os.path.join(cls.dir, "odd.c"), os.path.join(cls.dir, "plain")
        with open(source, "w") as file:
            file.write(SOURCE)
        subprocess.run(["gcc", "-O1", "-g", "-o", plain, source, "-pthread"], check=True)
        cls.program = os.path.join(cls.dir, ODD)
        shutil.copy(plain, cls.program)
        cls.environment = dict(os.environ, XDG_RUNTIME_DIR=cls.dir, LC_ALL="C.UTF-8")
        cls.recorder = subprocess.Popen([CONTRAIL, "spawn", "--detail", "always", "--lossless", "-o",
                                         os.path.join(cls.dir, "traces" + ODD),
                                         cls.program, "a" + ODD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=cls.environment)
        cls.addClassCleanup(cls.recorder.kill)
        cls.said = read_line(cls.recorder.stderr, "contrail says what it records")
        assert b"recording" in cls.said, cls.said
        cls.pid = cls.said.split(b"recording ")[1].split()[0].decode()
        assert read_line(cls.recorder.stdout, "the program is ready") == b"ready\n"
        cls.live = [cls.run_command(*words) for words in (
            ["threads", cls.pid], ["threads", "--json", cls.pid], ["modules", cls.pid], ["doctor", cls.pid],
            ["modules", "--functions", cls.pid], ["modules", "--functions", "--json", cls.pid],
            ["ctl", cls.pid, "status"], ["ctl", cls.pid, "status", "--json"],
            ["ctl", cls.pid, "trigger", "add", "symbol=" + ODD],
            ["ctl", cls.pid, "trigger", "list"], ["tail", "--all", "--limit", "5", cls.pid])]
        out, err = cls.recorder.communicate(b"\n", timeout=LIMIT)
        cls.said += err
        cls.trace, = glob.glob(glob.escape(os.path.join(cls.dir, "traces" + ODD)) + "/session_*")

    @classmethod
    def run_command(cls, *words):
        done = subprocess.run([CONTRAIL, *words], capture_output=True, timeout=LIMIT, env=cls.environment,
                              stdin=subprocess.DEVNULL)
        return words, done.returncode, done.stdout + done.stderr

    def check(self, words, said):
        self.assertFalse([byte for byte in said if (byte < 32 and byte not in b"\n\t") or byte == 127],
                         (words, said[:2000]))
        self.assertFalse([letter for letter in said.decode("utf-8") if 0x80 <= ord(letter) < 0xA0],
                         (words, said[:2000]))

    def test_recorder(self):
        self.check("spawn", self.said)

    def test_live(self):
        for words, code, said in self.live:
            with self.subTest(words=words):
                self.check(words, said)
                if words[0] in ("threads", "modules", "ctl", "tail"):
                    self.assertEqual(code, 64 if "add" in words else 0, said)

    def test_reading(self):
        trace, shown = self.trace, b""
        for words in (["info", "--all"], ["info", "--json"], ["report", "-n", "0"], ["report", "-n", "0", "--args"],
                      ["report", "--csv"], ["report", "--json"], ["report", "--per-thread"],
                      ["replay"], ["replay", "--json"], ["verify"], ["export", "-f", "folded", "-o", "-"],
                      ["export", "-f", "chrome", "-o", "-"], ["export", "-f", "speedscope", "-o", "-"],
                      ["export", "-f", "callgrind", "-o", "-"], ["symbolize", "--verbose"]):
            with self.subTest(words=words):
                _, code, said = self.run_command(*words, trace)
                self.assertEqual(code, 0, (words, said[-2000:]))
                self.check(words, said)
                shown += said
        for words in (["graph", "odd*", trace], ["diff", trace, trace], ["report", self.program]):
            self.check(words, self.run_command(*words)[2])
        self.assertIn(b"odd?[31m", shown)


if __name__ == "__main__":
    CONTRAIL = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
