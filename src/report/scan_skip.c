/* SPDX-License-Identifier: Apache-2.0 */
/* A scan leaves out spans of large threads that its reader does not need: those in which only short calls end, or in
 * which no call is that fits a condition. It continues at the last place before the next span that is needed where the
 * summary knows the open calls. */
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

/* ---- what is needed ---- */

/* The last span is always needed: the thread's end is after it. The spans before it, from the current position on, have
 * no gap. */
static bool is_needed(const struct ct_scan *s, size_t number) {
    const struct ct_scan_setup *setup = &s->setup;
    const struct cts_span *span = ct_summary_span(s->summary, number);
    if (number + 1 >= ct_summary_span_count(s->summary))
        return true;
    if (!setup->spans)
        return span->longest_ns >= setup->least_ns;
    bool gap = s->gap < s->facts->gap_count && s->facts->gaps[s->gap].at < ct_summary_span_end(s->summary, number);
    return gap || span->signals || span->lost || (setup->to_ns && span->time_last_ns >= setup->to_ns) ||
           setup->spans->needed(setup->arg, s->summary, number);
}

static bool is_open_at(const struct ct_summary *summary, size_t start, uint64_t sequence) {
    for (size_t i = 0; i < ct_summary_start(summary, start)->frame_count; i++) {
        const struct cts_call *call = ct_summary_call(summary, start, i);
        if (call && call->start_seq == sequence)
            return true;
    }
    return false;
}

/* True when the frames whose ends the reader needs are still open at the start. */
static bool all_stay(const struct ct_scan *s, size_t start) {
    const struct ct_scan_spans *spans = s->setup.spans;
    const struct ct_frame *frame = NULL;
    while (spans && spans->stays && (frame = ct_frames_next(s->setup.frames, frame)))
        if (spans->stays(s->setup.arg, frame) && !is_open_at(s->summary, start, frame->sequence))
            return false;
    return true;
}

/* The last start up to `last` where they are all open; a frame that was closed stays closed. Not after `span`: none. */
static size_t find_start(const struct ct_scan *s, size_t span, size_t last) {
    size_t low = ct_summary_start_before(s->summary, span), high = last;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (all_stay(s, middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* ---- skipping ---- */

/* Gives the new frames what the reader knows of the old ones: both are in the order of calls. */
static void hand_over(const struct ct_scan_setup *setup, struct ct_frames *old, struct ct_frames *fresh) {
    struct ct_frame *from = ct_frames_next(old, NULL), *to = NULL;
    while ((to = ct_frames_next(fresh, to))) {
        for (; from && from->sequence < to->sequence; from = ct_frames_next(old, from))
            if (setup->spans->closed)
                setup->spans->closed(setup->arg, from);
        if (from && from->sequence == to->sequence) {
            to->user = from->user;
            from = ct_frames_next(old, from);
        }
    }
    for (; from; from = ct_frames_next(old, from))
        if (setup->spans->closed)
            setup->spans->closed(setup->arg, from);
}

static bool resume(struct ct_scan *s, size_t start) {
    struct ct_frames fresh = {0}, *frames = s->setup.frames;
    const struct ct_scan_spans *spans = s->setup.spans;
    uint64_t sequence = s->next;
    ct_frames_begin(&fresh, frames->complete, frames->lost, frames->arg);
    fresh.timeline = frames->timeline;
    if (ct_summary_frames(s->summary, start, &fresh) != 0) {
        ct_frames_free(&fresh);
        return false;
    }
    if (spans)
        hand_over(&s->setup, frames, &fresh);
    ct_frames_free(frames);
    *frames = fresh;
    s->last_ns = ct_summary_start_last_ns(s->summary, start);
    for (struct ct_frame *frame = NULL; spans && spans->opened && (frame = ct_frames_next(frames, frame));)
        if (frame->sequence >= sequence)
            spans->opened(s->setup.arg, frame);
    return true;
}

void ct_scan_skip_next(struct ct_scan *s, uint64_t next) {
    size_t span = ct_summary_find(s->summary, next);
    uint64_t end = ct_summary_span_end(s->summary, span);
    s->boundary = end > next ? end : UINT64_MAX;
    if (next != ct_summary_span(s->summary, span)->first_seq)
        return;
    for (s->needed = s->needed > span ? s->needed : span; !is_needed(s, s->needed);)
        s->needed++;
    size_t start = s->needed > span ? find_start(s, span, ct_summary_start_before(s->summary, s->needed)) : 0;
    const struct cts_start *to = ct_summary_start(s->summary, start);
    if (to->span <= span || !resume(s, start))
        return;
    for (size_t i = span; i < to->span; i++) {
        s->left_out += ct_summary_span(s->summary, i)->ends;
        s->left_out_events += ct_summary_span(s->summary, i)->count;
    }
    s->next = ct_summary_start_sequence(s->summary, start);
    s->first_ns = s->first_ns ? s->first_ns : ct_summary_span(s->summary, span)->time_first_ns;
    ct_trace_cursor_skip(s->cursor, s->setup.thread, s->next);
    s->boundary = ct_summary_span_end(s->summary, to->span);
}

static bool may_skip(const struct ct_scan *s) {
    const struct ct_scan_setup *setup = &s->setup;
    const struct ct_timeline *timeline = setup->frames->timeline;
    bool whole = !s->facts->gap_count && !(timeline && timeline->waits.count); /* spans do not count such time */
    return !setup->from_ns && (setup->spans || (setup->least_ns && !setup->to_ns && whole));
}

int ct_scan_skip_open(struct ct_scan *s) {
    const struct ct_scan_setup *setup = &s->setup;
    const struct ct_summary_options options = {.facts = setup->facts, .names = setup->names, .once = true};
    if (!may_skip(s))
        return 0;
    s->summary = setup->summary;
    int status = s->summary ? 0 : ct_summary_open(&s->summary, setup->trace, setup->thread, &options);
    if (status)
        return status == CT_ERR_NO_MEMORY ? status : 0;
    if (ct_summary_is_ordered(s->summary) && ct_summary_span_count(s->summary))
        s->boundary = s->next;
    return 0;
}

void ct_scan_skip_close(struct ct_scan *s) {
    if (s->summary != s->setup.summary)
        ct_summary_close(s->summary);
    s->summary = NULL;
}
