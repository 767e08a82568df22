/* SPDX-License-Identifier: Apache-2.0 */
/* The strict mode: read, write, exit and rt_sigreturn only. */
#include "zoo.h"
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        _exit(77);
    long x = work(2000);
    write(1, x == 2000 ? "right\n" : "wrong\n", 6);
    syscall(SYS_exit, 6);
}
