/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and times of one function. */
#ifndef CT_REPORT_TALLY_H
#define CT_REPORT_TALLY_H

#include "report/histogram.h"
#include "trace/frames.h"
#include "trace/table.h"

/* Which times of single calls are kept beside their sums. */
enum ct_report_spread { CT_REPORT_SPREAD_NONE, CT_REPORT_SPREAD_SELF, CT_REPORT_SPREAD_CPU };

/* Sums of squares are whole numbers: they do not depend on the order in which they are added. */
__extension__ typedef unsigned __int128 ct_sum;

struct ct_tally {
    struct ct_table_key key;
    uint64_t calls, exceptions, open, unpaired;
    uint64_t all_calls;                 /* where calls were sampled: with those that were not recorded; otherwise 0 */
    uint64_t total_ns, self_ns, sum_ns; /* sum: of every call, also inner calls of recursions */
    struct ct_off total_off, self_off;  /* of total and self: off the processor */
    ct_sum squares;                     /* only with a spread: sum of the squares of what `spread` has */
    struct ct_open_time open_time;
    bool known; /* entry_only has been looked up */
    bool entry_only;
    void *user;           /* the reader's own */
    uint64_t part_number; /* of range.c: the last part of a range in which it has ended, and where that is */
    size_t part;
    struct ct_histogram times;
    struct ct_histogram spread; /* self or CPU times of single calls, when they are wanted */
};

static inline struct ct_tally *ct_tally_get(struct ct_table *table, size_t process, uint64_t function) {
    return (struct ct_tally *)ct_table_get(table, process, function, sizeof(struct ct_tally));
}
/* The tally in slot i of the table; NULL: empty. */
static inline struct ct_tally *ct_tally_at(const struct ct_table *table, size_t i) {
    return (struct ct_tally *)table->slots[i];
}
/* Counts one call's self or CPU time; false: out of memory. */
bool ct_tally_spread(struct ct_tally *tally, enum ct_report_spread spread, uint64_t self_ns, const struct ct_off *off);
/* Adds `from` to `into`; false: out of memory. */
bool ct_tally_merge(struct ct_tally *into, const struct ct_tally *from);
void ct_tally_release(void *tally); /* for ct_table_clear */

#endif
