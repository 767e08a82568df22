/* SPDX-License-Identifier: Apache-2.0 */
/* mixed: calls and returns of all kinds between many usual ones: frames that are left, large frames, a handler on its
 * own stack, coroutines, callbacks, and more targets than a thread finds at once. Always the same ones. */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define OWN    __attribute__((noinline, noipa))
#define ROUNDS 120

static jmp_buf back;
static ucontext_t outer, inner;
static volatile unsigned sum;

OWN static void leaf(unsigned n) {
    sum = sum * 31 + n;
}

#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define SIXTY_FOUR(X, n)                                                                                               \
    EIGHT(X, n##0)                                                                                                     \
    EIGHT(X, n##1) EIGHT(X, n##2) EIGHT(X, n##3) EIGHT(X, n##4) EIGHT(X, n##5) EIGHT(X, n##6) EIGHT(X, n##7)
#define ALL(X) SIXTY_FOUR(X, 0) SIXTY_FOUR(X, 1) SIXTY_FOUR(X, 2) SIXTY_FOUR(X, 3)
#define MANY(n)                                                                                                        \
    OWN static void many_##n(void) {                                                                                   \
        leaf(sizeof #n);                                                                                               \
    }
ALL(MANY)
#define NAME(n) many_##n,
static void (*const many[])(void) = {ALL(NAME)};

OWN static void deep(unsigned n) {
    if (n)
        deep(n - 1);
    else
        leaf(n);
}

OWN static void jumps(unsigned n) {
    if (n)
        jumps(n - 1);
    else
        longjmp(back, 1);
    leaf(n);
}

OWN static void caught(unsigned n) {
    if (!setjmp(back))
        jumps(n);
    leaf(n);
}

OWN static void large(unsigned n) {
    char *memory = alloca(5000 + n);
    memset(memory, (int)n, 5000 + n);
    leaf((unsigned char)memory[4000]);
}

OWN static int compare(const void *a, const void *b) {
    leaf(*(const unsigned char *)a);
    return *(const unsigned char *)a - *(const unsigned char *)b;
}

OWN static void sorted(unsigned n) {
    unsigned char values[16];
    for (unsigned i = 0; i < sizeof values; i++)
        values[i] = (unsigned char)(i * 37 + n);
    qsort(values, sizeof values, 1, compare);
}

OWN static void handler(int number) {
    deep((unsigned)number);
}

OWN static void coroutine(void) {
    for (;;) {
        deep(3);
        swapcontext(&inner, &outer);
    }
}

OWN static void turns(void) {
    leaf(1);
    swapcontext(&outer, &inner);
    leaf(2);
}

OWN static void deep_turns(unsigned n) {
    if (n)
        deep_turns(n - 1);
    else
        turns();
    leaf(n);
}

OWN static void one_round(unsigned n) {
    deep(n % 40);
    caught(n % 7);
    large(n);
    sorted(n);
    for (unsigned i = 0; i < sizeof many / sizeof *many; i++)
        many[(i * 7 + n) % (sizeof many / sizeof *many)]();
    raise(SIGUSR1);
    deep_turns(n % 90);
    if (n % 100 == 0)
        deep(300);
}

int main(void) {
    static char own[1 << 16], others[1 << 16];
    stack_t alternate = {.ss_sp = own, .ss_size = sizeof own};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    getcontext(&inner);
    inner.uc_stack = (stack_t){.ss_sp = others, .ss_size = sizeof others};
    makecontext(&inner, coroutine, 0);
    for (unsigned n = 0; n < ROUNDS; n++)
        one_round(n);
    printf("%u\n", sum);
    return 0;
}
