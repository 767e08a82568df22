/* SPDX-License-Identifier: Apache-2.0 */
/* Coroutines that all run the same functions, and take turns: turns HOW COUNT ROUNDS [hold | thread | far]
 *
 * HOW: ucontext; switch: a function of a few instructions. Number k goes k % 5 calls deep in each round, and is
 * suspended there. Stacks lie side by side, as malloc gives them. hold: after the first round, when each is suspended,
 * the program prints a line and waits for one. thread: not the main thread does it all. far: stacks are multiples of 4
 * GiB away from the main one. Functions that a round leaves open: none. */
#include "../../stack_switch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_SIZE 16384
#define FUNCTION   __attribute__((noinline, noclone))
#define KEEP()     __asm__ volatile("" ::: "memory")

struct coroutine {
    ucontext_t context;
    void *sp;
    int number, done;
};

static struct coroutine *all, *running;
static ucontext_t home;
static void *home_sp;
static int count, rounds, by_context, hold, far;
static long sum;

STACK_SWITCH(change);

FUNCTION static void rest(void) {
    if (by_context)
        swapcontext(&running->context, &home);
    else
        change(&running->sp, home_sp);
    KEEP();
}

FUNCTION static long work(int depth) {
    long below = depth ? work(depth - 1) : 0;
    if (!depth)
        rest();
    KEEP();
    return below + 1;
}

FUNCTION static void body(struct coroutine *c) {
    for (int i = 0; i < rounds; i++)
        sum += work(c->number % 5);
    KEEP();
}

static void begin(void) {
    body(running);
    running->done = 1;
    for (;;)
        rest();
}

/* The lower halves of their addresses are those of the frame that runs. */
static char *far_stack(void) {
    static unsigned long multiple;
    unsigned long here = (unsigned long)__builtin_frame_address(0) & ~4095ul;
    for (;;) {
        void *at = (void *)(here - STACK_SIZE / 2 - (++multiple << 32));
        void *stack =
            mmap(at, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (stack != MAP_FAILED)
            return stack;
        if (multiple << 32 > here)
            abort();
    }
}

static void make(struct coroutine *c, int number) {
    char *stack = far ? far_stack() : malloc(STACK_SIZE);
    c->number = number;
    if (by_context) {
        getcontext(&c->context);
        c->context.uc_stack.ss_sp = stack;
        c->context.uc_stack.ss_size = STACK_SIZE;
        makecontext(&c->context, begin, 0);
        return;
    }
    void **top = (void **)(((unsigned long)stack + STACK_SIZE - 64) & ~63ul);
    *--top = NULL;
    *--top = (void *)begin;
    c->sp = top - 6;
    memset(c->sp, 0, 6 * sizeof *top);
}

FUNCTION static int resume(struct coroutine *c) {
    running = c;
    if (by_context)
        swapcontext(&home, &c->context);
    else
        change(&home_sp, c->sp);
    KEEP();
    return !c->done;
}

static void *run(void *unused) {
    for (int i = 0; i < count; i++)
        make(&all[i], i);
    for (int round = 0, left = count; left; round++) {
        for (int i = 0; i < count; i++)
            left -= !resume(&all[i]);
        if (round || !hold)
            continue;
        puts("held");
        fflush(stdout);
        getchar();
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc < 4)
        return 64;
    count = atoi(argv[2]);
    rounds = atoi(argv[3]);
    by_context = !strcmp(argv[1], "ucontext");
    hold = argc > 4 && !strcmp(argv[4], "hold");
    far = argc > 4 && !strcmp(argv[4], "far");
    if (!(all = calloc((size_t)count + 1, sizeof *all)))
        return 1;
    if (argc < 5 || hold)
        run(NULL);
    else if (pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL))
        return 1;
    printf("%ld\n", sum);
    return 0;
}
