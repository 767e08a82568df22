/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads that call a function until SIGTERM; prints its pid first. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stop;
static volatile unsigned long turns[2];

__attribute__((noinline)) unsigned long leaf(unsigned long x) {
    return x * 3 + 1;
}

static void *work(void *which) {
    unsigned long value = 1, k = (unsigned long)which;
    do {
        value = leaf(value);
        if (++turns[k] % 1000 == 0)
            usleep(100);
    } while (!stop);
    return value ? NULL : which;
}

static void on_term(int signal) {
    (void)signal;
    stop = 1;
}

int main(void) {
    pthread_t thread;
    signal(SIGTERM, on_term);
    pthread_create(&thread, NULL, work, (void *)1);
    printf("%d\n", getpid());
    fflush(stdout);
    work(NULL);
    pthread_join(thread, NULL);
    printf("%d\n", turns[0] > 0 && turns[1] > 0);
    return 5;
}
