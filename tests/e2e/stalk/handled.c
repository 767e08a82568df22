/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: one on the same stack, one on another with a nested signal, and one that is jumped out of. */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#define FN __attribute__((noinline))

static volatile int one = 1;
static sigjmp_buf out;
static char stack[1 << 16];

FN static int leaf(int x) {
    __asm__ volatile("");
    return x + one;
}

FN static void on_usr1(int signal) {
    leaf(signal);
    __asm__ volatile("");
}

FN static void on_usr2(int signal) {
    leaf(signal);
    raise(SIGUSR1);
    __asm__ volatile("");
}

FN static void on_term(int signal) {
    leaf(signal);
    siglongjmp(out, 1);
}

FN static int plain(void) {
    raise(SIGUSR1);
    return leaf(1);
}

FN static int nested(void) {
    raise(SIGUSR2);
    return leaf(2) + one;
}

FN static int left(void) {
    if (!sigsetjmp(out, 1))
        raise(SIGTERM);
    return leaf(3) + one;
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction on_stack = {.sa_handler = on_usr2, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    signal(SIGUSR1, on_usr1);
    sigaction(SIGUSR2, &on_stack, NULL);
    on_stack.sa_handler = on_term;
    sigaction(SIGTERM, &on_stack, NULL);
    return plain() + nested() + left() == 11 ? 3 : 1;
}
