/* SPDX-License-Identifier: Apache-2.0 */
/* Has almost no address space left, and starts threads. What cannot be recorded must not hurt. */
#include "zoo.h"
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

static FN long vm_size(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1)
        abort();
    fclose(f);
    return pages * 4096;
}

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void *work(void *arg) {
    long x = 0;
    for (int i = 0; i < 1000; i++)
        x = leaf(x);
    CHECK(x == 1000);
    return arg;
}

int main(void) {
    pthread_t threads[8];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 * 1024);
    struct rlimit limit = {(rlim_t)vm_size() + (2 << 20), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    work(NULL);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], &attr, work, NULL) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return zoo_failures;
}
