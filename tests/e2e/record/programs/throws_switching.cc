/* SPDX-License-Identifier: Apache-2.0 */
/* A coroutine runs between a throw and the returns of the frames around it, and throws too. */
#include "zoo.h"
#include <ucontext.h>

ZOO_GATES

static volatile int destroyed;
static ucontext_t here, there;
static char stack_of_coroutine[128 << 10] __attribute__((aligned(16)));

struct cleaner {
    __attribute__((always_inline)) ~cleaner() {
        destroyed = destroyed + 1;
    }
};

extern "C" {
static FN void note() {
    BARRIER();
}

static FN void through(int depth) {
    cleaner c;
    if (depth > 1)
        through(depth - 1);
    else
        throw 1;
    BARRIER();
}

static FN void catcher(int depth) {
    try {
        through(depth);
    } catch (int) {
    }
    BARRIER();
}

static FN void reach(int depth, ucontext_t *from, ucontext_t *to) {
    if (depth > 1) {
        reach(depth - 1, from, to);
    } else {
        catcher(10);
        swapcontext(from, to);
        catcher(5);
    }
    note();
}

static FN void coroutine() {
    for (;;)
        reach(40, &there, &here);
}
}

int main() {
    wait_for_start();
    getcontext(&there);
    there.uc_stack.ss_sp = stack_of_coroutine;
    there.uc_stack.ss_size = sizeof stack_of_coroutine;
    makecontext(&there, coroutine, 0);
    for (int i = 0; i < 20; i++)
        reach(60, &here, &there);
    CHECK(destroyed == 20 * 15 + 20 * 10 + 19 * 5);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
