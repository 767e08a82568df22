/* SPDX-License-Identifier: Apache-2.0 */
/* Which spans have no call that fits: see fits_skip.h.
 *
 * The condition is asked about a call that nobody has looked at: any function of the span, any duration up to the
 * longest, any depth between the lowest and the highest. A clear no leaves the span out. */
#include "report/fits_skip.h"
#include "report/where.h"
#include <stdlib.h>

/* A function of the thread that may fit. */
struct ct_fits_candidate {
    const struct ct_cached_function *known;
    struct ct_where_memory memory;
};

static bool may_fit(const struct ct_fits_skip *s, struct ct_fits_candidate *candidate,
                    const struct ct_where_bounds *bounds) {
    const struct ct_trace_thread *thread = ct_trace_thread_at(s->trace, s->thread);
    return ct_where_fits(s->select->where, &(struct ct_where_call){.bounds = bounds,
                                                                   .function = candidate ? candidate->known : NULL,
                                                                   .memory = candidate ? &candidate->memory : NULL,
                                                                   .thread_name = thread->name,
                                                                   .tid = thread->tid,
                                                                   .thread = s->thread,
                                                                   .detail = CT_TRACE_NO_DETAIL,
                                                                   .end_detail = CT_TRACE_NO_DETAIL}) != CT_WHERE_NO;
}

/* What --function and its like say. A call below a selected function may be of any function. */
static bool words_fit(const struct ct_fits_skip *s, const struct ct_cached_function *known) {
    bool below = s->words == CT_FITS_BELOW || s->words == CT_FITS_EVENTS;
    return s->words == CT_FITS_WHERE || ((below || known->function_fits) && known->module_fits);
}

static void list_candidates(struct ct_fits_skip *s, const struct ct_summary *summary) {
    const struct ct_where_bounds any = {UINT64_MAX, 0, UINT32_MAX};
    size_t all = ct_summary_function_count(summary);
    s->listed = true;
    s->candidates = all ? calloc(all, sizeof *s->candidates) : NULL;
    s->all = !s->candidates;
    for (size_t i = 0; !s->all && i < all; i++) {
        struct ct_fits_candidate *next = &s->candidates[s->count];
        *next = (struct ct_fits_candidate){0};
        next->known = ct_function_cache_get(s->names, ct_trace_thread_at(s->trace, s->thread)->process,
                                            ct_summary_function(summary, i)->function);
        s->all |= !next->known;
        s->count += next->known && words_fit(s, next->known) && may_fit(s, next, &any);
    }
}

bool ct_fits_skip_needs(struct ct_fits_skip *s, const struct ct_summary *summary, size_t number) {
    const struct cts_span *span = ct_summary_span(summary, number);
    bool gaps = s->facts->threads[s->thread].gap_count; /* which a span's longest call does not count */
    const struct ct_where_bounds bounds = {gaps ? UINT64_MAX : span->longest_ns, span->low, span->high};
    if (!s->listed)
        list_candidates(s, summary);
    if (!may_fit(s, NULL, &bounds))
        return false;
    for (size_t i = 0; !s->all && i < s->count; i++)
        if (ct_summary_may_have(summary, number, s->candidates[i].known->key.function) &&
            may_fit(s, &s->candidates[i], &bounds))
            return true;
    return s->all;
}

bool ct_fits_skip_begin(struct ct_fits_skip *s, size_t thread) {
    const struct ct_select *select = s->select;
    bool below = select->functions && (s->words == CT_FITS_BELOW || s->words == CT_FITS_EVENTS);
    s->thread = thread;
    return select->where ? ct_where_needs_more_than_values(select->where) : !below;
}

void ct_fits_skip_end(struct ct_fits_skip *s) {
    free(s->candidates);
    s->candidates = NULL;
    s->count = 0;
    s->listed = s->all = false;
}
