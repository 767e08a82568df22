#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries that come and go while a program is recorded: dlopen, dlclose and dlmopen by several threads, IFUNC
resolvers, and what a fork inherits.

Usage: libraries.py CONTRAIL [--long]"""
import os
import sys
import unittest

import session_case

PLUGIN = """
static int calls;
__attribute__((noinline)) int inner(int x) { calls++; return x * 7; }
int plug(int x) { return inner(x) + 1; }
__attribute__((constructor)) static void comes(void) { calls = 0; }
__attribute__((destructor)) static void goes(void) { calls = -1; }
"""

# In each namespace with a libc of its own: a constructor that allocates, a longjmp, an IFUNC whose resolver calls a
# function.
APART = """
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static jmp_buf place;
static int state;
__attribute__((noinline)) static int built(int n) {
    char *text = malloc(64);
    snprintf(text, 64, "%d", n);
    n = (int)strlen(text);
    free(text);
    return n;
}
__attribute__((constructor)) static void comes(void) { state = built(12345); }
__attribute__((destructor)) static void goes(void) { state = built(1); }
__attribute__((noinline)) static void leaves(int x) { longjmp(place, x + 1); }
__attribute__((noinline)) static int plain(int x) { volatile int y = x; return y * 7 + 1; }
__attribute__((noinline)) static int pick(void) { return 7; }
__attribute__((used)) static int (*resolve(void))(int) { return pick() == 7 ? plain : 0; }
int chosen(int) __attribute__((ifunc("resolve")));
int plug(int x) {
    int n = setjmp(place);
    if (!n) leaves(x);
    return chosen(n - 1) + (state - 5);
}
"""

LOADER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int cycles, apart;
static long wrong;
static char **paths;
static int count;
static void *work(void *arg) {
    const char *path = paths[(long)arg % count];
    for (int i = 0; i < cycles; i++) {
        void *handle = apart ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW);
        int (*plug)(int) = handle ? (int (*)(int))dlsym(handle, "plug") : 0;
        if (!handle) puts(dlerror());
        if (!plug || plug(i) != i * 7 + 1) __sync_fetch_and_add(&wrong, 1);
        if (handle) dlclose(handle);
    }
    return 0;
}
int main(int argc, char **argv) {
    int threads = atoi(argv[2]);
    pthread_t t[64];
    apart = !strcmp(argv[1], "dlmopen");
    cycles = atoi(argv[3]);
    paths = argv + 4;
    count = argc - 4;
    for (long i = 0; i < threads; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(t[i], 0);
    printf("%ld wrong\\n", wrong);
    return wrong != 0;
}
"""

FORKS = """
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int call(void *handle, int x) { return ((int (*)(int))dlsym(handle, "plug"))(x); }
int main(int argc, char **argv) {
    void *first = dlopen(argv[1], RTLD_NOW);
    int sum = call(first, 1), status = 0;
    if (!fork()) {
        sum += call(first, 2);
        dlclose(first);
        sum += call(dlopen(argv[2], RTLD_NOW), 3);
        _exit(sum == 8 + 15 + 22 ? 5 : 6);
    }
    wait(&status);
    sum += call(first, 4) + call(dlopen(argv[2], RTLD_NOW), 5);
    printf("%d %d\\n", WEXITSTATUS(status), sum);
    return argc != 3;
}
"""


class Libraries(session_case.SessionCase):
    def plugins(self, text, count):
        return [self.build("plugin%d.so" % i, text, "-shared", "-fPIC") for i in range(count)]

    def modules(self, manifest):
        """The plugins. No two modules have the same id, and no two of one file were at one place at a time."""
        modules = manifest["modules"]
        self.assertEqual(len({m["id"] for m in modules}), len(modules))
        there = [(m["path"], m["base"]) for m in modules if not m.get("unloaded")]
        self.assertEqual(len(set(there)), len(there))
        return [m for m in modules if "/plugin" in m["path"]]

    def test_dlopen(self):
        cycles = 125 if LONG else 20
        done, manifests = self.record(self.build("loader", LOADER), "dlopen", "8", str(cycles),
                                      *self.plugins(PLUGIN, 4))
        self.assertEqual((done.returncode, done.stdout), (0, "0 wrong\n"), done.stderr)
        modules = self.modules(manifests[0])
        self.assertGreaterEqual(len(modules), 4)
        self.assertTrue(all(m["unloaded"] for m in modules))
        calls = self.calls("plugin")
        self.assertEqual((calls["plug"], calls["inner"]), (8 * cycles, 8 * cycles))
        self.assertEqual((calls["comes"], calls["goes"]), (len(modules), len(modules)))

    def test_dlmopen(self):
        os.environ["GLIBC_TUNABLES"] = "glibc.rtld.nns=16"  # room for as many as there are threads
        self.addCleanup(os.environ.pop, "GLIBC_TUNABLES")
        done, manifests = self.record(self.build("loader", LOADER), "dlmopen", "8", "2", *self.plugins(APART, 2))
        self.assertEqual((done.returncode, done.stdout), (0, "0 wrong\n"), done.stderr)
        modules = self.modules(manifests[0])
        self.assertEqual(len(modules), 16)  # each namespace has its own
        self.assertEqual(len([m for m in manifests[0]["modules"] if "/libc.so" in m["path"]]), 17)
        calls = self.calls("plugin")
        self.assertEqual({calls[name] for name in ("comes", "goes", "pick", "plug", "leaves", "plain")}, {16})
        self.assertEqual(calls["built"], 32)

    def test_no_room(self):
        """Libcs beyond what the recorder has room for run unhooked, and are reported."""
        done, manifests = self.record(self.build("loader", LOADER), "dlmopen", "1", "42", *self.plugins(APART, 1))
        self.assertEqual((done.returncode, done.stdout), (0, "0 wrong\n"), done.stderr)
        skipped = [m["skipped"].get("NO_ROOM", 0) for m in manifests[0]["modules"]]
        self.assertGreater(sum(skipped), 3000)
        self.assertTrue(all(not m["hooked"] for m, n in zip(manifests[0]["modules"], skipped) if n))
        hooked = sum(m["hooked"] for m in manifests[0]["modules"])
        self.assertTrue(125000 < hooked < 140000, hooked)
        self.assertEqual(self.calls("plugin")["plug"], len([m for m in self.modules(manifests[0]) if m["hooked"]]))

    def test_forks(self):
        """What a child unloads stays with its parent, and the other way round."""
        done, manifests = self.record(self.build("forks", FORKS), *self.plugins(PLUGIN, 2))
        self.assertEqual((done.returncode, done.stdout), (0, "5 73\n"), done.stderr)
        gone = {m["origin"]: [bool(p.get("unloaded")) for p in self.modules(m)] for m in manifests}
        self.assertEqual(gone, {"spawn": [False, False], "fork": [True, False]})
        self.assertEqual(self.calls("plugin")["plug"], 5)


if __name__ == "__main__":
    LONG = "--long" in sys.argv
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(argv=[word for word in sys.argv if word != "--long"])
