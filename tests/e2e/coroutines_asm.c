/* SPDX-License-Identifier: Apache-2.0 */
/* Coroutines whose stack switch is a handful of instructions, as in the libraries that do it by hand: nothing that an
 * engine could hook or know by name. The switch itself is hooked, too.
 *
 * An engine can go wrong here because the hooked switch function is entered on one stack and returns on another: the
 * return it sees belongs to another call of the same function. */
#include "harness.h"
#include "stack_switch.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STACK_SIZE (32 * 1024)

STACK_SWITCH(switch_stack);
STACK_SWITCH(hooked_switch); /* for the test that hooks it */

__asm__(".text\n"
        ".balign 16\n"
        ".type first_step, @function\n"
        "first_step:\n" /* a new stack begins here: rbx is the argument, r12 the function */
        "  mov %rbx, %rdi\n"
        "  call *%r12\n"
        "  ud2\n"
        ".size first_step, . - first_step\n");
void first_step(void);

typedef void switcher(void **save, void *load);

struct fiber {
    void *sp, *caller_sp;
    switcher *change;
    char *stack;
    int value;
    bool done;
};

static void start(struct fiber *f, void (*body)(struct fiber *), switcher *change, char *stack) {
    *f = (struct fiber){.change = change, .stack = stack};
    void **top = (void **)(stack + STACK_SIZE - 64);
    *--top = NULL;
    *--top = (void *)first_step;
    *--top = NULL;         /* rbp */
    *--top = f;            /* rbx */
    *--top = (void *)body; /* r12 */
    top -= 3;              /* r13 r14 r15 */
    f->sp = top;
}

static E2E_FN int resume(struct fiber *f) {
    f->change(&f->caller_sp, f->sp);
    E2E_BARRIER();
    return f->value;
}

static E2E_FN void yield_value(struct fiber *f, int value) {
    f->value = value;
    f->change(&f->sp, f->caller_sp);
    E2E_BARRIER();
}

static E2E_FN void walk(struct fiber *f, int low, int high) {
    if (low > high)
        return;
    int middle = (low + high) / 2;
    walk(f, low, middle - 1); /* in-order walk of an imagined tree */
    yield_value(f, middle);
    walk(f, middle + 1, high);
    E2E_BARRIER();
}

static void body(struct fiber *f) {
    walk(f, 1, 3);
    f->done = true;
    yield_value(f, -1);
}

static void long_body(struct fiber *f) {
    walk(f, 1, 50);
    f->done = true;
    yield_value(f, -1);
}

/* On a stack inside main's own frame, resume looks like left at first: see coroutines.c. */
static void check_written_out(char *stack, bool inside_frame) {
    struct fiber f;
    start(&f, body, switch_stack, stack);
    for (int i = 1; i <= 3; i++)
        E2E_EQUAL(resume(&f), i);
    E2E_EQUAL(resume(&f), -1);
    if (inside_frame)
        E2E_EXPECT_FLAT("+resume !resume +walk +walk +walk -walk +yield_value -resume "
                        "+resume !resume -yield_value +walk -walk -walk +yield_value -resume "
                        "+resume !resume -yield_value +walk +walk -walk +yield_value -resume "
                        "+resume !resume -yield_value +walk -walk -walk -walk +yield_value -resume");
    else
        E2E_EXPECT_FLAT("+resume +walk +walk +walk -walk +yield_value -resume "
                        "+resume -yield_value +walk -walk -walk +yield_value -resume "
                        "+resume -yield_value +walk +walk -walk +yield_value -resume "
                        "+resume -yield_value +walk -walk -walk -walk +yield_value -resume");
}

/* Fifty at once; each call that was not abandoned returns. The last yield of each never does. */
static void check_many(void) {
    enum { COUNT = 50 };
    static struct fiber f[COUNT];
    for (int i = 0; i < COUNT; i++)
        start(&f[i], long_body, switch_stack, malloc(STACK_SIZE));
    for (int step = 1; step <= 51; step++)
        for (int i = 0; i < COUNT; i++) {
            int which = (i * 7 + step * 3) % COUNT;
            int value = resume(&f[which]);
            if (value != (step <= 50 ? step : -1))
                e2e_fail(__FILE__, __LINE__, "fiber %d gave %d at step %d", which, value, step);
        }
    for (int i = 0; i < COUNT; i++)
        free(f[i].stack);
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(0);
    E2E_EQUAL(s.calls, COUNT * (51 + 51 + 101));
    E2E_EQUAL(s.returns, COUNT * (51 + 50 + 101));
    E2E_EQUAL(s.left, 0);
    e2e_forget();
}

/* The switch is hooked: a call of it on one stack returns when somebody switches back. */
static void check_hooked_switch(void) {
    struct fiber f;
    E2E_RECORD(hooked_switch);
    start(&f, body, hooked_switch, malloc(STACK_SIZE));
    for (int i = 1; i <= 3; i++)
        E2E_EQUAL(resume(&f), i);
    E2E_EQUAL(resume(&f), -1);
    free(f.stack);
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(0);
    E2E_EQUAL(s.calls, 4 + 4 + 7 + 8); /* resume, yield_value, walk, hooked_switch */
    E2E_EQUAL(s.returns, 4 + 3 + 7 + 7);
    e2e_forget();
}

static void *finish(void *arg) {
    struct fiber *f = arg;
    int last = 0;
    while (!f->done)
        last = resume(f);
    E2E_EQUAL(last, -1);
    return NULL;
}

static void check_migration(void) {
    struct fiber f;
    pthread_t thread;
    start(&f, long_body, switch_stack, malloc(STACK_SIZE));
    for (int i = 1; i <= 20; i++)
        E2E_EQUAL(resume(&f), i);
    pthread_create(&thread, NULL, finish, &f);
    pthread_join(thread, NULL);
    free(f.stack);
    if (e2e_plain())
        return;
    size_t calls = 0, returns = 0;
    for (int hook = 0; hook < 3; hook++) {
        calls += e2e_count(-1, hook, CT_EVENT_CALL);
        returns += e2e_count(-1, hook, CT_EVENT_RETURN);
    }
    E2E_EQUAL(calls, 51 + 51 + 101);
    E2E_EQUAL(returns, 51 + 50 + 101);
    e2e_forget();
}

/* A fiber that throws away its frames: the stack is used for something else while calls on it are still open. */
static void check_abandoned(void) {
    char *stack = malloc(STACK_SIZE);
    for (int i = 0; i < 1000; i++) {
        struct fiber f;
        memset(stack, 0x55, STACK_SIZE);
        start(&f, long_body, switch_stack, stack);
        for (int step = 1; step <= i % 7; step++)
            E2E_EQUAL(resume(&f), step);
    }
    free(stack);
    e2e_forget();
}

int main(int argc, char **argv) {
    char local_stack[STACK_SIZE] __attribute__((aligned(16)));
    e2e_begin(argc, argv);
    e2e_allow_unnested();
    E2E_RECORD(resume);
    E2E_RECORD(yield_value);
    E2E_RECORD(walk);
    check_written_out(malloc(STACK_SIZE), false);
    check_many();
    check_migration();
    check_abandoned();
    check_hooked_switch();
    check_written_out(local_stack, true);
    return e2e_end();
}
