/* SPDX-License-Identifier: Apache-2.0 */
/* Which spans of a large thread have no call that fits a selection, by what its summary says of them: the functions in
 * a span, its longest call, its depths. A part of fits.c. One owner. */
#ifndef CT_REPORT_FITS_SKIP_H
#define CT_REPORT_FITS_SKIP_H

#include "report/fits.h"
#include "report/function_cache.h"
#include "trace/summary.h"

struct ct_fits_candidate;

/* Zeroed, with the first five fields set. */
struct ct_fits_skip {
    struct ct_trace *trace;
    const struct ct_facts *facts;
    const struct ct_select *select;
    enum ct_fits_words words;
    struct ct_function_cache *names;
    /* private: of the thread that is read */
    size_t thread;
    struct ct_fits_candidate *candidates;
    size_t count;
    bool listed; /* the candidates were looked for */
    bool all;    /* they are not known: any function may fit */
};

/* This thread is read next. False: summaries cannot help with this selection. */
bool ct_fits_skip_begin(struct ct_fits_skip *skip, size_t thread);
void ct_fits_skip_end(struct ct_fits_skip *skip);
/* False: no call of the span fits, neither one that ends in it nor one of a function that is recorded on entry only. */
bool ct_fits_skip_needs(struct ct_fits_skip *skip, const struct ct_summary *summary, size_t span);

#endif
