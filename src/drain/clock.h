/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the CPU's counter, which is the time stamp of events, to CLOCK_BOOTTIME nanoseconds.
 *
 * The clock is calibrated regularly. Between two calibrations, time is a straight line through both; after the newest
 * one the line continues. */
#ifndef CT_DRAIN_CLOCK_H
#define CT_DRAIN_CLOCK_H

#include <stddef.h>
#include <stdint.h>

struct ct_clock_point {
    uint64_t counter, ns;
};

struct ct_clock {
    struct ct_clock_point first, before, newest;
    double rate;    /* ns per count, between `before` and `newest` */
    unsigned count; /* calibrations so far */
};

/* Takes the first point. A conversion needs at least two, some time apart. */
void ct_clock_start(struct ct_clock *clock);
/* Takes the first point from another clock, which may be in use, so that the second can be taken at once. */
void ct_clock_start_with(struct ct_clock *clock, const struct ct_clock *other);
void ct_clock_calibrate(struct ct_clock *clock);

static inline uint64_t ct_clock_ns(const struct ct_clock *clock, uint64_t counter) {
    int64_t distance = (int64_t)(counter - clock->newest.counter);
    return clock->newest.ns + (uint64_t)(int64_t)((double)distance * clock->rate);
}
/* Pairs of CLOCK_BOOTTIME and CLOCK_REALTIME: the first and the last one, and those around each moment at which
 * somebody set the clock. */
#define CT_CLOCK_PAIRS 64
struct ct_clock_pair {
    uint64_t boot_ns, real_ns;
    int32_t offset_s; /* local time is this much ahead of UTC */
};
struct ct_clock_wall {
    struct ct_clock_pair pairs[CT_CLOCK_PAIRS];
    size_t count;
};
/* Takes a pair. Called at the start, at the end, and regularly. */
void ct_clock_note_wall(struct ct_clock_wall *wall);
/* Keeps a pair in the list. */
void ct_clock_add_pair(struct ct_clock_wall *wall, const struct ct_clock_pair *pair);

double ct_clock_hz(const struct ct_clock *clock);
uint64_t ct_clock_now(void); /* CLOCK_BOOTTIME */

#endif
