/* SPDX-License-Identifier: Apache-2.0 */
/* Counts one thread of a trace into tallies. */
#ifndef CT_REPORT_COUNT_H
#define CT_REPORT_COUNT_H

#include "report/fits.h"
#include "report/ranges.h"
#include "report/scan.h"
#include "report/tally.h"

struct ct_count_totals {
    uint64_t events, calls, exceptions, open, unpaired, gaps, lost, gap_ns, threads;
    uint64_t waited_ns;   /* for the recorder */
    uint64_t cpu_threads; /* whose time off the processor is known */
    uint64_t ranges;      /* that were taken as a whole (ranges.h) */
};

/* Zeroed, with the first six fields set, and what else is wanted. One thread uses a counter; several counters may read
 * one trace, each a different thread of it. */
struct ct_counter {
    struct ct_trace *trace;
    pthread_mutex_t *names; /* held during lookups of functions, which the trace does one at a time */
    const struct ct_facts *facts;
    struct ct_table *tallies; /* of struct ct_tally */
    const struct ct_select *select;
    const struct ct_fits *fits; /* NULL: all calls */
    struct ct_frames frames;    /* reused from thread to thread for its memory */
    enum ct_report_spread spread;
    struct ct_crew *crew;  /* workers that may help; NULL: none */
    uint64_t range_events; /* in a range (ranges.h); 0: CT_RANGE_EVENTS, UINT64_MAX: no ranges */
    struct ct_count_totals totals;
    /* the thread that is being read */
    size_t process, thread;
    bool failed; /* out of memory */
};

int ct_count_thread(struct ct_counter *counter, size_t thread);
void ct_counter_free(struct ct_counter *counter);

#endif
