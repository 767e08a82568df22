#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that make other processes: all of them are in one session, and run as they would by themselves.

Usage: family.py CONTRAIL [--stalk]: recorded, or followed"""
import filecmp
import json
import os
import subprocess
import sys
import unittest

import session_case

DAEMON = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * i; return s; }
int main(int argc, char **argv) {
    if (fork()) return 0;
    setsid();
    if (fork()) _exit(0);
    usleep(200000);
    FILE *f = fopen(argv[argc - 1], "w");
    fprintf(f, "%d", work(1000));
    fclose(f);
    return 5;
}
"""

MANY = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main(int argc, char **argv) {
    int bad = 0;
    for (int i = 0, n = atoi(argv[1]); i < n; i++)
        if (!fork()) {
            work(100);
            if (argc > 3) execlp(argv[3], argv[3], (char *)0);
            _exit(0);
        }
    for (int s; argv[2][0] == 'w' && wait(&s) > 0;) bad += s != 0;
    printf("%d bad\\n", bad);
    return 0;
}
"""

# The second child is made, and sleeps, by bare system calls: as one that the machine does not let run.
LATE = """
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main(void) {
    long second[2] = {1, 0}, result = 57; /* fork */
    if (!fork()) _exit(0);
    wait(0);
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    if (result) return 0;
    result = 35; /* nanosleep */
    __asm__ volatile("syscall" : "+a"(result) : "D"(second), "S"(0l) : "rcx", "r11", "memory");
    return work(100) != 4950;
}
"""

KILLS = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main(int argc, char **argv) {
    int bad = 0, status, n = atoi(argv[argc - 1]);
    for (int i = 0; i < n; i++) {
        int child = fork();
        if (!child) { for (;;) getppid(); }
        usleep(i * 10);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        bad += status != SIGKILL;
    }
    for (int i = 0; i < 20; i++)
        if (!fork()) { work(100); _exit(0); }
    while (wait(&status) > 0) bad += status != 0;
    printf("%d bad\\n", bad);
    return 0;
}
"""

# All requests to the recorder look as if children had been killed in the middle of writing them.
LETTERS = """
#include "abi/shm_abi.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main(void) {
    char line[512];
    unsigned long start = 0;
    int dead = fork(), child;
    if (!dead) _exit(0);
    waitpid(dead, NULL, 0);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (!start && fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:contrail")) sscanf(line, "%lx", &start);
    for (unsigned i = 0; start && i < CT_SHM_REQUESTS; i++)
        ((struct ct_shm_request *)(start + CT_SHM_REQUESTS_OFFSET))[i].state = CT_REQUEST_FILLED_BY(dead);
    if (!(child = fork())) _exit(work(100) != 4950);
    return waitpid(child, &child, 0) < 0 || child || !start;
}
"""

MAKEFILE = """
OBJECTS = a.o b.o c.o main.o
prog: $(OBJECTS)
\tgcc -o $@ $(OBJECTS)
%.o: %.c
\tgcc -O1 -c -o $@ $<
"""


class Family(session_case.SessionCase):
    def words(self, manifests):
        """The programs that were executed, by the last part of their names."""
        return sorted(os.path.basename(m["command_line"].split()[0]) for m in manifests
                      if m["origin"] in ("spawn", "exec"))

    def test_pipeline(self):
        script = "seq 1 2000 | grep 7 | sort -r | uniq | head -50 | tail -20 | tr 0-9 a-j | cat | wc -l | sed s/^/n=/"
        done, manifests = self.record("sh", "-c", script)
        self.assertEqual((done.returncode, done.stdout), (0, "n=20\n"), done.stderr)
        expected = ["cat", "grep", "head", "sed", "seq", "sh", "sort", "tail", "tr", "uniq", "wc"]
        self.assertEqual(self.words(manifests), expected)

    def test_make(self):
        self.write("Makefile", MAKEFILE)
        for name in "abc":
            self.write(name + ".c", "int f_%s(int x) { return x * 2 + 1; }\n" % name)
        self.write("main.c", "#include <stdio.h>\nint f_a(int), f_b(int), f_c(int);\n"
                             "int main(void) { printf(\"%d\\n\", f_a(1) + f_b(2) + f_c(3)); return 0; }\n")
        subprocess.run(["make", "-s"], cwd=self.dir, check=True)
        os.rename(self.path("prog"), self.path("unrecorded"))
        for name in ("a", "b", "c", "main"):
            os.unlink(self.path(name + ".o"))
        done, manifests = self.record("make", "-s", "-j2", cwd=self.dir)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(subprocess.run([self.path("prog")], capture_output=True, text=True).stdout, "15\n")
        self.assertTrue(filecmp.cmp(self.path("prog"), self.path("unrecorded"), shallow=False))
        self.assertEqual(self.words(manifests), ["as"] * 4 + ["cc1"] * 4 + ["collect2"] + ["gcc"] * 5 + ["ld", "make"])

    def test_daemon(self):
        out = self.path("out")
        done, manifests = self.record(self.build("daemon", DAEMON), out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out) as file:
            self.assertEqual(file.read(), "332833500")
        self.assertEqual(sorted(m["origin"] for m in manifests), ["fork", "fork", "spawn"])

    def test_many_at_once(self):
        """More children than there is room for requests, each of them a moment alive; with and without waiting for
        them."""
        program = self.build("many", MANY)
        for words, each in ((["100", "wait"], 1), (["100", "go"], 1), (["40", "wait", "true"], 2)):
            done, manifests = self.record(program, *words)
            self.assertEqual((done.returncode, done.stdout), (0, "0 bad\n"), done.stderr)
            count = int(words[0])
            self.assertEqual(len(manifests), 1 + count * each, words)
            self.assertEqual(self.calls("many")["work"], count)

    def test_late_child(self):
        """A child that calls nothing for a while after its parent's end is heard of all the same."""
        done, manifests = self.record(self.build("late", LATE))
        self.assertEqual((done.returncode, len(manifests)), (0, 3), done.stderr)
        self.assertEqual(self.calls("late")["work"], 1)

    def test_killed_while_they_ask(self):
        """Children that are killed at any time of their start do not keep later ones out."""
        done, manifests = self.record(self.build("kills", KILLS), "150", check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "0 bad\n"), done.stderr)
        self.assertEqual(self.calls("kills")["work"], 20)

    def test_killed_while_they_write(self):
        """Requests that nobody will ever post are for others again."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
        done, manifests = self.record(self.build("requests", LETTERS, "-I" + root,
                                                 "-I" + os.path.join(root, "include")))
        self.assertEqual((done.returncode, len(manifests)), (0, 3), done.stderr)
        self.assertEqual(self.calls("requests")["work"], 1)

    def test_how_they_ended(self):
        script = ("(exit 5); sh -c 'kill -9 $$'; (exec sh -c 'exit 6'); sh -c 'exit 0' & wait; exec sh -c 'exit 4'")
        done, manifests = self.record("sh", "-c", script)
        self.assertEqual(done.returncode, 4, done.stderr)
        ends = sorted(json.dumps(m["end"]) for m in manifests)
        if '{"reason": "exit"}' in ends:
            self.skipTest("this kernel does not tell of processes that somebody else waits for")
        codes = [{"reason": "exit", "exit_code": code} for code in (0, 4, 5, 6)] + [{"reason": "signal", "signal": 9}]
        execs = len([end for end in ends if "exec" in end])
        self.assertGreaterEqual(execs, 2)
        self.assertEqual(ends, sorted(map(json.dumps, codes + [{"reason": "exec"}] * execs)))

    def test_no_children(self):
        done, manifests = self.record("sh", "-c", "ls / >/dev/null; echo done; exit 4", options=["--no-children"])
        self.assertEqual((done.returncode, done.stdout), (4, "done\n"), done.stderr)
        self.assertEqual(len(manifests), 1)

    def test_python(self):
        script = ("import subprocess, threading, os\n"
                  "t = [threading.Thread(target=lambda: subprocess.run(['true'])) for _ in range(4)]\n"
                  "[x.start() for x in t]; [x.join() for x in t]\n"
                  "print(subprocess.check_output('ls /etc/passwd | wc -l', shell=True))\n"
                  "print(os.system('exit 3') >> 8)\n")
        done, manifests = self.record("/usr/bin/python3", "-c", script)
        self.assertEqual((done.returncode, done.stdout), (0, "b'1\\n'\n3\n"), done.stderr)
        self.assertEqual(self.words(manifests).count("true"), 4)


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    if sys.argv[1:2] == ["--stalk"]:
        session_case.COMMAND = [sys.argv.pop(1)[2:]]
    unittest.main()
