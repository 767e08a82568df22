/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions in a confined program: the unwinder itself makes no system call. */
#include "zoo.h"
#include "sandbox.h"

ZOO_GATES

extern "C" {
static FN void note(int) {
    BARRIER();
}

struct cleaner {
    int mark;
    __attribute__((always_inline)) ~cleaner() {
        note(mark);
    }
};

static FN void thrower(int value) {
    throw value;
}

static FN int through(int depth, int value) {
    cleaner c = {depth};
    if (depth)
        return through(depth - 1, value);
    thrower(value);
    return c.mark;
}

static FN int catcher(int value) {
    try {
        return through(2, value);
    } catch (int caught) {
        return caught;
    }
}

static FN void confine(void) {
    if (!sandbox())
        _exit(77);
}
}

int main() {
    int wrong = 0;
    catcher(1); /* memory is there from now on */
    wait_for_start();
    wrong += catcher(2) != 2;
    confine();
    for (int i = 0; i < 20; i++)
        wrong += catcher(i) != i;
    syscall(SYS_exit_group, wrong ? 1 : 8);
}
