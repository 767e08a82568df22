/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is loaded later and crashes. */
static int *volatile nowhere = (int *)0x20;

__attribute__((noinline)) void crash_deep(int n) {
    if (n)
        crash_deep(n - 1);
    else
        *(volatile int *)nowhere = 1;
    __asm__ volatile("");
}

void crash_in_library(int n) {
    crash_deep(n);
    __asm__ volatile("");
}
