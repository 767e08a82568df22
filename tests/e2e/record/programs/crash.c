/* SPDX-License-Identifier: Apache-2.0 */
/* Dies of a fault in the middle of things; what was recorded is there. */
#include "zoo.h"
#include <sys/resource.h>

ZOO_GATES

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN int fault(volatile int *where) {
    leaf(1);
    return *where;
}

int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    wait_for_start();
    for (int i = 0; i < 1000; i++)
        leaf(i);
    return fault(NULL);
}
