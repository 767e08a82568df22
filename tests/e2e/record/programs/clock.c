/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the clock in a function of its own, for SECONDS, and prints what it read. */
#include "zoo.h"
#include <time.h>

static FN long long stamp(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    BARRIER();
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(int argc, char **argv) {
    long long first = stamp(), end = first + (argc > 1 ? atoll(argv[1]) : 1) * 1000000000ll, now = first;
    printf("%lld\n", first);
    while (now < end) {
        usleep(5000);
        now = stamp();
        printf("%lld\n", now);
    }
    return 0;
}
