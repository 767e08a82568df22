/* SPDX-License-Identifier: Apache-2.0 */
/* Walking the stack through hooked frames gives what it gives without hooks: the same addresses, in the same order.
 *
 * Each case runs three times from the same call site: unhooked, hooked, and after the hooks are gone. The engine's
 * bookkeeping must survive the walk: the tree is exact afterwards. */
#include "harness.h"
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#define MAX_FRAMES 128

struct walk {
    int count;
    void *frames[MAX_FRAMES];
    uintptr_t cfa[MAX_FRAMES];
};

static struct walk *current;
static bool with_unwinder;

static _Unwind_Reason_Code each_frame(struct _Unwind_Context *context, void *arg) {
    struct walk *w = arg;
    if (w->count < MAX_FRAMES) {
        w->cfa[w->count] = _Unwind_GetCFA(context);
        w->frames[w->count++] = (void *)_Unwind_GetIP(context);
    }
    return _URC_NO_REASON;
}

static E2E_FN void take_walk(void) {
    current->count = 0;
    if (with_unwinder)
        _Unwind_Backtrace(each_frame, current);
    else
        current->count = backtrace(current->frames, MAX_FRAMES);
    E2E_BARRIER();
}

static E2E_FN int plain_inner(int x) {
    take_walk();
    return x + 1;
}

static E2E_FN int plain_middle(int x) {
    int y = plain_inner(x);
    E2E_BARRIER();
    return y + 1;
}

static E2E_FN int plain_outer(int x) {
    int y = plain_middle(x);
    E2E_BARRIER();
    return y + 1;
}

static E2E_FN int recurse(int depth) {
    if (depth == 0)
        take_walk();
    else
        depth = recurse(depth - 1) + 1;
    E2E_BARRIER();
    return depth;
}

/* A tail call: the middle function is not on the stack. */
static E2E_FN int tail_middle(int x) {
    return plain_inner(x + 1);
}

static E2E_FN int tail_outer(int x) {
    int y = tail_middle(x);
    E2E_BARRIER();
    return y + 1;
}

/* A frame of variable size, found by its frame pointer */
static E2E_FN int variable_frame(int x) {
    volatile char *space = __builtin_alloca((size_t)x * 16);
    space[0] = 1;
    int y = plain_inner(x);
    E2E_BARRIER();
    return y + space[0];
}

static void on_signal(int number) {
    (void)number;
    plain_inner(1);
    E2E_BARRIER();
}

static E2E_FN int from_signal(int x) {
    raise(SIGUSR1);
    E2E_BARRIER();
    return x;
}

static int compare_callback(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    if (x == 3 && y == 4)
        take_walk();
    return x - y;
}

/* Through a library function that calls back */
static E2E_FN int through_library(int x) {
    int values[] = {3, 4};
    qsort(values, 2, sizeof *values, compare_callback);
    E2E_BARRIER();
    return x + values[1];
}

static ucontext_t main_context, other_context;
static char other_stack[64 * 1024];

static void on_other_stack(void) {
    recurse(2);
    swapcontext(&other_context, &main_context);
}

static E2E_FN int coroutine(int x) {
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = other_stack;
    other_context.uc_stack.ss_size = sizeof other_stack;
    makecontext(&other_context, on_other_stack, 0);
    swapcontext(&main_context, &other_context);
    E2E_BARRIER();
    return x;
}

struct entry {
    const char *name;
    int (*run)(int);
    const char *tree;
    int min_frames;
};

static const struct entry cases[] = {
    {"plain", plain_outer, "plain_outer(plain_middle(plain_inner(take_walk())))", 5},
    {"recursion", recurse, "recurse(recurse(recurse(recurse(recurse(take_walk())))))", 7},
    {"tail call", tail_outer, "tail_outer(tail_middle(plain_inner(take_walk())))", 4},
    {"variable frame", variable_frame, "variable_frame(plain_inner(take_walk()))", 4},
    {"signal handler", from_signal, "from_signal(on_signal(plain_inner(take_walk())))", 6},
    {"library", through_library, "through_library(compare_callback(take_walk()))", 5},
};
#define CASES (sizeof cases / sizeof *cases)

enum { UNHOOKED, HOOKED, REVERTED, ROUNDS };
static struct walk walks[ROUNDS][CASES + 1][2];

static void hook_all(void) {
    E2E_RECORD(take_walk);
    E2E_RECORD(plain_inner);
    E2E_RECORD(plain_middle);
    E2E_RECORD(plain_outer);
    E2E_RECORD(recurse);
    E2E_RECORD(tail_middle);
    E2E_RECORD(tail_outer);
    E2E_RECORD(variable_frame);
    E2E_RECORD(on_signal);
    E2E_RECORD(from_signal);
    E2E_RECORD(compare_callback);
    E2E_RECORD(through_library);
    E2E_RECORD(coroutine);
    E2E_RECORD(on_other_stack);
}

static void compare(const char *name, const struct walk *a, const struct walk *b) {
    bool same = a->count == b->count && memcmp(a->frames, b->frames, (size_t)a->count * sizeof *a->frames) == 0 &&
                memcmp(a->cfa, b->cfa, (size_t)a->count * sizeof *a->cfa) == 0;
    if (same)
        return;
    e2e_fail(__FILE__, __LINE__, "%s: the stack looks different when hooked", name);
    for (int i = 0; i < a->count || i < b->count; i++)
        fprintf(stderr, "  %2d  %p %p\n", i, i < a->count ? a->frames[i] : NULL, i < b->count ? b->frames[i] : NULL);
}

/* All rounds share their call sites, so that the addresses can be equal: loops that a compiler can't unroll. */
static volatile int rounds = ROUNDS;
static volatile size_t case_count = CASES;

static E2E_FN void take_all(int round) {
    for (int kind = 0; kind < 2; kind++) {
        with_unwinder = kind == 1;
        for (size_t i = 0; i < case_count; i++) {
            current = &walks[round][i][kind];
            cases[i].run(4);
            E2E_BARRIER();
            if (round == HOOKED)
                E2E_EXPECT(cases[i].tree);
        }
        current = &walks[round][CASES][kind];
        coroutine(1);
        if (round == HOOKED)
            e2e_forget();
    }
}

/* A function, or a compiler makes a call of take_all for each case. */
static E2E_FN void prepare(int round) {
    if (round == HOOKED)
        hook_all();
    if (round == REVERTED && !e2e_plain())
        for (int hook = 0; hook < 14; hook++)
            E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
}

static E2E_FN void run_rounds(void) {
    for (int round = 0; round < rounds; round++) {
        prepare(round);
        take_all(round);
    }
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    e2e_allow_unnested();
    signal(SIGUSR1, on_signal);
    run_rounds();
    for (size_t i = 0; i <= CASES; i++)
        for (int kind = 0; kind < 2; kind++) {
            const char *name = i < CASES ? cases[i].name : "coroutine";
            E2E_CHECK(walks[UNHOOKED][i][kind].count >= (i < CASES ? cases[i].min_frames : 4));
            compare(name, &walks[UNHOOKED][i][kind], &walks[HOOKED][i][kind]);
            compare(name, &walks[UNHOOKED][i][kind], &walks[REVERTED][i][kind]);
        }
    return e2e_end();
}
