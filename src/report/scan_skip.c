/* SPDX-License-Identifier: Apache-2.0 */
/* A scan for long calls leaves out spans of large threads in which only short ones end. It continues at the last place
 * before the next span that is needed where the summary knows the open calls. */
#include "report/scan_skip.h"
#include "base/grow.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include <stdlib.h>

/* ---- how long a call is that matters ---- */

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

int ct_scan_nth_longest(struct ct_trace *trace, const struct ct_facts *facts, const struct ct_select *select, size_t n,
                        uint64_t *least_ns) {
    uint64_t *longest = NULL;
    size_t count = 0, room = 0;
    int status = 0;
    *least_ns = 0;
    for (size_t i = 0; !status && i < ct_trace_thread_count(trace); i++) {
        struct ct_summary *summary;
        if (!ct_select_thread(select, trace, i) ||
            ct_summary_open(&summary, trace, i, &(struct ct_summary_options){.facts = facts, .once = true}) != 0)
            continue;
        for (size_t k = 0; !status && k < ct_summary_span_count(summary); k++) {
            const struct cts_span *span = ct_summary_span(summary, k);
            if (!span->ends)
                continue;
            if (ct_grow(&longest, &room, count, sizeof *longest, 1024))
                longest[count++] = span->longest_ns;
            else
                status = CT_ERR_NO_MEMORY;
        }
        ct_summary_close(summary);
    }
    if (!status && n && n <= count) {
        qsort(longest, count, sizeof *longest, descending);
        *least_ns = longest[n - 1];
    }
    free(longest);
    return status;
}

/* ---- skipping ---- */

/* The last span is always needed: the thread's end is after it. */
static bool is_needed(const struct ct_scan *s, size_t span) {
    return span + 1 >= ct_summary_span_count(s->summary) ||
           ct_summary_span(s->summary, span)->longest_ns >= s->setup.least_ns;
}

static bool resume(struct ct_scan *s, size_t start) {
    struct ct_frames fresh = {0}, *frames = s->setup.frames;
    ct_frames_begin(&fresh, frames->complete, frames->lost, frames->arg);
    fresh.timeline = frames->timeline;
    if (ct_summary_frames(s->summary, start, &fresh) != 0) {
        ct_frames_free(&fresh);
        return false;
    }
    ct_frames_free(frames);
    *frames = fresh;
    s->last_ns = ct_summary_start_last_ns(s->summary, start);
    return true;
}

void ct_scan_skip_next(struct ct_scan *s, uint64_t next) {
    size_t span = ct_summary_find(s->summary, next), needed = span;
    uint64_t end = ct_summary_span_end(s->summary, span);
    s->boundary = end > next ? end : UINT64_MAX;
    if (next != ct_summary_span(s->summary, span)->first_seq)
        return;
    while (!is_needed(s, needed))
        needed++;
    size_t start = ct_summary_start_before(s->summary, needed);
    const struct cts_start *to = ct_summary_start(s->summary, start);
    if (to->span <= span || !resume(s, start))
        return;
    for (size_t i = span; i < to->span; i++)
        s->left_out += ct_summary_span(s->summary, i)->ends;
    ct_trace_cursor_skip(s->cursor, s->setup.thread, ct_summary_start_sequence(s->summary, start));
    s->boundary = ct_summary_span_end(s->summary, to->span);
}

int ct_scan_skip_open(struct ct_scan *s) {
    const struct ct_scan_setup *setup = &s->setup;
    const struct ct_summary_options options = {.facts = setup->facts, .names = setup->names, .once = true};
    const struct ct_timeline *timeline = setup->frames->timeline;
    bool whole = !s->facts->gap_count && !(timeline && timeline->waits.count); /* spans do not count such time */
    if (!setup->least_ns || setup->from_ns || setup->to_ns || !whole)
        return 0;
    int status = ct_summary_open(&s->summary, setup->trace, setup->thread, &options);
    if (status)
        return status == CT_ERR_NO_MEMORY ? status : 0;
    if (ct_summary_is_ordered(s->summary) && ct_summary_span_count(s->summary))
        ct_scan_skip_next(s, s->next);
    return 0;
}

void ct_scan_skip_close(struct ct_scan *s) {
    ct_summary_close(s->summary);
    s->summary = NULL;
}
