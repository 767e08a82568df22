/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the ranges of one thread on all processors.
 *
 * The owner takes finished ranges in order, and counts ranges itself while none is finished. Helpers only count. At
 * most a few ranges are ahead of the owner, so memory does not grow with the thread.
 *
 *   crew:   workers that have no thread of their own any more help those that have one
 *   ranges: belong to the worker that counts the thread */
#ifndef CT_REPORT_RANGES_H
#define CT_REPORT_RANGES_H

#include "report/range.h"

#define CT_RANGE_EVENTS (UINT64_C(1) << 19) /* in a range */
#define CT_CREW_MOST    16                  /* workers */

struct ct_ranges;

/* Workers of one report. */
struct ct_crew {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ct_ranges *open[CT_CREW_MOST]; /* what needs help */
    size_t open_count;
    unsigned owners; /* workers that may still need help */
    unsigned size;   /* workers */
};

void ct_crew_begin(struct ct_crew *crew, unsigned size);
/* A worker could not be started. */
void ct_crew_leave(struct ct_crew *crew);
/* A worker has no thread left: it helps the others, until none needs help any more. */
void ct_crew_help(struct ct_crew *crew);
void ct_crew_end(struct ct_crew *crew);

/* `first` to `end`: positions; `size`: events in a range. `crew` may be NULL. Returns 0 or CT_ERR_NO_MEMORY. */
int ct_ranges_open(struct ct_ranges **out, const struct ct_range_source *source, struct ct_crew *crew, uint64_t first,
                   uint64_t end, uint64_t size);
/* The next range, counted, valid until the next call; NULL: there are no more. */
const struct ct_range *ct_ranges_next(struct ct_ranges *ranges);
void ct_ranges_close(struct ct_ranges *ranges);

#endif
