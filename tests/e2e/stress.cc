/* SPDX-License-Identifier: Apache-2.0 */
/* Everything at once for a moment: threads that throw, jump, recurse, switch stacks, walk them and take signals, while
 * another one switches hooks, attaches and reverts them and drains events. Results are right, and what each thread
 * recorded fits together. */
#include "harness.h"
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define FN extern "C" E2E_FN __attribute__((visibility("hidden")))

static volatile bool stop;

FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
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
        throw std::runtime_error("bottom");
    int below = throwing(depth - 1, unwound);
    E2E_BARRIER();
    return below + 1;
}

FN int catching(int depth) {
    int unwound = 0;
    try {
        throwing(depth, &unwound);
    } catch (const std::runtime_error &) {
        return unwound;
    }
    return -1;
}

FN void jumping(int depth, std::jmp_buf *out) {
    if (depth == 0)
        longjmp(*out, 1);
    if (depth < 0)
        return;
    jumping(depth - 1, out);
    E2E_BARRIER();
}

FN int jump_catching(int depth) {
    std::jmp_buf out;
    volatile int before = leaf(depth);
    if (setjmp(out) == 0)
        jumping(depth, &out);
    return before;
}

FN int recursing(int depth) {
    int below = depth ? recursing(depth - 1) : 0;
    E2E_BARRIER();
    return below + 1;
}

FN int walking(int depth) {
    void *frames[64];
    if (depth)
        return walking(depth - 1) + (leaf(1) - 2);
    return backtrace(frames, 64);
}

struct coroutine {
    ucontext_t self, caller;
    int value;
};

FN void coroutine_body(coroutine *c) {
    for (int i = 0; i < 3; i++) {
        c->value += leaf(i);
        swapcontext(&c->self, &c->caller);
    }
}

static void coroutine_entry(unsigned high, unsigned low) {
    auto *c = reinterpret_cast<coroutine *>(static_cast<uintptr_t>(high) << 32 | low);
    coroutine_body(c);
    setcontext(&c->caller);
}

FN int switching() {
    char *stack = new char[32768];
    coroutine c;
    memset(&c, 0, sizeof c);
    getcontext(&c.self);
    c.self.uc_stack.ss_sp = stack;
    c.self.uc_stack.ss_size = 32768;
    makecontext(&c.self, reinterpret_cast<void (*)()>(coroutine_entry), 2,
                static_cast<unsigned>(reinterpret_cast<uintptr_t>(&c) >> 32),
                static_cast<unsigned>(reinterpret_cast<uintptr_t>(&c)));
    for (int i = 0; i < 4; i++)
        swapcontext(&c.caller, &c.self);
    delete[] stack;
    return c.value;
}

static thread_local volatile int handled;

FN void handler(int) {
    handled = leaf(handled);
}

struct job {
    int which, tid;
    long rounds;
};

static bool one_round(int which) {
    switch (which) {
    case 0:
        return catching(10) == 11;
    case 1:
        return jump_catching(7) == 8;
    case 2:
        return recursing(50) == 51;
    case 3:
        return walking(5) >= 6;
    default:
        return switching() == 6;
    }
}

static void *worker(void *arg) {
    auto *j = static_cast<job *>(arg);
    j->tid = e2e_gettid();
    while (!stop || j->rounds < 3) {
        if (!one_round((j->which + static_cast<int>(j->rounds)) % 5))
            e2e_fail(__FILE__, __LINE__, "wrong result of kind %d", (j->which + static_cast<int>(j->rounds)) % 5);
        if (++j->rounds > (e2e_listening() ? 500 : 5000))
            usleep(1000); // the log has an end, however long it takes to change hooks
    }
    return nullptr;
}

enum { WORKERS = 5 };
static pthread_t workers[WORKERS];
static job jobs[WORKERS];

static void signal_workers() {
    for (auto &w : workers)
        pthread_kill(w, SIGUSR1);
}

static int hook_all(int *hooks) {
    int n = 0;
    hooks[n++] = E2E_RECORD(leaf);
    hooks[n++] = E2E_RECORD(throwing);
    hooks[n++] = E2E_RECORD(catching);
    hooks[n++] = E2E_RECORD(jumping);
    hooks[n++] = E2E_RECORD(jump_catching);
    hooks[n++] = E2E_RECORD(recursing);
    hooks[n++] = E2E_RECORD(walking);
    hooks[n++] = E2E_RECORD(coroutine_body);
    hooks[n++] = E2E_RECORD(switching);
    hooks[n++] = E2E_RECORD(handler);
    return n;
}

static void change_hooks(int round, int *hooks, int count) {
    int which = round % count;
    if (round % 7 == 0) {
        E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
        for (int i = 0; i < count; i++)
            E2E_EQUAL(ct_hooks_revert(e2e_hooks, hooks[i]), 0);
        E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
        E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
        hook_all(hooks);
        E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
        return;
    }
    E2E_EQUAL(ct_hooks_disable(e2e_hooks, hooks[which]), 0);
    E2E_EQUAL(ct_hooks_flush(e2e_hooks), 0);
    E2E_EQUAL(ct_hooks_enable(e2e_hooks, hooks[which]), 0);
}

int main(int argc, char **argv) {
    int hooks[10], count = 0;
    e2e_begin(argc, argv);
    e2e_allow_unnested();
    signal(SIGUSR1, handler);
    if (!e2e_plain()) {
        E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
        count = hook_all(hooks);
        E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        jobs[i].which = i;
        pthread_create(&workers[i], nullptr, worker, &jobs[i]);
    }
    for (int round = 0; round < 60; round++) {
        signal_workers();
        if (!e2e_plain())
            change_hooks(round, hooks, count);
        usleep(2000);
    }
    stop = true;
    long rounds = 0;
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i], nullptr);
        rounds += jobs[i].rounds;
    }
    struct e2e_summary s = e2e_summarize(-1);
    printf("%ld rounds, %zu calls, %zu returns, %zu left, %zu open\n", rounds, s.calls, s.returns, s.left, s.open);
    if (!e2e_plain()) {
        /* A drain passes over the slot of a stub that a handler has interrupted, and counts it: then an end may be
         * without its call, and what is left and open is not known exactly. */
        struct ct_hooks_statistics counted = {};
        counted.size = sizeof counted;
        ct_hooks_statistics(e2e_hooks, &counted);
        printf("%lu slots passed over\n", counted.abandoned);
        if (!counted.abandoned)
            E2E_EQUAL(s.calls, s.returns + s.left + s.open);
    }
    return e2e_end();
}
