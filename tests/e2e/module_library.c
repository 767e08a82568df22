/* SPDX-License-Identifier: Apache-2.0 */
/* A library to be hooked as a whole: exported and static functions, one with a cold part, one that calls through a
 * pointer. */
#include "module_library.h"

#define HIDDEN static __attribute__((noinline))

static volatile int never;

HIDDEN int inner(int x) {
    __asm__ volatile("" ::: "memory");
    return x + 1;
}

HIDDEN int other_inner(int x) {
    __asm__ volatile("" ::: "memory");
    return x + 2;
}

__attribute__((cold, noinline)) static int complain(int x) {
    __asm__ volatile("" ::: "memory");
    return x - 1000;
}

int library_work(int x) {
    int y = inner(x);
    if (__builtin_expect(never, 0))
        return complain(y);
    y = other_inner(y);
    __asm__ volatile("" ::: "memory");
    return y;
}

static int (*volatile through_pointer)(int) = inner;

int library_indirect(int x) {
    int y = through_pointer(x);
    __asm__ volatile("" ::: "memory");
    return y;
}

int library_callback(int (*f)(int), int x) {
    int y = f(x);
    __asm__ volatile("" ::: "memory");
    return y + 1;
}
