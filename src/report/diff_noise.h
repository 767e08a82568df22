/* SPDX-License-Identifier: Apache-2.0 */
/* Which differences of two sides mean something.
 *
 * Numbers of calls are exact: with one trace on each side every difference counts. Times are not: no two runs take
 * the same time. What is compared is the self time of a function, or its CPU time where all traces have it: the sum of
 * all calls, and the median of single calls, which a few interrupted ones do not move. A difference of either is noise
 * unless it is larger than each of these:
 *
 *   four times the standard error that follows from how the single calls spread, on both sides
 *   40 % of the larger value: runs differ by memory layout, caches, clock frequency and what else the machine does,
 *   even where calls do not spread; with several traces on both sides 10 %, because these show it
 *   50 ns for each call, below which the recorder's own cost spreads, and 20 us for all
 *   for functions with fewer than 8 calls, whose spread is not known, half of the larger value, and 20 ms (200 us of
 *   CPU time, in which other threads have no part)
 *
 * With several traces on a side, the sides must not overlap either, neither in times nor in numbers of calls, and the
 * difference of their means must be larger than the range of both together. */
#ifndef CT_REPORT_DIFF_NOISE_H
#define CT_REPORT_DIFF_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function on one side, over all traces of that side. */
struct ct_diff_spread {
    size_t traces;
    uint64_t calls_least, calls_most;
    uint64_t calls, timed;    /* sums */
    double time_ns;           /* sum over the traces of the time that is compared */
    double least_ns, most_ns; /* of a trace */
    double variance;          /* of the sum, as far as single calls spread */
    double typical_ns;        /* sum over the traces of the median of single calls */
    double typical_least, typical_most;
    double typical_variance; /* of the sum of medians */
};

/* What one trace has of a function. */
struct ct_diff_sample {
    uint64_t calls, timed, time_ns;
    double squares;                  /* sum over the single calls */
    uint64_t p25_ns, p50_ns, p75_ns; /* of single calls */
};

void ct_diff_spread_add(struct ct_diff_spread *spread, const struct ct_diff_sample *sample);
/* True: numbers of calls differ by more than they do on one side. */
bool ct_diff_calls_differ(const struct ct_diff_spread *a, const struct ct_diff_spread *b);
/* True: times differ by more than noise. */
bool ct_diff_times_differ(const struct ct_diff_spread *a, const struct ct_diff_spread *b, bool cpu);

#endif
