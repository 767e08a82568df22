/* SPDX-License-Identifier: Apache-2.0 */
/* 100,000 frames deep: returned from, and left at once. */
#include "zoo.h"
#include <setjmp.h>

ZOO_GATES

static jmp_buf out;

static FN long bottom(int jump) {
    if (jump)
        longjmp(out, 1);
    BARRIER();
    return 1;
}

static FN long down(int depth, int jump) {
    long below = depth > 1 ? down(depth - 1, jump) : bottom(jump);
    BARRIER();
    return below + 1;
}

int main(void) {
    wait_for_start();
    CHECK(down(100000, 0) == 100001);
    if (setjmp(out) == 0)
        down(1000, 1);
    CHECK(down(2, 0) == 3);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
