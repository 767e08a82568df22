#!/usr/bin/env python3
"""Programs that make other processes and load libraries: everything of it is in one session, and runs as it would by itself.

Usage: family.py CONTRAIL"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = None

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

PLUGIN = """
static int calls;
__attribute__((noinline)) int inner(int x) { calls++; return x * 7; }
int plug(int x) { return inner(x) + 1; }
__attribute__((constructor)) static void comes(void) { calls = 0; }
__attribute__((destructor)) static void goes(void) { calls = -1; }
"""

LOADER = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int cycles; static long wrong; static char **paths; static int count;
static void *work(void *arg) {
    const char *path = paths[(long)arg % count];
    for (int i = 0; i < cycles; i++) {
        void *handle = dlopen(path, RTLD_NOW);
        int (*plug)(int) = handle ? (int (*)(int))dlsym(handle, "plug") : 0;
        if (!plug || plug(i) != i * 7 + 1) __sync_fetch_and_add(&wrong, 1);
        if (handle) dlclose(handle);
    }
    return 0;
}
int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    pthread_t t[64];
    cycles = atoi(argv[2]);
    paths = argv + 3;
    count = argc - 3;
    for (long i = 0; i < threads; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(t[i], 0);
    printf("%ld wrong\\n", wrong);
    return wrong != 0;
}
"""

MAKEFILE = """
OBJECTS = a.o b.o c.o main.o
prog: $(OBJECTS)
\tgcc -o $@ $(OBJECTS)
%.o: %.c
\tgcc -O1 -c -o $@ $<
"""


class Family(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="contrail-test-")

    def tearDown(self):
        shutil.rmtree(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def build(self, name, text, *options):
        source = self.write(name + ".c", text)
        subprocess.run(["gcc", "-O1", "-o", self.path(name), source, *options, "-pthread"], check=True)
        return self.path(name)

    def record(self, *command, options=(), cwd=None, check=True):
        """What the program printed, and the manifests of all processes."""
        traces = self.path("traces")
        shutil.rmtree(traces, ignore_errors=True)
        plain = ["spawn", "--lossless", "--output", traces, *options, "--", *command]
        done = subprocess.run([CONTRAIL, *plain], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, timeout=200)
        manifests = []
        for path in glob.glob(traces + "/session_*/pid_*/manifest.json"):
            with open(path) as file:
                manifests.append(json.load(file))
        self.assertEqual(len(glob.glob(traces + "/session_*")), 1)
        for manifest in manifests:
            self.assertTrue(manifest["complete"], manifest["command_line"])
        if check:
            self.assertNotIn("could not be recorded", done.stderr)
            verify = subprocess.run([CONTRAIL, "verify", glob.glob(traces + "/session_*")[0]], capture_output=True, text=True)
            self.assertEqual(verify.returncode, 0, verify.stdout)
        return done, manifests

    def words(self, manifests):
        """The programs that were executed, by the last part of their names."""
        return sorted(os.path.basename(m["command_line"].split()[0]) for m in manifests if m["origin"] in ("spawn", "exec"))

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
        done, manifests = self.record("make", "-s", "-j2", cwd=self.dir)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(subprocess.run([self.path("prog")], capture_output=True, text=True).stdout, "15\n")
        words = self.words(manifests)
        self.assertEqual([words.count(word) for word in ("make", "cc1", "as", "gcc", "ld")], [1, 4, 4, 5, 1], words)

    def test_daemon(self):
        out = self.path("out")
        done, manifests = self.record(self.build("daemon", DAEMON), out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out) as file:
            self.assertEqual(file.read(), "332833500")
        self.assertEqual(sorted(m["origin"] for m in manifests), ["fork", "fork", "spawn"])

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

    def test_libraries(self):
        plugins = [self.build("plugin%d.so" % i, PLUGIN, "-shared", "-fPIC") for i in range(4)]
        cycles = 125 if "--long" in sys.argv else 20
        done, manifests = self.record(self.build("loader", LOADER, "-ldl"), "8", str(cycles), *plugins)
        self.assertEqual((done.returncode, done.stdout), (0, "0 wrong\n"), done.stderr)
        modules = [m for m in manifests[0]["modules"] if "/plugin" in m["path"]]
        self.assertGreaterEqual(len(modules), 4)
        self.assertEqual(len({m["id"] for m in manifests[0]["modules"]}), len(manifests[0]["modules"]))
        self.assertTrue(all(m["unloaded"] for m in modules))
        report = subprocess.run([CONTRAIL, "report", "--json", "--limit", "100000", glob.glob(self.path("traces/session_*"))[0]],
                                capture_output=True, text=True, check=True)
        calls = {}
        for row in json.loads(report.stdout)["functions"]:
            name = row["name"]
            calls[name] = calls.get(name, 0) + row["calls"]
        self.assertEqual((calls["plug"], calls["inner"]), (8 * cycles, 8 * cycles))
        self.assertEqual(calls["comes"], calls["goes"])
        self.assertGreaterEqual(calls["comes"], 4)


if __name__ == "__main__":
    CONTRAIL = os.path.abspath(sys.argv[1])
    unittest.main(argv=[a for a in sys.argv if a not in ("--long", sys.argv[1])])
