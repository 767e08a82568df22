/* SPDX-License-Identifier: Apache-2.0 */
/* Hooked calls in a process that gets no more memory (RLIMIT_AS).
 *
 * What went wrong here: a thread that could not get its buffers crashed at its first hooked call. Without memory calls
 * may stay unseen; they never do anything else than they would without hooks. */
#include "harness.h"
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CALLS = 20000 };

static E2E_FN int next(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int nested(int depth) {
    int below = depth ? nested(depth - 1) : 0;
    E2E_BARRIER();
    return below + 1;
}

static void work(void) {
    long sum = 0;
    for (int i = 0; i < CALLS; i++)
        sum += next(i);
    E2E_EQUAL(sum, (long)CALLS * (CALLS + 1) / 2);
    E2E_EQUAL(nested(2000), 2001);
}

/* Started while there was memory, its first hooked call made when there is none. */
static pthread_barrier_t barrier;

static void *thread_main(void *arg) {
    (void)arg;
    pthread_barrier_wait(&barrier);
    work();
    return NULL;
}

static void *seen_main(void *arg) {
    next(1);
    E2E_EXPECT("next()");
    return arg;
}

int main(int argc, char **argv) {
    alarm(240);
    e2e_begin(argc, argv);
    E2E_RECORD(next);
    E2E_RECORD(nested);
    pthread_t thread;
    struct rlimit before, none;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, thread_main, NULL);
    getrlimit(RLIMIT_AS, &before);
    none = before;
    none.rlim_cur = 1 << 20;
    E2E_EQUAL(setrlimit(RLIMIT_AS, &none), 0);
    work(); /* the first hooked calls of this thread */
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    work();
    E2E_EQUAL(setrlimit(RLIMIT_AS, &before), 0);
    /* with memory again */
    work();
    e2e_forget();
    pthread_create(&thread, NULL, seen_main, NULL);
    pthread_join(thread, NULL);
    return e2e_end();
}
