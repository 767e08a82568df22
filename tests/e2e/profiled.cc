/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a profiler: a timer's signal comes at any moment, also in the middle of a stub and of an unwinder, and
 * its handler walks the stack, or throws and catches something itself; on the thread's stack and on one of its own. The
 * program meanwhile throws, or only calls; also in the middle of a tail call. Every function of the C library, of the
 * C++ library and of the unwinder has a hook.
 *
 * An engine can go wrong here because a walk takes the hooks' return addresses off the stack and puts them back, while
 * the code that was interrupted is about to do so itself. */
#include "harness.h"
#include "machine.h"
#include <csignal>
#include <cstring>
#include <ctime>
#include <execinfo.h>
#include <link.h>
#include <stdexcept>

#define FN extern "C" E2E_FN __attribute__((visibility("hidden")))

enum action { NOTHING, WALKS, THROWS, BOTH };
enum { TIMES = 102 }; /* every third time, and so the last, the program arms the timer itself */
static volatile enum action action;
static volatile int handled, wrong;
static volatile bool unarmed, throws_too;
static timer_t profiler;
static uintptr_t unwinder, unwinder_end;

/* The next signal, so soon after this one. The program always gets on: there is one at a time. */
static void arm() {
    struct itimerspec next = {{0, 0}, {0, 30000 + handled * 7919 % 60000}};
    timer_settime(profiler, 0, &next, nullptr);
}

FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

FN int inner(int depth) {
    if (depth == 0)
        throw std::runtime_error("inner");
    int below = inner(depth - 1);
    E2E_BARRIER();
    return below + 1;
}

FN bool inner_caught() {
    try {
        inner(3);
    } catch (const std::runtime_error &e) {
        return !strcmp(e.what(), "inner");
    }
    return false;
}

FN int walk(int depth) {
    void *frames[64];
    int found = depth ? walk(depth - 1) : backtrace(frames, 64);
    E2E_BARRIER();
    return found;
}

/* Where an unwinder installs the frame that it lands in, nobody can walk over it, hooks or not. */
static bool is_walkable(const void *context) {
    auto pc = static_cast<uintptr_t>(CONTEXT_PC(context));
    return !throws_too || pc < unwinder || pc >= unwinder_end;
}

FN void on_signal(int, siginfo_t *, void *context) {
    enum action what = is_walkable(context) || action == THROWS ? action : NOTHING;
    int times = handled = handled + 1;
    if (what == WALKS || (what == BOTH && times % 2))
        wrong = wrong + (walk(3) < 5);
    if (what == THROWS || (what == BOTH && times % 3))
        wrong = wrong + !inner_caught();
    if (times % 3)
        arm();
    else
        unarmed = true; /* nothing is called after the walk */
}

struct guard {
    int *count;
    explicit guard(int *c) : count(c) {
    }
    ~guard() {
        *count = leaf(*count);
    }
};

FN int throwing(int depth, int *unwound) {
    guard g(unwound);
    if (depth == 0)
        throw std::logic_error("outer");
    int below = throwing(depth - 1, unwound);
    E2E_BARRIER();
    return below + 1;
}

FN int catching() {
    int unwound = 0;
    try {
        throwing(6, &unwound);
    } catch (const std::logic_error &) {
        return unwound;
    }
    return -1;
}

FN int calling() {
    char *copy = strdup("profile");
    int result = leaf(static_cast<int>(strlen(copy)));
    free(copy);
    return result;
}

static void profile(enum action what, bool throws, int flags) {
    struct sigaction handler;
    memset(&handler, 0, sizeof handler);
    handler.sa_sigaction = on_signal;
    handler.sa_flags = SA_RESTART | SA_SIGINFO | flags;
    sigaction(SIGPROF, &handler, nullptr);
    action = what;
    throws_too = throws;
    handled = 0;
    arm();
    while (handled < TIMES) {
        if (unarmed) {
            unarmed = false;
            arm();
        }
        if (throws ? catching() != 7 : calling() != 8)
            wrong = wrong + 1;
    }
    unarmed = false;
    E2E_EQUAL(wrong, 0);
    printf("%d of %d signals, the program %s, the stack is %s\n", handled, TIMES, throws ? "throws" : "calls",
           flags ? "another" : "the same");
}

static int note_unwinder(struct dl_phdr_info *module, size_t, void *) {
    if (!strstr(module->dlpi_name, "/libgcc_s"))
        return 0;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &module->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
            unwinder = module->dlpi_addr + segment->p_vaddr;
            unwinder_end = unwinder + segment->p_memsz;
        }
    }
    return 1;
}

static void hook_module(const char *name) {
    struct ct_hooks_module what = {};
    what.size = sizeof what;
    what.module = name;
    what.flavor = CT_HOOK_FLAVOR_RECORD;
    int rc = ct_hooks_attach_module(e2e_hooks, &what);
    if (rc < 0)
        e2e_fail(__FILE__, __LINE__, "%s cannot be hooked: %s", name ? name : "the program", ct_status_text(rc));
}

int main(int argc, char **argv) {
    e2e_begin_with(argc, argv, nullptr, 32768);
    void *loaded[4];
    backtrace(loaded, 4); /* loads the unwinder */
    E2E_EQUAL(dl_iterate_phdr(note_unwinder, nullptr), 1);
    if (!e2e_plain()) {
        E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
        hook_module("libc.so.6");
        hook_module("libstdc++.so.6");
        hook_module("libgcc_s.so.1");
        hook_module(nullptr);
        E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
    }
    static char stack[128 << 10];
    stack_t alternate;
    memset(&alternate, 0, sizeof alternate);
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGPROF;
    E2E_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &profiler), 0);
    for (int flags : {0, SA_ONSTACK}) {
        profile(WALKS, false, flags);
        profile(THROWS, false, flags);
        profile(BOTH, false, flags);
        profile(WALKS, true, flags);
        profile(THROWS, true, flags);
    }
    timer_delete(profiler);
    return e2e_end();
}
