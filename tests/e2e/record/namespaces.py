#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes in pid namespaces of their own: each is in the session under the number that it has outside, with its own
calls.

Usage: namespaces.py CONTRAIL [--stalk]: recorded, or followed

Inside, processes have small numbers, which outside are those of strangers. The kernel says what the right ones are:
each process connects to a socket of ours."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import unittest

import session_case
from recorder import TIMEOUT

CHILDREN = 5

# Process I calls work() 10 * (I + 1) times and ends with I; the last child has made a child itself, with the next
# number. Where the program stays outside, another child is the first inside: with its end all others would be killed,
# so it is the last.
PROGRAM = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
enum { CHILDREN = 5 };
static const char *place;
__attribute__((noipa)) int work(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
static int run(int number) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char name = (char)number;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(to.sun_path, place);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) || write(fd, &name, 1) != 1) return 100;
    close(fd);
    for (int i = 0; i < 10 * (number + 1); i++) work(i);
    return number;
}
static int has_ended(int child, int number) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == number;
}
static int run_child(int number) {
    int result = run(number), child = number == CHILDREN ? fork() : 0;
    if (number == CHILDREN && !child) _exit(run(number + 1));
    return number == CHILDREN && !has_ended(child, number + 1) ? 101 : result;
}
static void stay(int end) {
    char none;
    int result = run(CHILDREN + 2);
    _exit(read(end, &none, 1) ? 102 : result);
}
int main(int argc, char **argv) {
    int child[CHILDREN], first = 0, end[2], good = 0, enters = argc > 2;
    place = argv[1];
    if (pipe(end) || (enters && unshare(CLONE_NEWPID))) return 77;
    if (enters && !(first = fork())) {
        close(end[1]);
        stay(end[0]);
    }
    for (int i = 0; i < CHILDREN; i++)
        if (!(child[i] = fork())) _exit(run_child(i + 1));
    for (int i = 0; i < CHILDREN; i++) good += has_ended(child[i], i + 1);
    close(end[1]);
    printf("%d good\n", good + (enters && !has_ended(first, CHILDREN + 2) ? 100 : 0));
    return run(0);
}
"""


class Listener:
    """Which process of ours has which number: a thread that hears of them."""

    def __init__(self, path, expected):
        self.pids, self.expected = {}, expected
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(path)
        self.socket.listen(16)
        self.thread = threading.Thread(target=self.hear)
        self.thread.start()

    def hear(self):
        while len(self.pids) < self.expected:
            connection = self.socket.accept()[0]
            with connection:
                pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                name = connection.recv(1)
            if not name:
                return
            self.pids[name[0]] = pid

    def close(self, path):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            try:
                last.connect(path)  # should it still wait
            except OSError:
                pass
        self.socket.close()
        self.thread.join()


def works(*command):
    return bool(shutil.which(command[0])) and subprocess.run([*command, "true"], capture_output=True,
                                                             timeout=TIMEOUT).returncode == 0


UNSHARE = ["unshare", "-p", "-f", "--mount-proc"]
BUBBLEWRAP = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc"]


class Namespaces(session_case.SessionCase):
    def calls_of(self, pid):
        """How often the process, whatever programs it was, has called work()."""
        count = 0
        for name in os.listdir(self.session()):
            if name == "pid_%d" % pid or name.startswith("pid_%d_" % pid):
                report = subprocess.run([session_case.CONTRAIL, "report", "--json", "--limit", "100000",
                                         os.path.join(self.session(), name)], capture_output=True, text=True,
                                        check=True)
                count += sum(row["calls"] for row in json.loads(report.stdout)["functions"] if row["name"] == "work")
        return count

    def check(self, before, *after):
        program, path = self.build("family", PROGRAM), self.path("socket")
        expected = CHILDREN + 2 + len(after)
        listener = Listener(path, expected)
        try:
            done, manifests = self.record(*before, program, path, *after)
        finally:
            listener.close(path)
        self.assertEqual((done.returncode, done.stdout), (0, "%d good\n" % CHILDREN), done.stderr)
        self.assertEqual(sorted(listener.pids), list(range(expected)))
        own = {m["pid"]: m for m in manifests if m["command_line"].startswith(program)}
        self.assertEqual(sorted(own), sorted(listener.pids.values()))
        for number, pid in listener.pids.items():
            self.assertEqual(self.calls_of(pid), 10 * (number + 1), (number, pid))
            self.assertEqual(own[pid]["end"].get("exit_code", number), number)
        self.assertEqual(len({m["pid"] for m in manifests if m["origin"] == "fork"}),
                         len([m for m in manifests if m["origin"] == "fork"]))

    @unittest.skipUnless(works(*UNSHARE), "no pid namespace can be made here by unshare")
    def test_unshare(self):
        self.check(UNSHARE)

    @unittest.skipUnless(works(*UNSHARE), "no pid namespace can be made here by unshare")
    def test_children_enter(self):
        """As a browser's zygote does it: the program stays outside."""
        self.check([], "enters")

    @unittest.skipUnless(works(*BUBBLEWRAP), "bubblewrap is not installed, or cannot make a pid namespace here")
    def test_bubblewrap(self):
        self.check(BUBBLEWRAP)


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    if sys.argv[1:2] == ["--stalk"]:
        session_case.COMMAND = [sys.argv.pop(1)[2:]]
    unittest.main()
