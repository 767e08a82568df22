#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the detail lane captures: stacks never past their mapping, real return addresses, vector registers, limits, and
with --detail always --lossless a record for every call and return.

usage: detail.py CONTRAIL [unittest arguments]"""
import glob
import os
import platform
import struct
import sys
import unittest

import atf
import detail_file
import session_case

# Calls on stacks of its own: each word above the stack pointer holds its own address, with bits flipped.
EDGES = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
__attribute__((noipa)) long probe(long kind, long number) {
    __asm__ volatile("nop;nop;nop;nop;nop;nop;nop;nop");
    return kind * 1000 + number;
}
enum { SIZE = 16 * 4096 };
static char *map(void) { /* nothing can be read past it */
    char *at = mmap(NULL, SIZE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at + SIZE, 4096, PROT_NONE);
    return at;
}
static void call_at(char *slot, long kind, long number) {
    __asm__ volatile("mov %%rsp, %%r12\n lea 8(%2), %%rsp\n call probe\n mov %%r12, %%rsp"
                     : "+D"(kind), "+S"(number) : "r"(slot)
                     : "r12", "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
}
static void edges(char *stack, long kind, long shift) {
    for (long k = 1; k <= 40; k++) {
        char *slot = stack + SIZE - 8 * k - shift;
        for (char *p = slot; p + 8 <= stack + SIZE; p += 8)
            *(long *)p = (long)p ^ 0x5a5a5a5a5a5a5a5aL;
        call_at(slot, kind, k);
    }
}
static void own_stack(long kind, long shift) { /* the thread's own, far from its end */
    char area[SIZE];
    char *slot = area + SIZE - 1024 - shift;
    for (char *p = slot; p + 8 <= area + SIZE; p += 8)
        *(long *)p = (long)p ^ 0x5a5a5a5a5a5a5a5aL;
    call_at(slot, kind, 1);
    __asm__ volatile("" : : "r"(area) : "memory");
}
static void handler(int signal) { (void)signal; probe(3, 1); }
static void *thread(void *arg) { (void)arg; probe(4, 1); return NULL; }
static ucontext_t back, there;
static void routine(void) { probe(5, 1); }
int main(void) {
    char *stack = map();
    edges(stack, 1, 0);
    edges(stack, 2, 3); /* misaligned */
    own_stack(6, 0);
    own_stack(7, 3);
    stack_t alternate = {.ss_sp = map(), .ss_size = SIZE};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    getcontext(&there);
    there.uc_stack.ss_sp = map();
    there.uc_stack.ss_size = SIZE;
    there.uc_link = &back;
    makecontext(&there, routine, 0);
    swapcontext(&back, &there);
    printf("%ld\n", (long)stack + SIZE);
    return 0;
}
"""

VALUES = r"""
#include <stdio.h>
__attribute__((noipa)) double eight(double a, double b, double c, double d, double e, double f, double g, double h) {
    return a + b * c - d + e * f - g + h;
}
__attribute__((noipa)) float two(float a, float b) { __asm__ volatile("nop;nop;nop;nop"); return a / b; }
__attribute__((noipa)) long last(long a) { __asm__ volatile("nop;nop;nop;nop"); return a * 3; }
__attribute__((noipa, optimize("O2"))) long tail(long a) { __asm__ volatile("nop;nop;nop;nop"); return last(a + 1); }
int main(void) {
    printf("%a %a %ld\n", eight(1.5, 2.5, -3.5, 4.25, 5e300, 6, 7, 8e-300), (double)two(1, 3), tail(41));
    return 0;
}
"""

# Calls of functions that the engine itself watches.
WATCHED = r"""
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static jmp_buf there;
__attribute__((noipa)) void leaves(void) { longjmp(there, 5); }
int main(int argc, char **argv) {
    char name[16] = "";
    if (argc > 1) return 3;
    long pid = syscall(SYS_getpid, 11, 22, 33, 44, 55);
    prctl(PR_GET_NAME, name, 66);
    if (!setjmp(there)) leaves();
    execl("/nowhere", "nowhere", (char *)0);
    printf("%ld %ld\n", pid, (long)name);
    fflush(stdout);
    if (vfork() == 0) { execl(argv[0], argv[0], "again", (char *)0); _exit(9); }
    wait(NULL);
    return 0;
}
"""

# 3,000 tail calls in a row, twice: and from the end of them a call.
CHAIN = r"""
__attribute__((noipa)) long leaf(long a) { __asm__ volatile("nop;nop;nop;nop"); return a; }
long odd(long n);
__attribute__((noipa)) long even(long n) { __asm__ volatile("nop;nop;nop;nop"); return n ? odd(n - 1) : leaf(7); }
__attribute__((noipa)) long odd(long n) { __asm__ volatile("nop;nop;nop;nop"); return even(n - 1); }
__attribute__((noipa)) long twice(long n) { long x = even(n); __asm__ volatile("nop"); return x + even(n); }
int main(void) { return twice(3000) == 14 ? 0 : 1; }
"""

COUNTS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static long each;
__attribute__((noipa)) long step(long i) { __asm__ volatile("nop;nop;nop;nop"); return i * 7; }
static void *work(void *arg) { for (long i = 0; i < each; i++) step(i); return arg; }
int main(int argc, char **argv) {
    static pthread_t threads[512];
    int count = atoi(argv[1]);
    each = atol(argv[2]);
    if (argc > 3 && !fork()) { work(NULL); _exit(0); }
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    if (!count) work(NULL);
    while (wait(NULL) > 0) ;
    return 0;
}
"""


class Detail(session_case.SessionCase):
    def traces(self):
        return [atf.Trace(path) for path in sorted(glob.glob(self.session() + "/pid_*"))]

    def details(self, trace, name=None, kind=detail_file.CALL):
        records = []
        for thread in trace.threads:
            records += detail_file.read(os.path.join(trace.directory, "thread_%d" % thread.id))
        return [r for r in records if r.type == kind and (not name or trace.functions[r.function].name == name)]

    def owner(self, trace, address):
        return next((f.name for f in trace.functions.values()
                     if f.module.base + f.offset <= address < f.module.base + f.offset + f.size), None)


@unittest.skipIf(platform.machine() == "aarch64", "its program moves the stack by instructions of x86_64")
class Stacks(Detail):
    def check_words(self, trace, record):
        words = [(record.stack_pointer + at) ^ 0x5a5a5a5a5a5a5a5a for at in range(8, len(record.stack), 8)]
        self.assertEqual(record.stack[8:], b"".join(struct.pack("<Q", word) for word in words))
        self.assertIn(self.owner(trace, record.return_address), ("call_at", "edges", "own_stack", "main"))

    def check(self, wanted, *options):
        done, _ = self.record(self.build("edges", EDGES), options=["--detail", "always", *options])
        end, trace = int(done.stdout), self.traces()[0]
        calls = {(r.registers[0], r.registers[1]): r for r in self.details(trace, "probe")}
        self.assertEqual(len(calls), 85)
        for k in range(1, 41):
            aligned, odd = calls[1, k], calls[2, k]
            self.assertEqual(aligned.stack_pointer, end - 8 * k)
            self.assertEqual(len(aligned.stack), min(wanted, 8 * k))  # up to the end of the mapping, not a byte more
            self.assertEqual(odd.stack_pointer, end - 8 * k - 3)
            self.assertEqual(len(odd.stack), min(wanted, 8 * k))
            self.check_words(trace, aligned)
            self.check_words(trace, odd)
        for kind in (6, 7):
            self.assertEqual(len(calls[kind, 1].stack), wanted)
            self.check_words(trace, calls[kind, 1])
        for kind in (3, 4, 5):
            self.assertLessEqual(len(calls[kind, 1].stack), wanted)
            if wanted >= 8:
                self.assertEqual(int.from_bytes(calls[kind, 1].stack[:8], "little"), calls[kind, 1].return_address)

    def test_128(self):
        self.check(128)

    def test_512(self):
        self.check(512, "--stack-bytes", "512")

    def test_8(self):
        self.check(8, "--stack-bytes", "8")

    def test_none(self):
        self.check(0, "--stack-bytes", "0")

    def test_with_vectors(self):
        self.check(64, "--stack-bytes", "64", "--vectors")


class Values(Detail):
    def test_vectors(self):
        self.record(self.build("values", VALUES, "-fno-optimize-sibling-calls"),
                    options=["--detail", "always", "--vectors", "--only", "values"])
        trace = self.traces()[0]
        call, back = self.details(trace, "eight")[0], self.details(trace, "eight", detail_file.RETURN)[0]
        given = (1.5, 2.5, -3.5, 4.25, 5e300, 6, 7, 8e-300)
        self.assertEqual(tuple(struct.unpack_from("<d", call.rest, 16 * i)[0] for i in range(8)), given)
        a, b, c, d, e, f, g, h = given
        self.assertEqual(struct.unpack_from("<d", back.rest)[0], a + b * c - d + e * f - g + h)
        call, back = self.details(trace, "two")[0], self.details(trace, "two", detail_file.RETURN)[0]
        self.assertEqual([struct.unpack_from("<f", call.rest, 16 * i)[0] for i in range(2)], [1, 3])
        self.assertEqual(struct.unpack_from("<f", back.rest)[0], struct.unpack("<f", struct.pack("<f", 1 / 3))[0])

    def test_tail_call(self):
        """Both see the caller's address, not a stub's."""
        self.record(self.build("values", VALUES), options=["--detail", "always", "--only", "values"])
        trace = self.traces()[0]
        tail, last = self.details(trace, "tail")[0], self.details(trace, "last")[0]
        self.assertEqual((tail.registers[0], last.registers[0]), (41, 42))
        self.assertEqual((tail.return_address, tail.stack_pointer), (last.return_address, last.stack_pointer))
        self.assertEqual(self.owner(trace, last.return_address), "main")
        self.assertEqual(self.details(trace, "last", detail_file.RETURN)[0].registers[0], 126)
        self.assertEqual(self.details(trace, "tail", detail_file.RETURN)[0].registers[0], 126)


class Chains(Detail):
    def test_long_chain(self):
        """Each link sees the return address of the first."""
        self.record(self.build("chain", CHAIN, "-foptimize-sibling-calls"),
                    options=["--detail", "always", "--only", "chain"])
        trace = self.traces()[0]
        for name, count in (("even", 3002), ("odd", 3000), ("leaf", 2)):
            calls = self.details(trace, name)
            self.assertEqual(len(calls), count)
            self.assertEqual({self.owner(trace, r.return_address) for r in calls}, {"twice"})
            self.assertEqual({r.returns_as_stack_says() for r in calls}, {True})
        self.assertEqual(sorted({r.registers[0] for r in self.details(trace, "even")}), list(range(0, 3001, 2)))


class Watched(Detail):
    def test_arguments_and_results(self):
        """Functions that the engine watches have records like any other."""
        done, manifests = self.record(self.build("watched", WATCHED),
                                      options=["--detail", "always", "--stack-bytes", "64"])
        pid, name = map(int, done.stdout.split())
        trace = next(t for t in self.traces() if t.manifest["pid"] == pid)

        def only(name, kind=detail_file.CALL, **wanted):
            found = [r for r in self.details(trace, None, kind) if name in trace.functions[r.function].name]
            return [r for r in found if all(r.registers[int(k[1:])] == v for k, v in wanted.items())]

        getpid = {"aarch64": 172}.get(platform.machine(), 39)
        call = only("syscall", r0=getpid, r1=11, r2=22, r3=33, r4=44, r5=55)
        self.assertEqual(len(call), 1)
        self.assertEqual(self.owner(trace, call[0].return_address), "main")
        self.assertTrue(call[0].returns_as_stack_says())
        self.assertEqual(len(call[0].stack), 64)
        self.assertEqual(len(only("syscall", detail_file.RETURN, r0=pid)), 1)
        self.assertEqual(len(only("prctl", r0=16, r1=name, r2=66)), 1)
        self.assertGreaterEqual(len(only("prctl", detail_file.RETURN, r0=0)), 1)
        self.assertGreaterEqual(len(only("longjmp", r1=5)), 1)
        self.assertGreaterEqual(len(only("execve")), 1)
        self.assertGreaterEqual(len(only("execve", detail_file.RETURN, r0=2**64 - 1)), 1)
        self.assertGreaterEqual(len(only("vfork")), 1)
        for manifest in manifests:  # the frames that were left have an event without a record
            self.assertEqual(sum(manifest["detail"]["lost"].values()) + manifest["detail"]["rejected"], 0)


class Counts(Detail):
    """session_case records with --lossless."""

    def check(self, threads, each, *options):
        _, (manifest, ) = self.record(self.build("counts", COUNTS), str(threads), str(each),
                                      options=["--detail", "always", "--only", "counts", *options])
        trace = self.traces()[0]
        steps = self.details(trace, "step")
        self.assertEqual(sorted(r.registers[0] for r in steps), sorted(list(range(each)) * (threads or 1)))
        results = self.details(trace, "step", detail_file.RETURN)
        self.assertEqual(sorted(r.registers[0] for r in results), sorted([7 * i for i in range(each)] * (threads or 1)))
        self.assertEqual(manifest["detail"]["written"], manifest["events"]["written"])
        self.assertEqual(sum(manifest["detail"]["lost"].values()) + manifest["detail"]["rejected"], 0)

    def test_one(self):
        self.check(0, 50000)

    def test_raw(self):
        self.check(0, 20000, "--format", "atf2")

    def test_8_threads(self):
        self.check(8, 4000)

    def test_200_threads(self):
        self.check(200, 300)

    def test_more_threads_than_segments(self):
        """Those that find none have no detail: a segment that another thread fills is not worth waiting for."""
        _, (manifest, ) = self.record(self.build("counts", COUNTS), "50", "300",
                                      options=["--detail", "always", "--only", "counts", "--detail-mem", "1M"])
        detail = manifest["detail"]
        self.assertEqual(detail["written"] + sum(detail["lost"].values()), manifest["events"]["written"])

    def test_rate(self):
        _, (manifest, ) = self.record(self.build("counts", COUNTS), "0", "20000",
                                      options=["--detail", "always", "--only", "counts", "--detail-rate", "50"])
        detail, events = manifest["detail"], manifest["events"]["written"]
        self.assertEqual(detail["written"] + detail["limited"], events)
        steps = self.details(self.traces()[0], "step")
        numbers = [r.registers[0] for r in steps]
        self.assertEqual(numbers[:50], list(range(50)))
        # each of the limit's seconds lets 50 through; all but the last are used up, and two of them may follow each
        # other closely
        begins = [at for at in range(len(numbers)) if not at or numbers[at] != numbers[at - 1] + 1]
        for begin, end in zip(begins, begins[1:]):
            self.assertGreaterEqual(end - begin, 50)
        seconds = (manifest["time_end_ns"] - manifest["time_start_ns"]) // 10**9
        self.assertLessEqual(len(numbers), 50 * (seconds + 2))
        self.assertEqual(len(self.details(self.traces()[0], "step", detail_file.RETURN)), len(steps))

    def test_off(self):
        _, (manifest, ) = self.record(self.build("counts", COUNTS), "2", "100", options=["--detail", "off"])
        self.assertEqual(glob.glob(self.session() + "/pid_*/thread_*/detail*"), [])

    def test_child(self):
        _, manifests = self.record(self.build("counts", COUNTS), "0", "500", "fork",
                                   options=["--detail", "always", "--only", "counts"])
        self.assertEqual(len(manifests), 2)
        for trace in self.traces():
            self.assertEqual([r.registers[0] for r in self.details(trace, "step")], list(range(500)))


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(argv=sys.argv)
