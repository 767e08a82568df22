/* SPDX-License-Identifier: Apache-2.0 */
/* Ends while eight threads are in the middle of calls. */
#include "zoo.h"
#include <pthread.h>

ZOO_GATES

static FN long leaf(long x) {
    for (int i = 0; i < 2000; i++)
        BARRIER();
    return x + 1;
}

static int begun;

static FN void *busy(void *arg) {
    for (long i = 0;; i++) {
        if (leaf(i) != i + 1)
            abort();
        if (i == 0)
            __atomic_add_fetch(&begun, 1, __ATOMIC_RELEASE);
    }
    return arg;
}

int main(void) {
    pthread_t thread;
    wait_for_start();
    for (int i = 0; i < 8; i++)
        pthread_create(&thread, NULL, busy, NULL);
    while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < 8)
        usleep(1000);
    usleep(30000);
    return 2;
}
