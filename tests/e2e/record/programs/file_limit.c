/* SPDX-License-Identifier: Apache-2.0 */
/* A file-size limit of one page, the signal for exceeding it deadly. */
#include "zoo.h"
#include <sys/resource.h>

ZOO_GATES

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN long work(int times) {
    long x = 0;
    for (int i = 0; i < times; i++)
        x = leaf(x);
    return x;
}

int main(void) {
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    wait_for_start();
    CHECK(work(100000) == 100000);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
