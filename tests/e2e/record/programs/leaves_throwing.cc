/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that throw through many frames, beside threads that call all the time; until standard input ends. Somebody is
 * always inside a call, and somebody always about to throw through frames that were entered before. Prints "right". */
#include "zoo.h"
#include <pthread.h>
#include <stdint.h>

static volatile int stop;
static long wrong;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

/* Takes its time on each level. */
static FN long down(int depth) {
    for (int i = 0; i < 100000; i++)
        BARRIER();
    if (depth == 0)
        throw depth;
    long below = down(depth - 1);
    BARRIER();
    return below + 1;
}

static FN void catches(void) {
    int caught = 0;
    try {
        down(20);
    } catch (int) {
        caught = 1;
    }
    if (!caught)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static FN void *throws(void *arg) {
    while (!stop)
        catches();
    return arg;
}

static FN void *calls(void *arg) {
    for (long x = 0; !stop;)
        x = leaf(x);
    return arg;
}

int main() {
    pthread_t threads[4];
    char byte;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? throws : calls, NULL);
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) == 1)
        ;
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    puts(wrong ? "WRONG" : "right");
    return wrong != 0;
}
