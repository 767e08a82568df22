/* SPDX-License-Identifier: Apache-2.0 */
/* longjmp in programs of every kind: other libcs have other jump buffers, stripped ones no names. */
#include "zoo.h"
#include <setjmp.h>
#include <signal.h>

ZOO_GATES

static jmp_buf out;
static sigjmp_buf sig_out;

static FN int leaf(int x) {
    BARRIER();
    return x + 1;
}

static FN void jump(int value) {
    leaf(value);
    longjmp(out, value);
}

static FN void through(int depth, int value) {
    if (depth > 0)
        through(depth - 1, value);
    else
        jump(value);
    BARRIER();
}

static FN int catcher(int depth, int value) {
    int got = setjmp(out);
    if (got == 0)
        through(depth, value);
    return leaf(got);
}

static FN void handler(int number) {
    leaf(number);
    siglongjmp(sig_out, number);
}

static FN void raiser(int number) {
    raise(number);
    BARRIER();
}

static FN int signal_catcher(int number) {
    int got = sigsetjmp(sig_out, 1);
    if (got == 0)
        raiser(number);
    return leaf(got);
}

int main(void) {
    signal(SIGUSR1, handler);
    wait_for_start();
    int first = catcher(0, 4), second = catcher(3, 7);
    printf("%d %d\n", first, second);
    for (int i = 0; i < 500; i++)
        CHECK(catcher(2, i + 1) == i + 2);
    for (int i = 0; i < 200; i++)
        CHECK(signal_catcher(SIGUSR1) == SIGUSR1 + 1);
    wait_for_end();
    return zoo_failures;
}
