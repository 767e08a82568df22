/* SPDX-License-Identifier: Apache-2.0 */
/* A program to record and export: threads, a recursion, a jump out of calls, coroutines that take turns, and calls that
 * are open when it exits. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define NOINLINE __attribute__((noinline))

enum { COROUTINES = 3, ROUNDS = 4, STACK = 256 << 10 };

static jmp_buf back;
static ucontext_t scheduler, contexts[COROUTINES];
static char stacks[COROUTINES][STACK];
static volatile int sink;

NOINLINE static int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

NOINLINE static void *thread_body(void *arg) {
    sink += fibonacci(8);
    return arg;
}

NOINLINE static void jump_out(int depth) {
    if (depth == 0 && sink >= 0)
        longjmp(back, 1);
    if (depth == 0)
        return; /* never reached; compilers want an end of the recursion */
    jump_out(depth - 1);
    sink++;
}

NOINLINE static void yield(int me) {
    swapcontext(&contexts[me], &scheduler);
    sink++;
}

NOINLINE static void coroutine_body(int me) {
    for (int i = 0; i < ROUNDS; i++) {
        sink += fibonacci(me);
        yield(me);
    }
}

NOINLINE static void resume(int me) {
    swapcontext(&scheduler, &contexts[me]);
    sink++;
}

NOINLINE static void run_coroutines(void) {
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = STACK;
        contexts[i].uc_link = &scheduler;
        makecontext(&contexts[i], (void (*)(void))coroutine_body, 1, i);
    }
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < COROUTINES; i++)
            resume(i);
}

NOINLINE static void leave(int depth) {
    if (depth == 0 && sink >= 0)
        exit(0);
    if (depth == 0)
        return;
    leave(depth - 1);
    sink++;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, thread_body, NULL))
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (!setjmp(back))
        jump_out(3);
    run_coroutines();
    leave(2);
    return 1;
}
