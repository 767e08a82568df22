/* SPDX-License-Identifier: Apache-2.0 */
/* What record.sh records on each machine: arguments of many kinds, two threads, a signal, and a fault in the end. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum colour { RED, GREEN = 7 };
struct point {
    int x, y;
};

__attribute__((noinline)) double scaled(double value, float by, int times) {
    return times ? scaled(value * (double)by, by, times - 1) : value;
}

__attribute__((noinline)) int text_of(const char *name, enum colour colour, bool loud, unsigned char letter) {
    return printf("%s %d %d %c\n", name, colour, loud, letter);
}

__attribute__((noinline)) long sum_of(const struct point *p, struct point q, long a, long b, long c, long d, long e,
                                      long f, long g) {
    return p->x + p->y + q.x + q.y + a + b + c + d + e + f + g;
}

__attribute__((noinline)) void on_signal(int signal) {
    (void)signal;
}

__attribute__((noinline)) void *work(void *arg) {
    *(long *)arg += (long)scaled(1.5, 2.0f, 3);
    return arg;
}

__attribute__((noinline)) int broken(volatile int *place) {
    return *place;
}

int main(void) {
    long total = 0;
    pthread_t thread;
    struct point p = {1, -2}, q = {30, 40};
    signal(SIGUSR1, on_signal);
    pthread_create(&thread, NULL, work, &total);
    pthread_join(thread, NULL);
    total += text_of("a name", GREEN, true, 'x');
    total += sum_of(&p, q, 1, 2, 3, 4, 5, 6, 7);
    raise(SIGUSR1);
    return broken((volatile int *)16) + (int)total;
}
