/* SPDX-License-Identifier: Apache-2.0 */
/* See budget_price.h. docs/PERFORMANCE.md has the measurements that the constants come from. */
#include "session/budget_price.h"
#include "os/thread.h"
#include "drain/clock.h"
#include <stdint.h>

/* What a pair of events costs beside its two time stamps, in a program that does something else between calls, where
 * all of that is seen. */
#define PLAIN_NS  12.0
#define DETAIL_NS 36.0
/* This part of it is seen everywhere: memory, and what the program's own code loses of the caches. */
#define LEAST_SEEN 0.25
/* With the fast clock, one of this many events reads the counter, and nothing is done meanwhile. */
#define FAST_TURN 16

enum { READINGS = 64, TRIES = 16, WORDS = 40 };

/* Loads and stores, about as many as the capture of a call or of its return makes. */
static inline void work(const volatile uint64_t *from, volatile uint64_t *to) {
#pragma GCC unroll 64
    for (int i = 0; i < WORDS; i++)
        to[i % 16] = from[i % 16];
}

/* The best time of many turns: with readings, with work, or with both. */
static double turn(bool reads, bool works) {
    uint64_t best = UINT64_MAX, from[16] = {0}, to[16];
    for (int i = 0; i < TRIES; i++) {
        uint64_t first = ct_os_timestamp();
        for (int k = 0; k < READINGS; k++) {
            if (works)
                work(from, to);
            if (reads)
                (void)ct_os_timestamp();
        }
        uint64_t took = ct_os_timestamp() - first;
        best = took < best ? took : best;
    }
    return (double)best / READINGS;
}

struct ct_budget_price ct_budget_price_measure(const struct ct_clock *clock) {
    double hz = ct_clock_hz(clock), reads = turn(true, false), works = turn(false, true), both = turn(true, true);
    double visible = works > 0 ? (both - reads) / works : 1;
    return (struct ct_budget_price){.stamp_ns = hz > 0 ? reads * 1e9 / hz : 0,
                                    .visible = visible < 0   ? 0
                                               : visible > 1 ? 1
                                                             : visible};
}

double ct_budget_price_pair(const struct ct_budget_price *price, bool detail, bool fast_clock) {
    double more = detail ? DETAIL_NS : PLAIN_NS;
    if (fast_clock)
        return 2 * price->stamp_ns / FAST_TURN + more;
    return 2 * price->stamp_ns + more * (LEAST_SEEN + (1 - LEAST_SEEN) * price->visible);
}
