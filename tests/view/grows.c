/* SPDX-License-Identifier: Apache-2.0 */
/* A program that calls functions until its standard input ends. */
#include <poll.h>
#include <unistd.h>

static __attribute__((noinline)) int leaf(int x) {
    __asm__ volatile("" ::: "memory");
    return x + 1;
}

static __attribute__((noinline)) int work(int count) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += leaf(i);
    return sum;
}

int main(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    int sum = 0;
    while (poll(&input, 1, 10) == 0)
        sum += work(3000);
    return sum == 1;
}
