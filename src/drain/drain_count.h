/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the calls of each hook while events are drained, for the budget (session/budget.h).
 *
 * Written by the drain thread; other threads read it at any time, and see each number a little early or late. */
#ifndef CT_DRAIN_DRAIN_COUNT_H
#define CT_DRAIN_DRAIN_COUNT_H

#include <stddef.h>
#include <stdint.h>

struct ct_event;

struct ct_drain_count {
    uint64_t calls;
    uint64_t leaves;      /* calls whose return is the next event of their thread */
    uint64_t leaf_counts; /* how long these took, in counts of the CPU's counter */
};

struct ct_drain_counts {
    size_t room;
    uint64_t events, lost; /* counted; and missing from the count, because they were lost */
    struct ct_drain_count hooks[];
};

void ct_drain_count(struct ct_drain_counts *counts, const struct ct_event *events, size_t count);

#endif
