/* SPDX-License-Identifier: Apache-2.0 */
/* Waits in several ways, makes many calls in between, and prints the time before and after single calls of `point`;
 * then the order in which it has called `left` and `right`. */
#include "zoo.h"
#include <time.h>

enum { ROUNDS = 24, CALLS = 1001, WAIT_NS = 10000000 };

static volatile unsigned sum;
static char order[ROUNDS * CALLS + 1];

static FN void left(void) {
    sum += 1;
}

static FN void right(void) {
    sum += 2;
}

static FN void point(void) {
    sum += 3;
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* The number of calls is odd: waits begin at another slot each time. */
static void make_calls(char *to) {
    static unsigned random = 1;
    for (int i = 0; i < CALLS; i++) {
        random = random * 1664525u + 1013904223u;
        if (random >> 31)
            left();
        else
            right();
        to[i] = random >> 31 ? 'l' : 'r';
    }
}

/* A system call, a loop that makes no call, or nothing. */
static void wait_somehow(int how) {
    long long end = now_ns() + WAIT_NS;
    if (how == 0)
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    while (how == 1 && now_ns() < end)
        for (volatile int i = 0; i < 10000; i++)
            ;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        make_calls(order + i * CALLS);
        wait_somehow(i % 3);
        long long before = now_ns();
        point();
        long long after = now_ns();
        printf("%lld %lld\n", before, after);
    }
    puts(order);
    return 0;
}
