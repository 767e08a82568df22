/* SPDX-License-Identifier: Apache-2.0 */
/* Log-linear histogram: octave 0 holds 0..31 one by one, octave n the values from 2^(n+4) on in 32 steps. */
#include "report/histogram.h"
#include <stdlib.h>
#include <string.h>

enum { STEP_BITS = 5 };

struct bucket {
    unsigned octave, step;
};

static struct bucket bucket_of(uint64_t value) {
    if (value < CT_HISTOGRAM_STEPS)
        return (struct bucket){0, (unsigned)value};
    unsigned exponent = 63 - (unsigned)__builtin_clzll(value);
    return (struct bucket){exponent - STEP_BITS + 1,
                           (unsigned)(value >> (exponent - STEP_BITS)) & (CT_HISTOGRAM_STEPS - 1)};
}

/* The middle of the bucket. */
static uint64_t value_of(unsigned octave, unsigned step) {
    if (octave == 0)
        return step;
    unsigned shift = octave - 1;
    uint64_t low = (uint64_t)(CT_HISTOGRAM_STEPS + step) << shift;
    return low + ((1ull << shift) >> 1);
}

static uint64_t *octave_at(struct ct_histogram *h, unsigned octave) {
    if (!h->octaves[octave])
        h->octaves[octave] = calloc(CT_HISTOGRAM_STEPS, sizeof(uint64_t));
    return h->octaves[octave];
}

static void widen_range(struct ct_histogram *h, uint64_t min, uint64_t max) {
    if (h->count == 0 || min < h->min)
        h->min = min;
    if (max > h->max)
        h->max = max;
}

bool ct_histogram_add(struct ct_histogram *h, uint64_t value) {
    struct bucket b = bucket_of(value);
    uint64_t *octave = octave_at(h, b.octave);
    if (!octave)
        return false;
    octave[b.step]++;
    widen_range(h, value, value);
    h->count++;
    return true;
}

bool ct_histogram_merge(struct ct_histogram *into, const struct ct_histogram *from) {
    if (from->count == 0)
        return true;
    for (unsigned o = 0; o < CT_HISTOGRAM_OCTAVES; o++)
        if (from->octaves[o] && !octave_at(into, o))
            return false;
    for (unsigned o = 0; o < CT_HISTOGRAM_OCTAVES; o++)
        for (unsigned s = 0; from->octaves[o] && s < CT_HISTOGRAM_STEPS; s++)
            into->octaves[o][s] += from->octaves[o][s];
    widen_range(into, from->min, from->max);
    into->count += from->count;
    return true;
}

/* Number of values at or below the wanted one. */
static uint64_t rank_of(const struct ct_histogram *h, double fraction) {
    double exact = fraction * (double)h->count;
    uint64_t rank = (uint64_t)exact;
    rank += (double)rank < exact;
    if (rank == 0)
        return 1;
    return rank > h->count ? h->count : rank;
}

uint64_t ct_histogram_at(const struct ct_histogram *h, double fraction) {
    if (h->count == 0)
        return 0;
    uint64_t rank = rank_of(h, fraction), seen = 0;
    if (rank == h->count)
        return h->max;
    for (unsigned o = 0; o < CT_HISTOGRAM_OCTAVES; o++)
        for (unsigned s = 0; h->octaves[o] && s < CT_HISTOGRAM_STEPS; s++) {
            seen += h->octaves[o][s];
            if (seen >= rank) {
                uint64_t value = value_of(o, s);
                return value < h->min ? h->min : value > h->max ? h->max : value;
            }
        }
    return h->max;
}

unsigned ct_histogram_power(uint64_t value) {
    return value ? 63 - (unsigned)__builtin_clzll(value) : 0;
}

uint64_t ct_histogram_count(const struct ct_histogram *h, unsigned power) {
    unsigned octave = power < STEP_BITS ? 0 : power - STEP_BITS + 1;
    unsigned step = octave ? 0 : power ? 1u << power : 0, end = octave ? CT_HISTOGRAM_STEPS : 2u << power;
    uint64_t count = 0;
    for (; octave < CT_HISTOGRAM_OCTAVES && h->octaves[octave] && step < end; step++)
        count += h->octaves[octave][step];
    return count;
}

void ct_histogram_clear(struct ct_histogram *h) {
    if (!h->count)
        return;
    for (unsigned o = 0; o < CT_HISTOGRAM_OCTAVES; o++)
        if (h->octaves[o])
            memset(h->octaves[o], 0, CT_HISTOGRAM_STEPS * sizeof *h->octaves[o]);
    h->count = h->min = h->max = 0;
}

void ct_histogram_free(struct ct_histogram *h) {
    for (unsigned o = 0; o < CT_HISTOGRAM_OCTAVES; o++)
        free(h->octaves[o]);
    *h = (struct ct_histogram){0};
}
