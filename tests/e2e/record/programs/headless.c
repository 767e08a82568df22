/* SPDX-License-Identifier: Apache-2.0 */
/* The main thread has ended; another one goes on, and waits at the gate. */
#include "zoo.h"
#include <pthread.h>

ZOO_GATES

static pthread_t first;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void *survivor(void *arg) {
    long x = 0;
    pthread_join(first, NULL);
    wait_for_start();
    for (int i = 0; i < 1000; i++)
        x = leaf(x);
    puts(x == 1000 ? "right" : "wrong");
    exit(x != 1000);
    return arg;
}

int main(void) {
    pthread_t thread;
    first = pthread_self();
    pthread_create(&thread, NULL, survivor, NULL);
    pthread_exit(NULL);
}
