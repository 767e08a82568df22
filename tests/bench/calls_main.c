/* SPDX-License-Identifier: Apache-2.0 */
/* The micro workload as a program: calls [MODE [MILLIONS]]
 *
 * Prints what a call and return cost in it, recorded or not, and a sum that must not depend on that. */
#include "calls.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void run(const struct calls_mode *mode, uint64_t calls) {
    calls -= calls % mode->unit;
    double start = now_ns();
    uint64_t sum = mode->run(calls);
    double spent = now_ns() - start;
    printf("%-6s %8.2f ns/call %12llu calls, sum %016llx\n", mode->name, calls ? spent / (double)calls : 0.0,
           (unsigned long long)calls, (unsigned long long)sum);
}

int main(int argc, char **argv) {
    double millions = argc > 2 ? atof(argv[2]) : 20;
    const struct calls_mode *only = argc > 1 ? calls_find_mode(argv[1]) : NULL;
    if ((argc > 1 && !only) || millions < 0) {
        fprintf(stderr, "usage: calls [flat|deep|fanout [MILLIONS]]\n");
        return 64;
    }
    for (const struct calls_mode *const *mode = calls_modes; *mode; mode++)
        if (!only || *mode == only)
            run(*mode, (uint64_t)(millions * 1e6));
    return 0;
}
