/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners that call printf and malloc while printf and malloc are hooked: their calls are not seen and not recursed
 * into, but counted; and listeners that leave by longjmp. The sink is guarded in the same way.
 *
 * An engine can go wrong here by endless recursion, by a guard that stays set after a longjmp, and by forgetting the
 * frames that a guarded call opened. */
#include "harness.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static int seen_mallocs, seen_frees, listener_calls;
static void *volatile kept;

/* static: gcc may not fold it away */
static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int work(int x) {
    char *memory = malloc((size_t)x + 1);
    kept = memory;
    memory[x] = (char)x;
    int y = leaf(memory[x]);
    free(memory);
    return y;
}

static void on_malloc(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
    seen_mallocs++;
}

static void on_free(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
    seen_frees++;
}

/* Three guarded mallocs or frees and one call of leaf per event. */
static void busy_listener(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    char text[128];
    listener_calls++;
    void *a = malloc(100);
    kept = a;
    int size = snprintf(text, sizeof text, "%s %p %.3f", "listener", call->function, 1.5);
    E2E_CHECK(size > 10);
    E2E_EQUAL(leaf(5), 6);
    a = realloc(a, 5000);
    kept = a;
    free(a);
}

static uint64_t guarded(void) {
    struct ct_hooks_statistics s = {.size = sizeof s};
    ct_hooks_statistics(e2e_hooks, &s);
    return s.guarded_calls;
}

static void check_guarded(void) {
    struct ct_hook_listener counter = {.size = sizeof counter, .on_call = on_malloc};
    struct ct_hook_listener frees = {.size = sizeof frees, .on_call = on_free};
    struct ct_hook_listener busy = {.size = sizeof busy, .on_call = busy_listener, .on_return = busy_listener};
    E2E_CHECK(ct_hooks_attach(e2e_hooks, (void *)malloc, &counter, NULL) >= 0);
    E2E_CHECK(ct_hooks_attach(e2e_hooks, (void *)free, &frees, NULL) >= 0);
    E2E_CHECK(ct_hooks_attach(e2e_hooks, (void *)leaf, &busy, NULL) >= 0);
    /* a listener that calls the very function it listens to */
    E2E_CHECK(ct_hooks_attach(e2e_hooks, (void *)snprintf, &busy, NULL) >= 0);
    char text[16];
    listener_calls = 0;
    E2E_EQUAL(snprintf(text, sizeof text, "%d %.1f", leaf(41) ? 5 : 0, 2.5), 5);
    E2E_CHECK(strcmp(text, "5 2.5") == 0);
    E2E_EQUAL(listener_calls, 4);
    seen_mallocs = seen_frees = listener_calls = 0;
    uint64_t before = guarded();
    for (int i = 0; i < 100; i++)
        E2E_EQUAL(work(i), i + 1);
    E2E_EQUAL(seen_mallocs, 100);
    E2E_EQUAL(seen_frees, 100);
    E2E_EQUAL(listener_calls, 200);
    /* malloc, leaf, free in each; realloc and snprintf may call malloc and free themselves */
    E2E_CHECK(guarded() - before >= 600);
    before = guarded();
    E2E_EQUAL(work(1), 2);
    uint64_t each = guarded() - before;
    before = guarded();
    E2E_EQUAL(work(1), 2);
    E2E_EQUAL(guarded() - before, each);
}

/* A callback may longjmp away. */
static jmp_buf out;
static int jumps_left;

static E2E_FN int target(int x) {
    E2E_BARRIER();
    return x + 1;
}

static void jump_on_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
    if (jumps_left-- > 0)
        longjmp(out, 1);
}

static void jump_on_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    if (ct_cpu_return_value(cpu) == 43)
        jump_on_call(cpu, call);
}

static E2E_FN int catch_jump(int x) {
    if (setjmp(out) == 0)
        return target(x);
    return -1;
}

static void check_longjmp(struct ct_hook_listener listener) {
    int hook = ct_hooks_attach(e2e_hooks, (void *)target, &listener, NULL);
    E2E_CHECK(hook >= 0);
    int caught = 0;
    jumps_left = 1000;
    for (int i = 0; i < 1000; i++)
        caught += catch_jump(42) == -1;
    E2E_EQUAL(caught, 1000);
    E2E_EQUAL(catch_jump(42), 43);
    uint64_t before = guarded();
    seen_mallocs = 0;
    E2E_EQUAL(work(3), 4);
    E2E_EQUAL(seen_mallocs, 1); /* the guard is off again */
    E2E_CHECK(guarded() > before);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
}

/* What the listener gets: depth, return address and data. */
static struct ct_hook_call told[8];
static int told_count;

static void tell(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    call->data = (uint64_t)call->depth + 100;
    told[told_count++ & 7] = *call;
}

static void tell_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    E2E_EQUAL(call->data, call->depth + 100);
    told[told_count++ & 7] = *call;
}

static E2E_FN int recurse(int depth) {
    int below = depth ? recurse(depth - 1) : 0;
    E2E_BARRIER();
    return below + 1;
}

static void check_told(void) {
    struct ct_hook_listener teller = {.size = sizeof teller, .on_call = tell, .on_return = tell_return};
    int user;
    int hook = ct_hooks_attach(e2e_hooks, (void *)recurse, &teller, &user);
    E2E_CHECK(hook >= 0);
    told_count = 0;
    E2E_EQUAL(recurse(2), 3);
    E2E_EQUAL(told_count, 6);
    static const unsigned depths[] = {0, 1, 2, 2, 1, 0};
    for (int i = 0; i < 6; i++) {
        E2E_EQUAL(told[i].depth, depths[i]);
        E2E_EQUAL(told[i].hook, hook);
        E2E_CHECK(told[i].function == (void *)recurse && told[i].user == &user);
        E2E_CHECK(told[i].return_address == told[5 - i].return_address);
    }
    char *inside = (char *)(void *)recurse;
    E2E_CHECK((char *)told[1].return_address > inside && (char *)told[1].return_address < inside + 64);
    E2E_CHECK((char *)told[0].return_address < inside || (char *)told[0].return_address > inside + 64);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_EQUAL(work(1), 2);
    E2E_EQUAL(catch_jump(1), 2);
    if (!e2e_plain()) {
        check_guarded();
        check_longjmp((struct ct_hook_listener){.size = sizeof(struct ct_hook_listener), .on_call = jump_on_call});
        check_longjmp((struct ct_hook_listener){.size = sizeof(struct ct_hook_listener), .on_return = jump_on_return});
        check_told();
    }
    return e2e_end();
}
