/* SPDX-License-Identifier: Apache-2.0 */
/* Its address space is limited to what it has already. */
#include "zoo.h"
#include <sys/resource.h>

ZOO_GATES

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

int main(void) {
    long pages = 0, x = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1)
        return 1;
    fclose(f);
    struct rlimit limit = {(rlim_t)pages * 4096 + 65536, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    wait_for_start();
    for (int i = 0; i < 1000; i++)
        x = leaf(x);
    puts(x == 1000 ? "right" : "wrong");
    return x != 1000;
}
