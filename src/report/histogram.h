/* SPDX-License-Identifier: Apache-2.0 */
/* Histogram of durations: log-linear buckets, 32 to a power of two, so a percentile is off by at most 1/64 (1.6 %).
 *
 * Memory is bounded by the span of the values, not by their number: a power of two takes 256 bytes once it is used, at
 * most 15 KiB in all. One owner. */
#ifndef CT_REPORT_HISTOGRAM_H
#define CT_REPORT_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum { CT_HISTOGRAM_STEPS = 32, CT_HISTOGRAM_OCTAVES = 60 };

struct ct_histogram {
    uint64_t count, min, max;
    uint64_t *octaves[CT_HISTOGRAM_OCTAVES]; /* each CT_HISTOGRAM_STEPS counts, NULL while unused */
};

/* False: out of memory, nothing was counted. A zeroed histogram is empty. */
bool ct_histogram_add(struct ct_histogram *histogram, uint64_t value);
bool ct_histogram_merge(struct ct_histogram *into, const struct ct_histogram *from);
/* The smallest value that `fraction` of all values do not exceed; 0 when empty. */
uint64_t ct_histogram_at(const struct ct_histogram *histogram, double fraction);
/* The power of two that the value is in: 2^power up to 2^(power + 1), with 0 in the first. */
unsigned ct_histogram_power(uint64_t value);
/* How many values are in it. */
uint64_t ct_histogram_count(const struct ct_histogram *histogram, unsigned power);
/* Forgets all values and keeps the memory. */
void ct_histogram_clear(struct ct_histogram *histogram);
void ct_histogram_free(struct ct_histogram *histogram);

#endif
