/* SPDX-License-Identifier: Apache-2.0 */
/* Has used up its descriptors when it is attached to. */
#include "zoo.h"
#include <errno.h>
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

static FN void use_up(void) {
    struct rlimit limit;
    int file, last = -1;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 20;
    setrlimit(RLIMIT_NOFILE, &limit);
    while ((file = open("/dev/null", O_RDONLY)) >= 0)
        last = file;
    CHECK(errno == EMFILE && last == 19);
    if (getenv("E2E_WAIT"))
        close(last); /* for the gate itself */
}

int main(void) {
    use_up();
    wait_for_start();
    CHECK(work(1000) == 1000);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
