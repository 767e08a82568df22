/* SPDX-License-Identifier: Apache-2.0 */
/* The replay of selected functions leaves out spans of large threads that have none of them, nor anything else that is
 * shown (gaps, signals), as long as no selected call is open. Where calls were selected one by one (fits.h), it leaves
 * out spans in which none of them begins or ends. It continues at the last place before the next span that is needed
 * where the summary knows the open calls. */
#include "report/replay_internal.h"
#include "trace/summary.h"
#include <stdlib.h>

struct ct_replay_skip {
    struct ct_summary *summary;
    uint64_t *functions; /* selected ones that have events in the thread */
    size_t count;
};

/* ---- what is needed ---- */

/* The last span is always needed: the thread's end is after it. The spans before it, from the current position on, have
 * no gap. */
static bool is_needed(const struct ct_replay_source *s, size_t span) {
    const struct ct_replay_skip *skip = s->skip;
    bool gap = s->gap < s->gap_count && s->gaps[s->gap].at < ct_summary_span_end(skip->summary, span);
    if (span + 1 >= ct_summary_span_count(skip->summary) || ct_summary_span(skip->summary, span)->signals || gap)
        return true;
    if (s->replay->fits)
        return ct_fits_between(s->replay->fits, s->thread, ct_summary_span(skip->summary, span)->first_seq,
                               ct_summary_span_end(skip->summary, span));
    for (size_t i = 0; i < skip->count; i++)
        if (ct_summary_may_have(skip->summary, span, skip->functions[i]))
            return true;
    return false;
}

/* All that is below an open call is shown. */
static bool is_inside(const struct ct_replay_source *s) {
    if (s->replay->fits)
        return false;
    for (const struct ct_frame *frame = NULL; (frame = ct_frames_next(&s->frames, frame));) {
        const struct ct_replay_call *call = frame->user;
        if (call && call->inside)
            return true;
    }
    return false;
}

/* ---- skipping ---- */

/* Calls that are still open stay; the others were not shown. Both lists are in the order of calls. */
static void hand_over(struct ct_replay_source *s, struct ct_frames *fresh) {
    struct ct_frame *to = ct_frames_next(fresh, NULL);
    for (struct ct_frame *from = NULL; (from = ct_frames_next(&s->frames, from));) {
        while (to && to->sequence < from->sequence)
            to = ct_frames_next(fresh, to);
        if (s->replay->fits && to && to->sequence == from->sequence)
            to->user = from->user;
        else if (from->user)
            ct_replay_discard(&s->replay->lines, from->user);
    }
}

/* Replaces the frames by those at the start; they stay as they are when that fails. */
static bool resume(struct ct_replay_source *s, size_t start) {
    struct ct_frames fresh = {0};
    ct_frames_begin(&fresh, s->frames.complete, s->frames.lost, s->frames.arg);
    fresh.timeline = s->frames.timeline;
    if (ct_summary_frames(s->skip->summary, start, &fresh) != 0) {
        ct_frames_free(&fresh);
        return false;
    }
    hand_over(s, &fresh);
    ct_frames_free(&s->frames);
    s->frames = fresh;
    s->last_ns = ct_summary_start_last_ns(s->skip->summary, start);
    if (ct_replay_resume(s) != 0)
        s->replay->lines.stopped = CT_ERR_NO_MEMORY;
    return true;
}

void ct_replay_skip_next(struct ct_replay_source *s, uint64_t next) {
    const struct ct_summary *summary = s->skip->summary;
    size_t span = ct_summary_find(summary, next), needed = span;
    uint64_t end = ct_summary_span_end(summary, span);
    s->boundary = end > next ? end : UINT64_MAX;
    if (next != ct_summary_span(summary, span)->first_seq || is_inside(s))
        return;
    while (!is_needed(s, needed))
        needed++;
    size_t start = ct_summary_start_before(summary, needed);
    uint64_t first = ct_summary_start_sequence(summary, start);
    if (ct_summary_start(summary, start)->span <= span || !resume(s, start))
        return;
    ct_trace_cursor_skip(s->replay->cursor, s->thread, first);
    s->boundary = ct_summary_span_end(summary, ct_summary_start(summary, start)->span);
}

/* ---- opening ---- */

/* Finds the selected functions. False: there is no memory, or their list is not known. */
static bool find_functions(struct ct_replay_source *s) {
    struct ct_replay_skip *skip = s->skip;
    size_t all = ct_summary_function_count(skip->summary);
    skip->functions = calloc(all + 1, sizeof *skip->functions);
    for (size_t i = 0; skip->functions && i < all; i++) {
        uint64_t id = ct_summary_function(skip->summary, i)->function;
        const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, s->process, id);
        if (!known)
            return false;
        if (known->function_fits)
            skip->functions[skip->count++] = id;
    }
    return all && skip->functions;
}

int ct_replay_skip_open(struct ct_replay_source *s, uint64_t first) {
    struct ct_replay_run *r = s->replay;
    struct ct_summary *summary;
    const struct ct_trace_thread *thread = ct_trace_thread_at(r->trace, s->thread);
    s->boundary = UINT64_MAX;
    if ((!r->options->select.functions && !r->fits) || r->options->one || r->options->blocks ||
        !ct_summary_is_worth(r->trace, thread->event_count))
        return 0;
    const struct ct_summary_options options = {.facts = &r->facts, .once = true};
    int status = ct_summary_open(&summary, r->trace, s->thread, &options);
    if (status)
        return status == CT_ERR_NO_MEMORY ? status : 0;
    s->skip = calloc(1, sizeof *s->skip);
    if (!s->skip) {
        ct_summary_close(summary);
        return CT_ERR_NO_MEMORY;
    }
    s->skip->summary = summary;
    if ((r->fits || find_functions(s)) && ct_summary_is_ordered(summary) && ct_summary_span_count(summary))
        ct_replay_skip_next(s, first > thread->first_sequence ? first : thread->first_sequence);
    return 0;
}

void ct_replay_skip_close(struct ct_replay_source *s) {
    if (!s->skip)
        return;
    ct_summary_close(s->skip->summary);
    free(s->skip->functions);
    free(s->skip);
}
