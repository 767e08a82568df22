/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions far from the outermost frame: what happens afterwards, in the frames that were not thrown through. */
#include "zoo.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

ZOO_GATES

enum what { RETURN, THROW_OUT, JUMP_OUT, CALL, HANDLE, EXIT_THREAD, AGAIN };

static volatile int destroyed;
static jmp_buf place;
static char stack_of_handler[64 << 10] __attribute__((aligned(16)));

struct cleaner {
    __attribute__((always_inline)) ~cleaner() {
        destroyed = destroyed + 1;
    }
};

extern "C" {
static FN void note() {
    BARRIER();
}

static FN void thrower() {
    throw 1;
}

/* An exception lands in each of these frames, and nothing that is recorded happens there. */
static FN void through(int depth) {
    cleaner c;
    if (depth > 1)
        through(depth - 1);
    else
        thrower();
    BARRIER();
}

static FN void catcher(int depth) {
    try {
        through(depth);
    } catch (int) {
    }
    BARRIER();
}

static FN void handler(int) {
    note();
}

static FN void descend(int depth) {
    if (depth > 1)
        descend(depth - 1);
    else
        note();
    BARRIER();
}

static void bottom(enum what what);

static FN void reach(int depth, enum what what) {
    if (depth > 1)
        reach(depth - 1, what);
    else
        bottom(what);
    BARRIER();
}

static FN void rethrower(int depth, enum what what) {
    try {
        reach(depth, what);
    } catch (long) {
        note();
    }
    BARRIER();
}

static FN void jumper(int depth) {
    if (!setjmp(place))
        reach(depth, JUMP_OUT);
    note();
    BARRIER();
}
}

/* Not a function of its own: the innermost `reach` does it. */
__attribute__((always_inline)) static inline void bottom(enum what what) {
    catcher(20);
    if (what == THROW_OUT)
        throw 1L;
    if (what == JUMP_OUT)
        longjmp(place, 1);
    if (what == CALL)
        descend(100);
    if (what == HANDLE)
        raise(SIGUSR1);
    if (what == EXIT_THREAD)
        pthread_exit(NULL);
    if (what == AGAIN)
        for (int i = 0; i < 10; i++)
            catcher(3);
}

extern "C" {
static FN void *thread_main(void *) {
    reach(50, EXIT_THREAD);
    return NULL;
}
}

static inline void prepare_handler() {
    stack_t alternate = {};
    struct sigaction action = {};
    alternate.ss_sp = stack_of_handler;
    alternate.ss_size = sizeof stack_of_handler;
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    CHECK(!sigaltstack(&alternate, NULL) && !sigaction(SIGUSR1, &action, NULL));
}

int main() {
    pthread_t thread;
    prepare_handler();
    wait_for_start();
    reach(1000, RETURN);
    rethrower(200, THROW_OUT);
    jumper(200);
    reach(100, CALL);
    reach(100, AGAIN);
    reach(100, HANDLE);
    CHECK(!pthread_create(&thread, NULL, thread_main, NULL));
    CHECK(!pthread_join(thread, NULL));
    CHECK(destroyed == 7 * 20 + 30);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
