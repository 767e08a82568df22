/* SPDX-License-Identifier: Apache-2.0 */
/* Prints its number, and works a little a hundred times a second, until it is killed or a minute has passed. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) static int inner(volatile int *sum) {
    return ++*sum;
}

__attribute__((noinline)) static int work(volatile int *sum, int rounds) {
    for (int i = 0; i < rounds; i++)
        inner(sum);
    return *sum;
}

int main(void) {
    volatile int sum = 0;
    printf("%d\n", (int)getpid());
    fflush(stdout);
    for (int i = 0; i < 6000; i++) {
        work(&sum, i % 50);
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return 0;
}
