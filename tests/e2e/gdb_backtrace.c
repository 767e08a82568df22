/* SPDX-License-Identifier: Apache-2.0 */
/* Run under gdb by gdb_backtrace.sh: hooked frames on the stack, and a place to stop in. */
#include "harness.h"
#include <string.h>

void gdb_stop_here(int x);

__attribute__((noinline, visibility("default"))) void gdb_stop_here(int x) {
    __asm__ volatile("" ::"r"(x) : "memory");
}

static E2E_FN int inner(int x) {
    gdb_stop_here(x);
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int recursive(int depth) {
    int below = depth ? recursive(depth - 1) : inner(1);
    E2E_BARRIER();
    return below + 1;
}

/* gone from the stack: a tail call */
static E2E_FN int jumps_on(int x) {
    return recursive(x);
}

static E2E_FN int outer(int x) {
    int y = jumps_on(x);
    E2E_BARRIER();
    return y + 1;
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_RECORD(inner);
    E2E_RECORD(recursive);
    E2E_RECORD(jumps_on);
    E2E_RECORD(outer);
    E2E_EQUAL(outer(2), 6);
    E2E_EXPECT("outer(jumps_on(recursive(recursive(recursive(inner())))))");
    return e2e_end();
}
