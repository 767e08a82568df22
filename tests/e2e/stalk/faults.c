/* SPDX-License-Identifier: Apache-2.0 */
/* One fault after the other until SIGTERM, each left by siglongjmp; prints its pid first, and in the end whether each
 * handler got what had happened. Argument: which faults. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdbool.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#if defined __x86_64__
#define FAULT_PC(c) (c)->uc_mcontext.gregs[REG_RIP]
#define WRITE       "movl $1, (%0)"
#else
#define FAULT_PC(c) (c)->uc_mcontext.pc
#define WRITE       "str wzr, [%0]"
#endif

static sigjmp_buf back;
static volatile sig_atomic_t stop, wrong, deep;
extern char fault_here[];

static void on_fault(int number, siginfo_t *info, void *context) {
    uint64_t pc = (uint64_t)FAULT_PC((ucontext_t *)context);
    bool right = deep || (pc == (uint64_t)fault_here && (number != SIGSEGV || info->si_addr == NULL));
    wrong |= !right;
    siglongjmp(back, 1);
}

static void on_term(int signal) {
    (void)signal;
    stop = 1;
}

__attribute__((noinline)) void touch_nothing(void) {
    __asm__ volatile(".globl fault_here\nfault_here: " WRITE ::"r"(0L) : "memory");
}

__attribute__((noinline)) int overflow(int n, char *before) {
    char here[512];
    memset(here, n, sizeof here);
    here[n & 511] = *before;
    return overflow(n + 1, here) + here[3] + before[1];
}

int main(int count, char **arguments) {
    deep = count > 1 && !strcmp(arguments[1], "overflow");
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &fault, NULL);
    signal(SIGTERM, on_term);
    printf("%d\n", getpid());
    fflush(stdout);
    while (!stop) {
        char first[2] = {1, 2};
        if (sigsetjmp(back, 1) == 0)
            deep ? (void)overflow(0, first) : touch_nothing();
    }
    printf("%d\n", !wrong);
    return 5;
}
