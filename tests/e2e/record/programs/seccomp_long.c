/* SPDX-License-Identifier: Apache-2.0 */
/* A confined program that makes more calls than one chunk of memory holds: the agent must get another one without any
 * system call that the program has forbidden. */
#include "zoo.h"
#include "sandbox.h"

ZOO_GATES

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN long work(int times) {
    long x = 0;
    for (int i = 0; i < times; i++)
        x = leaf(x);
    return x;
}

int main(void) {
    wait_for_start();
    if (!sandbox())
        _exit(77);
    long x = work(300000);
    syscall(SYS_exit_group, x == 300000 ? 4 : 1);
}
