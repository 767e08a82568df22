/* SPDX-License-Identifier: Apache-2.0 */
/* What --probe is tried on: probe_program ROUNDS [PAUSE_US]. Prints "ready", then what `price` has returned for 1000 in
 * each round, and ends with 3. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

long price(long net);
void *reserve(size_t size);

__attribute__((noinline)) long price(long net) {
    return net + net * 7 / 100;
}

__attribute__((noinline)) void *reserve(size_t size) {
    return malloc(size);
}

/* Other threads hear as well. */
static void *work(void *arg) {
    free(reserve(8));
    return arg;
}

int main(int argc, char **argv) {
    volatile long net = 1000; /* or a compiler would know the result */
    int rounds = argc > 1 ? atoi(argv[1]) : 1, pause_us = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t thread;
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < rounds; i++) {
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
        free(reserve(5000));
        printf("%ld\n", price(net));
        fflush(stdout);
        if (pause_us)
            usleep((useconds_t)pause_us);
    }
    return 3;
}
