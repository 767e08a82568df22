/* SPDX-License-Identifier: Apache-2.0 */
/* The main thread ends by pthread_exit while another goes on and ends the process. */
#include "zoo.h"
#include <pthread.h>

ZOO_GATES

static pthread_t first;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void *survivor(void *arg) {
    pthread_join(first, NULL);
    long x = 0;
    for (int i = 0; i < 100; i++)
        x = leaf(x);
    printf("%ld\n", x);
    exit(x == 100 ? 5 : 1);
    return arg;
}

static FN void leave(void) {
    pthread_exit(NULL);
}

int main(void) {
    pthread_t thread;
    first = pthread_self();
    wait_for_start();
    pthread_create(&thread, NULL, survivor, NULL);
    leave();
    return 1;
}
