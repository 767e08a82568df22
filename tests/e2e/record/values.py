#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What values of calls are captured and shown, and triggers that look at them.

usage: values.py CONTRAIL [unittest arguments]"""
import glob
import json
import os
import shutil
import subprocess
import sys
import unittest

import atf
import detail_file
import session_case

ERRORS = r"""
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
__attribute__((noipa)) int load(const char *name) {
    int fd = open(name, O_RDONLY);
    if (fd >= 0) close(fd);
    return fd < 0 ? -1 : 0;
}
__attribute__((noipa)) int fails_quietly(int x) { return x ? -1 : 0; }
__attribute__((noipa)) void sets(int x) { errno = x; }
static void *work(void *arg) { load("/nonexistent/thread"); return arg; }
int main(void) {
    pthread_t thread;
    load("/nonexistent/first");
    load("/nonexistent/again"); /* errno stays what it is: only open is known to set it */
    fails_quietly(1);
    load("/dev/null");
    sets(33);
    sets(0);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"""


class Values(session_case.SessionCase):
    def replay(self, *options):
        done = subprocess.run([session_case.CONTRAIL, "replay", "--args", "--json", *options, self.session()],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def ends(self, name):
        """The lines on which calls of this function end, in order."""
        return [line for line in self.replay() if line.get("function") == name and "duration_ns" in line]

    def text(self):
        done = subprocess.run([session_case.CONTRAIL, "replay", "--args", self.session()], capture_output=True,
                              text=True, check=True)
        return done.stdout


class Errors(Values):
    def check(self, *options, library=True):
        program = self.build("errors", ERRORS, "-g", *options)
        _, manifests = self.record(program, options=["--detail", "always"])
        self.assertTrue(manifests[0]["detail"]["errno"])
        self.assertEqual([line.get("errno") for line in self.ends("load")], [2, None, None, 2])
        self.assertEqual([line.get("errno") for line in self.ends("fails_quietly")], [None])
        self.assertEqual([line.get("errno") for line in self.ends("sets")], [33, None])
        if library:  # the name of the function is that of the C library's own symbol
            opened = [line for line in self.ends("open") + self.ends("open64") + self.ends("__open64")]
            self.assertEqual(sorted(line.get("errno", 0) for line in opened), [0, 2, 2, 2])

    def test_dynamic(self):
        self.check()
        self.assertIn("load = -1 ENOENT", self.text())
        self.assertIn("errno=EDOM", self.text())

    def test_static(self):
        self.check("-static", library=False)

    @unittest.skipUnless(shutil.which("musl-gcc"), "there is no musl")
    def test_musl(self):
        source = self.write("errors.c", ERRORS)
        subprocess.run(["musl-gcc", "-O1", "-o", self.path("errors"), source], check=True)
        _, manifests = self.record(self.path("errors"), options=["--detail", "always"])
        self.assertTrue(manifests[0]["detail"]["errno"])
        self.assertEqual([line.get("errno") for line in self.ends("load")], [2, None, None, 2])

    def test_without_a_library(self):
        """Nothing is captured, and the manifest says why."""
        source = self.write("bare.c", "void _start(void) { __asm__ volatile(\"syscall\" : : \"a\"(60), \"D\"(0)); }\n")
        subprocess.run(["gcc", "-O1", "-static", "-nostdlib", "-o", self.path("bare"), source], check=True)
        _, manifests = self.record(self.path("bare"), options=["--detail", "always"])
        self.assertFalse(manifests[0]["detail"]["errno"])
        self.assertIn("__errno_location", manifests[0]["detail"]["errno_unknown"])


STRUCTURES = r"""
struct point { int x, y; const char *name; };
struct line { struct point from, to; struct line *next; };
__attribute__((noipa)) int take(const struct point *p, struct line *l, int k) { return p->x + l->to.y + k; }
int main(void) {
    struct point p = {3, -4, "mark"};
    struct line l = {p, {5, 6, 0}, &l};
    static const struct point constant = {7, 8, 0};
    static struct point changing = {1, 2, 0};
    take(&p, &l, 1), take(&constant, &l, 2), take(&changing, &l, 3);
    return 0;
}
"""


class Structures(Values):
    def test_pointers(self):
        """Structures that parameters point to, where their bytes are known: on the stack, and constants."""
        program = self.build("structures", STRUCTURES, "-g")
        self.record(program, options=["--detail", "always", "--only", "structures", "--stack-bytes", "256"])
        first, second, third = [line for line in self.text().splitlines() if "take(" in line]
        self.assertRegex(first, r'p=0x\w+ {x=3, y=-4, name="mark"}, l=0x\w+ {from={x=3, y=-4, name="mark"}, '
                         r'to={x=5, y=6, name=0x0}, next=0x\w+}, k=1\)')
        self.assertRegex(second, r"p=0x\w+ {x=7, y=8, name=0x0}, l=")
        self.assertRegex(third, r"p=0x\w+, l=")
        values = [a["value"] for line in self.replay() if line.get("function") == "take" for a in line["args"][:1]]
        self.assertTrue(all(value.startswith("0x") and "{" not in value for value in values), values)


HEAP = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
struct point { int x, y; const char *name; };
struct item { char label[16]; struct point *at; long count; };
struct large { long first, rest[40]; };
__attribute__((noipa)) long take(const struct point *p, struct item *i, const char *text) {
    return p->x + i->count + (text == 0);
}
__attribute__((noipa)) long look(struct large *l, void *bytes) { return l->first + (bytes == 0); }
__attribute__((noipa)) int miss(struct point *p) { return p == 0; }
int main(void) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct point *p = malloc(sizeof *p), *end = (struct point *)(pages + 4096 - 8);
    struct item *i = malloc(sizeof *i);
    struct large *l = calloc(1, sizeof *l);
    munmap(pages + 4096, 4096);
    *p = (struct point){3, -4, strdup("mark")};
    *i = (struct item){"cow", p, 5};
    l->first = 9;
    end->x = 11, end->y = 12; /* its name is not there */
    take(p, i, strdup("a text"));
    p->x = 30;
    take(p, i, NULL);
    look(l, p);
    miss(end), miss(NULL), miss((struct point *)(pages + 4096)), miss((struct point *)-4096L);
    return 0;
}
"""


class Heap(Values):
    def calls(self, *options):
        program = self.build("heap", HEAP, "-g")
        done, manifests = self.record(program, options=["--detail", "always", "--only", "heap", *options])
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split("heap", 1)[-1] for line in self.text().splitlines()]
        return manifests[0]["detail"], {name: [line for line in lines if name + "(" in line]
                                        for name in ("take", "look", "miss")}

    def test_structs(self):
        """Structures on the heap as they were at the call, one level deep, as far as they were captured."""
        detail, calls = self.calls("--structs")
        self.assertEqual((detail["strings"], detail["structs"], detail["rejected"]), (64, True, 0))
        self.assertRegex(calls["take"][0], r'p=0x\w+ {x=3, y=-4, name=0x\w+}, '
                         r'i=0x\w+ {label="cow", at=0x\w+, count=5}, text="a text"\)')
        self.assertRegex(calls["take"][1], r'p=0x\w+ {x=30, y=-4, ')
        self.assertRegex(calls["look"][0], r"l=0x\w+ {first=9, rest=\[0, 0, 0, 0, 0, 0, 0, \?, …\]}, bytes=0x\w+\)")
        self.assertRegex(calls["miss"][0], r"p=0x\w+ {x=11, y=12, name=\?}\)")  # the page after it is not there
        for line in calls["miss"][1:]:
            self.assertRegex(line, r"p=0x\w+\)")

    def test_sizes(self):
        """--strings says how much; without --structs only texts are kept."""
        detail, calls = self.calls("--structs", "--strings", "8")
        self.assertRegex(calls["take"][0], r"p=0x\w+ {x=3, y=-4, name=\?}")
        detail, calls = self.calls("--strings", "64")
        self.assertNotIn("structs", detail)
        self.assertRegex(calls["take"][0], r'p=0x\w+, i=0x\w+ {label="cow", .*}, text="a text"\)')

    def test_redacted(self):
        _, calls = self.calls("--structs", "--redact")
        self.assertRegex(calls["take"][0], r"p=0x\w+, i=0x\w+, text=0x\w+\)")


STRINGS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <unistd.h>
__attribute__((noipa)) int take(const char *text, int x, const char *other) { return x + (text == other); }
static void *work(void *arg) {
    char text[32];
    char *heap = strdup("");
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "%c%d", *(char *)arg, i);
        free(heap);
        heap = strdup(text);
        take(heap, i, NULL);
    }
    return NULL;
}
int main(int argc, char **argv) {
    char *heap = strdup("/srv/a.conf"), *odd = strdup("a\x01z");
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t threads[2];
    munmap(pages + 4096, 4096);
    memcpy(pages + 4096 - 6, "x.conf", 6); /* ends with its page, without a 0 */
    take(heap, 1, strdup("0123456789012345678901234567890123456789"));
    take(pages + 4096 - 6, 2, pages + 4096);
    take(odd, 3, (char *)8);
    take(NULL, 4, (char *)-4096);
    if (argc > 1) {
        struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {1, all};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        take(heap, 5, NULL);
        return 0;
    }
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, i ? "b" : "a");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
"""


class Strings(Values):
    def take(self, *options, arguments=()):
        """The manifest, and arguments of calls of `take` by their second one."""
        program = self.build("strings", STRINGS, "-g")
        _, manifests = self.record(program, *arguments, options=["--detail", "always", "--only", "strings", *options])
        calls = [line for line in self.replay() if line.get("function") == "take" and "args" in line]
        return manifests[0]["detail"], [[a["value"] for a in line["args"]] for line in calls]

    def test_texts(self):
        detail, calls = self.take("--strings", "20")
        self.assertEqual((detail["strings"], detail["rejected"], sum(detail["lost"].values())), (24, 0, 0))
        self.assertEqual(calls[0], ["/srv/a.conf", 1, "012345678901234567890123"])  # as far as it was captured
        self.assertEqual(calls[1][0], "x.conf")
        self.assertTrue(calls[1][2].startswith("0x"))
        self.assertTrue(calls[2][0].startswith("0x"))  # not a text
        self.assertEqual(calls[2][2], "0x8")
        self.assertEqual(calls[3], ["0x0", 4, "0xfffffffffffff000"])
        for letter in "ab":
            self.assertEqual([c[0] for c in calls[4:] if c[0][0] == letter],
                             ["%s%d" % (letter, i) for i in range(500)])

    def test_none(self):
        for options in ((), ("--strings", "20", "--redact")):
            detail, calls = self.take(*options)
            self.assertEqual(detail["strings"], 0)
            self.assertTrue(all(c[0].startswith("0x") for c in calls))

    def test_after_a_filter(self):
        detail, calls = self.take("--strings", "20", arguments=["filter"])
        self.assertEqual(calls[0][0], "/srv/a.conf")
        self.assertTrue(calls[4][0].startswith("0x"))
        self.assertIn("seccomp", detail["strings_end"])

    def test_known_function(self):
        """Without debug information, arguments of known functions of the C library are texts."""
        program = self.build("plain", "#include <stdlib.h>\n#include <string.h>\n"
                             "int main(void) { char *n = strdup(\"NO_SUCH\"); return getenv(n) != 0; }\n")
        self.record(program, options=["--detail", "always", "--strings", "64"])
        values = [str(line["args"][0].get("value")) for line in self.replay()
                  if line.get("function") == "getenv" and "args" in line]
        self.assertIn("NO_SUCH", values)


REALS = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
struct pair { double x, y; };
struct mixed { long n; double x; };
__attribute__((noipa)) double scale(const char *name, double value, int times, float by) {
    return value * times + by + (name == 0);
}
__attribute__((noipa)) float half(float x) { return x / 2; }
__attribute__((noipa)) double second(double a, double b) { (void)a; return b; }
__attribute__((noipa)) struct pair turn(struct pair p) { return (struct pair){-p.y, p.x}; }
__attribute__((noipa)) struct mixed mix(struct mixed m) { return (struct mixed){m.n + 1, m.x * 2}; }
__attribute__((noipa)) double eight(double a, double b, double c, double d, double e, double f, double g, double h) {
    return a + b * c - d + e * f - g + h;
}
__attribute__((noipa)) int add(int a, int b) { return a + b; }
__attribute__((noipa)) float pass(float x) { return half(x); }
__attribute__((noipa)) float pass_far(int n, float x) { return n ? pass(x) : 0; }
__attribute__((noipa)) double nothing(void) { return 0; }
static int all(void) {
    struct pair p = turn((struct pair){1.5, -2.25});
    struct mixed m = mix((struct mixed){7, 0.375});
    int passed = pass_far(1, 7) == 3.5f && nothing() == 0;
    return passed && half(3) == 1.5f && second(1, 1e300) == 1e300 && p.x == 2.25 && p.y == 1.5 && m.n == 8 &&
           m.x == 0.75 && eight(1.5, 2.5, -3.5, 4.25, 5, 6, 7, 0.125) == 1.5 + 2.5 * -3.5 - 4.25 + 5 * 6 - 7 + 0.125 &&
           add(2, 3) == 5;
}
int main(void) {
    static char name[4] = "cow";
    struct sock_filter every[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, every};
    int good = all();
    for (int i = 0; i < 1000; i++)
        good &= scale(name, i * 0.5, i, 0.25f) == i * 0.5 * i + 0.25;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    return !(good && half(5) == 2.5f);
}
"""


class Reals(Values):
    """Floating-point arguments and results, without --vectors."""

    def take(self, *options):
        program = self.build("reals", REALS, "-g")
        done, _ = self.record(program, options=["--detail", "always", "--only", "reals", *options])
        self.assertEqual(done.returncode, 0)
        self.given, self.results = {}, {}
        for line in self.replay():
            if "args" in line:
                self.given.setdefault(line["function"], []).append([a.get("value") for a in line["args"]])
            if "result" in line:
                self.results.setdefault(line["function"], []).append(line["result"])

    def flags(self):
        """Whether records of a call or return have pieces, by the function's name."""
        trace, pieces = atf.Trace(glob.glob(self.session() + "/pid_*")[0]), {}
        for thread in trace.threads:
            for r in detail_file.read(os.path.join(trace.directory, "thread_%d" % thread.id)):
                pieces.setdefault(trace.functions[r.function].name, set()).add(bool(r.flags & 2))
        return pieces

    def check_shown(self):
        self.assertEqual(self.given["half"], [[7.0], [3.0], [5.0]])  # also after the filter
        self.assertEqual(self.results["half"], [3.5, 1.5, 2.5])
        self.assertEqual((self.given["pass"], self.results["pass"]), ([[7.0]], [3.5]))  # no number is in its own code
        self.assertEqual((self.given["pass_far"], self.results["pass_far"]), ([[1, 7.0]], [3.5]))
        self.assertEqual(self.results["nothing"], [0.0])
        self.assertEqual((self.given["second"], self.results["second"]), ([[1.0, 1e300]], [1e300]))
        self.assertEqual(self.given["turn"], [["{x=1.5, y=-2.25}"]])
        self.assertEqual(self.results["turn"], ["{x=2.25, y=1.5}"])
        self.assertEqual((self.given["mix"], self.results["mix"]), ([["{n=7, x=0.375}"]], ["{n=8, x=0.75}"]))
        self.assertEqual(self.given["eight"], [[1.5, 2.5, -3.5, 4.25, 5.0, 6.0, 7.0, 0.125]])
        self.assertEqual(self.results["eight"], [1.5 + 2.5 * -3.5 - 4.25 + 5 * 6 - 7 + 0.125])
        self.assertEqual([g[1:] for g in self.given["scale"]], [[i * 0.5, i, 0.25] for i in range(1000)])
        self.assertEqual(self.results["scale"], [i * 0.5 * i + 0.25 for i in range(1000)])
        self.assertEqual((self.given["add"], self.results["add"]), ([[2, 3]], [5]))

    def test_shown(self):
        self.take("--format", "atf2")
        self.check_shown()
        pieces = self.flags()
        self.assertEqual((pieces["scale"], pieces["half"], pieces["add"]), ({True}, {True}, {False}))

    def test_with_texts(self):
        self.take("--strings", "8")
        self.check_shown()
        self.assertEqual({g[0] for g in self.given["scale"]}, {"cow"})

    def test_with_vectors(self):
        self.take("--vectors", "--format", "atf2")
        self.check_shown()
        self.assertEqual(self.flags()["scale"], {False})

    def test_redacted(self):
        self.take("--redact", "--format", "atf2")
        self.assertEqual(self.flags()["scale"], {False})
        self.assertEqual(self.given["half"], [[None]] * 3)


TRIGGERS = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noipa)) int give(int fd, long size, const char *name) { return fd + (int)size + (name == 0); }
__attribute__((noipa)) int fails(int error) { if (error) errno = error; return -1; }
int main(void) {
    char *heap = strdup("/srv/a.conf");
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    memcpy(pages + 4096 - 6, "x.conf", 6); /* ends with its page, without a 0 */
    give(1, 5000, "a"), give(2, 4096, heap), give(2, -1, (char *)8), give(2, 1, pages + 4096 - 6), give(2, 9000, "b");
    fails(ENOENT), fails(ENOENT), fails(0), fails(EINTR);
    close(open("/nonexistent/1", O_RDONLY)), close(open("/nonexistent/2", O_RDONLY)), close(open("/", O_RDONLY));
    return 0;
}
"""


class Triggers(Values):
    def marks(self, *triggers):
        """How often each trigger has marked."""
        program = self.build("triggers", TRIGGERS)
        done, manifests = self.record(program, options=[o for t in triggers for o in ("--trigger", t)])
        counts = {t: 0 for t in triggers}
        for window in manifests[0]["windows"]:
            for reason in window["reasons"]:
                counts[reason["trigger"]] += reason["count"]
        self.stderr = done.stderr
        return [counts[t] for t in triggers]

    def test_arguments(self):
        self.assertEqual(self.marks("call=give:arg1:gt:4096", "call=give:arg1:gt:4096 and arg0:eq:2",
                                    "call=give:arg1:lt:0", "call=give:arg0:ne:2", "symbol=give"), [2, 1, 1, 1, 5])
        self.assertNotIn("fit", self.stderr)

    def test_texts(self):
        self.assertEqual(self.marks("call=give:arg2:like:*.conf", "call=give:arg2:like:?", "call=give:arg2:like:*"),
                         [2, 2, 4])

    def test_errors(self):
        self.assertEqual(self.marks("return=fails:errno:eq:ENOENT", "return=fails:errno:ne:ENOENT and lt:0",
                                    "return=libc.*!open:errno:eq:ENOENT", "return=fails:eq:-1"), [1, 1, 2, 4])

    def test_fits_nothing(self):
        self.assertEqual(self.marks("call=nosuch:arg0:eq:1", "symbol=give"), [0, 5])
        self.assertIn('the trigger "call=nosuch:arg0:eq:1" fits no function', self.stderr)


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
