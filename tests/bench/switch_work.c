/* SPDX-License-Identifier: Apache-2.0 */
/* The program that bench_record records to see what switches of coroutines cost. It times itself, recorded or not, and
 * prints one line of JSON: nanoseconds of processor time for a switch, best of ROUNDS.
 *
 *   switch_work ucontext COUNT ROUNDS    COUNT coroutines, each suspended in three calls
 *   switch_work plain COUNT ROUNDS       these, but switched by a function of a few instructions */
#include "../e2e/stack_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#define STACK_SIZE 16384
#define SWITCHES   20000 /* at least, per round: every coroutine has its turn */
#define FN         __attribute__((noinline)) static
#define KEEP()     __asm__ volatile("" ::: "memory")

struct coroutine {
    ucontext_t context;
    void *sp;
};

static struct coroutine *running;
static ucontext_t home;
static void *home_sp;
static int by_context;

STACK_SWITCH(change);

FN void rest(void) {
    if (by_context)
        swapcontext(&running->context, &home);
    else
        change(&running->sp, home_sp);
    KEEP();
}

FN void work(int depth) {
    if (depth)
        work(depth - 1);
    else
        rest();
    KEEP();
}

static void body(void) {
    for (;;)
        work(1);
}

FN void resume(struct coroutine *c) {
    running = c;
    if (by_context)
        swapcontext(&home, &c->context);
    else
        change(&home_sp, c->sp);
    KEEP();
}

static int make(struct coroutine *c) {
    char *stack = malloc(STACK_SIZE);
    if (!stack)
        return -1;
    if (by_context) {
        getcontext(&c->context);
        c->context.uc_stack.ss_sp = stack;
        c->context.uc_stack.ss_size = STACK_SIZE;
        makecontext(&c->context, body, 0);
        return 0;
    }
    void **top = (void **)(((unsigned long)stack + STACK_SIZE - 64) & ~63ul);
    *--top = NULL;
    *--top = (void *)body;
    c->sp = top - 6;
    memset(c->sp, 0, 6 * sizeof *top);
    return 0;
}

/* Processor time of this thread alone: elapsed time on a busy machine includes other programs. */
static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    int count = argc == 4 ? atoi(argv[2]) : 0;
    struct coroutine *all = count > 0 ? calloc((size_t)count, sizeof *all) : NULL;
    double best = 1e18;
    if (!all)
        return 64;
    by_context = !strcmp(argv[1], "ucontext");
    for (int i = 0; i < count; i++)
        if (make(&all[i]))
            return 1;
    int times = count < SWITCHES / 2 ? SWITCHES / 2 / count : 1;
    for (int round = -1; round < atoi(argv[3]); round++) { /* in the first round they all begin */
        double start = now_ns();
        for (int n = 0; n < times; n++)
            for (int i = 0; i < count; i++)
                resume(&all[i]);
        double spent = (now_ns() - start) / (2.0 * times * count);
        best = round >= 0 && spent < best ? spent : best;
    }
    printf("{\"switch_best\": %.1f}\n", best);
    return 0;
}
