/* SPDX-License-Identifier: Apache-2.0 */
/* Closes every descriptor it has, and those it does not know of. */
#include "zoo.h"
#include <pthread.h>
#include <sys/syscall.h>

ZOO_GATES

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void *work(void *arg) {
    long x = 0;
    for (int i = 0; i < 20000; i++)
        x = leaf(x);
    CHECK(x == 20000);
    return arg;
}

static FN void close_from(unsigned first) {
    if (syscall(SYS_close_range, first, ~0u, 0) != 0)
        for (int i = (int)first; i < 65536; i++)
            close(i);
    BARRIER();
}

int main(void) {
    pthread_t thread;
    close_from(3);
    wait_for_start();
    work(NULL);
    CHECK(open("/dev/null", O_RDONLY) == 3);
    puts("done");
    fflush(stdout);
    close_from(0);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    work(NULL);
    return zoo_failures ? 1 : 7;
}
