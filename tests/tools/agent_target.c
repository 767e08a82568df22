/* SPDX-License-Identifier: Apache-2.0 */
/* Calls functions for as long as it is let, and makes no system call meanwhile. */
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t over;
static volatile unsigned long sum;

static void stop(int number) {
    (void)number;
    over = 1;
}

__attribute__((noinline)) static void leaf(unsigned long x) {
    for (unsigned i = 0; i < 1000; i++) /* the disk is to take what we write */
        sum += x;
}

__attribute__((noinline)) static void inner(unsigned long x) {
    leaf(x);
    leaf(x + 1);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

int main(void) {
    struct sigaction action = {.sa_handler = stop};
    unsigned long i = 0;
    sigaction(SIGTERM, &action, NULL);
    puts("ready");
    fflush(stdout);
    for (; !over && i < 20000000000ul; i++)
        inner(i);
    puts(i ? "done" : "nothing");
    return 0;
}
