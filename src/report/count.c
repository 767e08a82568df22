/* SPDX-License-Identifier: Apache-2.0 */
/* Counting of one thread: every event goes through the frames to the tally of its function.
 *
 * A frame's `user` is its tally, so that a return needs no look-up. */
#include "report/count.h"

static struct ct_tally *tally_of(struct ct_counter *c, uint64_t function) {
    struct ct_tally *tally = ct_tally_get(c->tallies, c->process, function);
    if (!tally) {
        c->failed = true;
        return NULL;
    }
    if (!tally->known) {
        pthread_mutex_lock(c->names);
        const struct ct_trace_function *f = ct_trace_function(c->trace, c->process, function);
        pthread_mutex_unlock(c->names);
        tally->known = true;
        tally->entry_only = f && f->entry_only;
    }
    return tally;
}

/* The end of the frame was lost: counts a call without a time. */
static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_counter *c = arg;
    struct ct_tally *tally = frame->user;
    tally->open_time.active--;
    tally->unpaired++;
    c->totals.unpaired++;
}

static void count_call(struct ct_counter *c, const struct ct_trace_event *event) {
    struct ct_tally *tally = tally_of(c, event->function_id);
    if (!tally)
        return;
    tally->calls++;
    c->totals.calls++;
    if (tally->entry_only) {
        (void)ct_frames_entry(&c->frames, event);
        return;
    }
    struct ct_frame *frame = ct_frames_call(&c->frames, event);
    if (!frame) {
        c->failed = true;
        return;
    }
    frame->user = tally;
    ct_frames_open_time(&c->frames, frame, &tally->open_time);
}

static void count_time(struct ct_counter *c, const struct ct_frame *frame, uint64_t end_ns) {
    struct ct_tally *tally = frame->user;
    uint64_t duration = ct_frames_duration(&c->frames, frame, end_ns);
    tally->total_ns += ct_frames_close_time(&c->frames, &tally->open_time, end_ns);
    ct_frames_close_off(&c->frames, &tally->open_time, &tally->total_off);
    tally->sum_ns += duration;
    tally->self_ns += frame->self_ns;
    ct_off_add(&tally->self_off, &frame->off_self);
    if (!ct_histogram_add(&tally->times, duration))
        c->failed = true;
}

static void count_end(struct ct_counter *c, const struct ct_trace_event *event) {
    struct ct_frame frame;
    if (event->kind == CT_TRACE_EXCEPTION) {
        c->totals.exceptions += event->function_id != 0;
        if (event->function_id == 0) /* a signal: no frame ends */
            return;
    }
    if (ct_frames_end(&c->frames, event, &frame)) {
        count_time(c, &frame, event->timestamp_ns);
        ((struct ct_tally *)frame.user)->exceptions += event->kind == CT_TRACE_EXCEPTION;
        return;
    }
    struct ct_tally *tally = tally_of(c, event->function_id);
    if (!tally)
        return;
    tally->unpaired++;
    c->totals.unpaired++;
}

static void count_open(struct ct_counter *c, size_t thread, uint64_t last_ns, bool gap) {
    struct ct_frame frame;
    uint64_t end_ns = ct_facts_thread_end(c->facts, c->trace, thread, last_ns, c->frames.count);
    if (gap) /* the time from here on is inside the gap */
        end_ns = last_ns;
    while (ct_frames_take(&c->frames, end_ns, &frame)) {
        count_time(c, &frame, end_ns);
        ((struct ct_tally *)frame.user)->open++;
        c->totals.open++;
    }
}

static void count_gaps(struct ct_counter *c, const struct ct_thread_facts *facts) {
    c->totals.gaps += facts->gap_count;
    for (size_t i = 0; i < facts->gap_count; i++)
        c->totals.lost += facts->gaps[i].lost;
}

int ct_count_thread(struct ct_counter *c, size_t thread) {
    const struct ct_thread_facts *facts = &c->facts->threads[thread];
    struct ct_trace_cursor *cursor;
    int status = ct_trace_cursor_open_thread(&cursor, c->trace, thread, 0);
    if (status)
        return status;
    c->process = ct_trace_thread_at(c->trace, thread)->process;
    struct ct_timeline timeline;
    status = ct_timeline_open(&timeline, c->facts, c->trace, thread);
    if (status) {
        ct_trace_cursor_close(cursor);
        return status;
    }
    ct_frames_begin(&c->frames, facts->complete, on_lost, c);
    c->frames.timeline = &timeline;
    struct ct_trace_event event;
    size_t gap = 0;
    uint64_t first_ns = 0, last_ns = 0;
    while (!c->failed && ct_trace_cursor_next(cursor, &event)) {
        if (gap < facts->gap_count && facts->gaps[gap].at <= event.sequence) {
            uint64_t ns = last_ns && event.timestamp_ns > last_ns ? event.timestamp_ns - last_ns : 0;
            ct_frames_gap(&c->frames, ns);
            c->totals.gap_ns += ns;
            while (gap < facts->gap_count && facts->gaps[gap].at <= event.sequence)
                gap++;
        }
        c->totals.events++;
        if (event.kind == CT_TRACE_CALL)
            count_call(c, &event);
        else
            count_end(c, &event);
        last_ns = event.timestamp_ns;
        first_ns = first_ns ? first_ns : last_ns;
    }
    ct_trace_cursor_close(cursor);
    count_open(c, thread, last_ns, gap < facts->gap_count);
    count_gaps(c, facts);
    c->totals.threads++;
    c->totals.waited_ns += ct_waits_in(&timeline.waits, first_ns, last_ns);
    c->totals.cpu_threads += ct_timeline_has_cpu(&timeline);
    ct_timeline_close(&timeline);
    c->frames.timeline = NULL;
    return c->failed ? CT_ERR_NO_MEMORY : 0;
}

void ct_counter_free(struct ct_counter *c) {
    ct_frames_free(&c->frames);
}
