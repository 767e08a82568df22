/* SPDX-License-Identifier: Apache-2.0 */
/* Replacements: calls go elsewhere, the original stays callable; several at once; reverting gives every byte back. */
#include "harness.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static E2E_FN int add(int a, int b) {
    E2E_BARRIER();
    return a + b;
}

static int (*original_add)(int, int);
static int add_calls;

static E2E_FN int counting_add(int a, int b) {
    add_calls++;
    return original_add(a, b) * 10;
}

/* Recursion goes through the replacement each time. */
static E2E_FN long factorial(long n) {
    if (n < 2)
        return 1;
    long below = factorial(n - 1);
    E2E_BARRIER();
    return below * n;
}

static long (*original_factorial)(long);
static int factorial_calls;

static E2E_FN long counting_factorial(long n) {
    factorial_calls++;
    return original_factorial(n);
}

/* More arguments than registers, and a structure by value, pass through as they are. */
struct big {
    long v[6];
};

static E2E_FN struct big combine(struct big b, long x, long y, long z, double d, long w, long u, long v) {
    struct big out = b;
    out.v[0] += x + y * 2 + z * 3 + (long)d + w * 4 + u * 5 + v * 6;
    return out;
}

static struct big (*original_combine)(struct big, long, long, long, double, long, long, long);

static E2E_FN struct big negative_combine(struct big b, long x, long y, long z, double d, long w, long u, long v) {
    struct big out = original_combine(b, x, y, z, d, w, u, v);
    out.v[0] = -out.v[0];
    return out;
}

/* libc */
static void *(*original_malloc)(size_t);
static volatile size_t malloc_bytes; /* or gcc knows that malloc never changes it */

static E2E_FN void *counting_malloc(size_t size) {
    malloc_bytes += size;
    return original_malloc(size);
}

static E2E_FN int fixed_random(void) {
    return 42;
}

static void check_results(bool replaced) {
    E2E_EQUAL(add(2, 3), replaced ? 50 : 5);
    E2E_EQUAL(factorial(5), 120);
    struct big b = {{1, 2, 3, 4, 5, 6}};
    b = combine(b, 1, 2, 3, 4.5, 5, 6, 7);
    E2E_EQUAL(b.v[0], replaced ? -(1 + 1 + 4 + 9 + 4 + 20 + 30 + 42) : 111);
    E2E_EQUAL(b.v[5], 6);
}

static int replace_all(int hooks[5]) {
    hooks[0] = ct_hooks_replace(e2e_hooks, (void *)add, (void *)counting_add, (void **)&original_add);
    hooks[1] = ct_hooks_replace(e2e_hooks, (void *)factorial, (void *)counting_factorial, (void **)&original_factorial);
    hooks[2] = ct_hooks_replace(e2e_hooks, (void *)combine, (void *)negative_combine, (void **)&original_combine);
    hooks[3] = ct_hooks_replace(e2e_hooks, (void *)malloc, (void *)counting_malloc, (void **)&original_malloc);
    void *original_rand = NULL;
    hooks[4] = ct_hooks_replace(e2e_hooks, (void *)rand, (void *)fixed_random, &original_rand);
    for (int i = 0; i < 5; i++)
        if (hooks[i] < 0) {
            e2e_fail(__FILE__, __LINE__, "replacement %d: %s", i, ct_status_text(hooks[i]));
            return -1;
        }
    return 0;
}

static void check_replaced(void) {
    int hooks[5];
    uint8_t before[5][32];
    void *functions[5] = {(void *)add, (void *)factorial, (void *)combine, (void *)malloc, (void *)rand};
    for (int i = 0; i < 5; i++)
        memcpy(before[i], functions[i], 32);
    if (replace_all(hooks) != 0)
        return;
    add_calls = factorial_calls = 0;
    check_results(true);
    E2E_EQUAL(add_calls, 1);
    E2E_EQUAL(factorial_calls, 5);
    malloc_bytes = 0;
    void *volatile memory = malloc(12345);
    E2E_EQUAL(malloc_bytes, 12345);
    free(memory);
    E2E_EQUAL(rand() + rand(), 84);

    /* off and on again */
    for (int i = 0; i < 5; i++)
        E2E_EQUAL(ct_hooks_disable(e2e_hooks, hooks[i]), 0);
    check_results(false);
    for (int i = 0; i < 5; i++)
        E2E_EQUAL(ct_hooks_enable(e2e_hooks, hooks[i]), 0);
    check_results(true);

    for (int i = 0; i < 5; i++)
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hooks[i]), 0);
    for (int i = 0; i < 5; i++)
        E2E_CHECK(memcmp(before[i], functions[i], 32) == 0);
    check_results(false);
    E2E_CHECK(rand() + rand() != 84);
}

/* A replacement of a function and a recorder on the replacement */
static void check_recorded_replacement(void) {
    int hook = ct_hooks_replace(e2e_hooks, (void *)add, (void *)counting_add, (void **)&original_add);
    E2E_CHECK(hook >= 0);
    e2e_name(hook, "add");
    E2E_RECORD(counting_add);
    E2E_EQUAL(add(1, 2), 30);
    E2E_EXPECT("counting_add()");
    /* the same function can't be hooked a second time */
    E2E_EQUAL(ct_hooks_record(e2e_hooks, (void *)add), CT_ERR_ALREADY_HOOKED);
    void *unused;
    E2E_EQUAL(ct_hooks_replace(e2e_hooks, (void *)add, (void *)counting_add, &unused), CT_ERR_ALREADY_HOOKED);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    check_results(false);
    if (!e2e_plain()) {
        check_replaced();
        check_recorded_replacement();
    }
    return e2e_end();
}
