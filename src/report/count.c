/* SPDX-License-Identifier: Apache-2.0 */
/* Counting of one thread: every event goes through the frames to the tally of its function.
 *
 * A frame's `user` is its tally, so that a return needs no look-up. */
#include "report/count.h"
#include "trace/summary.h"

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
    if (!tally)
        return;
    tally->open_time.active--;
    tally->unpaired++;
    c->totals.unpaired++;
}

/* Counts the call of a frame, unless it does not fit. */
static void begin_call(struct ct_counter *c, struct ct_tally *tally, struct ct_frame *frame) {
    if (!tally || !ct_fits_call(c->fits, c->thread, frame->sequence))
        return;
    tally->calls++;
    c->totals.calls++;
    frame->user = tally;
    ct_frames_open_time(&c->frames, frame, &tally->open_time);
}

static void count_call(struct ct_counter *c, const struct ct_trace_event *event) {
    struct ct_tally *tally = tally_of(c, event->function_id);
    if (!tally)
        return;
    if (tally->entry_only) {
        (void)ct_frames_entry(&c->frames, event);
        bool fits = ct_fits_call(c->fits, c->thread, event->sequence);
        tally->calls += fits;
        c->totals.calls += fits;
        return;
    }
    struct ct_frame *frame = ct_frames_call(&c->frames, event);
    if (frame)
        begin_call(c, tally, frame);
    else
        c->failed = true;
}

/* The times of single calls, for comparisons. */
static void count_spread(struct ct_counter *c, struct ct_tally *tally, const struct ct_frame *frame) {
    uint64_t ns = frame->self_ns;
    if (c->spread == CT_REPORT_SPREAD_CPU)
        ns = ct_off_rest(ns, &frame->off_self);
    tally->squares += (double)ns * (double)ns;
    if (!ct_histogram_add(&tally->spread, ns))
        c->failed = true;
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
    if (c->spread)
        count_spread(c, tally, frame);
}

static void count_end(struct ct_counter *c, const struct ct_trace_event *event) {
    struct ct_frame frame;
    bool left = event->kind == CT_TRACE_EXCEPTION;
    if (left && event->function_id == 0) /* a signal: no frame ends */
        return;
    bool paired = ct_frames_end(&c->frames, event, &frame);
    if (paired ? !frame.user : c->fits != NULL) /* it does not fit, or nobody knows */
        return;
    c->totals.exceptions += left;
    if (paired) {
        count_time(c, &frame, event->timestamp_ns);
        ((struct ct_tally *)frame.user)->exceptions += left;
        return;
    }
    struct ct_tally *tally = tally_of(c, event->function_id);
    if (!tally)
        return;
    tally->unpaired++;
    c->totals.unpaired++;
}

static void count_open(struct ct_counter *c, uint64_t end_ns) {
    struct ct_frame frame;
    while (ct_frames_take(&c->frames, end_ns, &frame)) {
        if (!frame.user)
            continue;
        count_time(c, &frame, end_ns);
        ((struct ct_tally *)frame.user)->open++;
        c->totals.open++;
    }
}

static void count_gaps(struct ct_counter *c, const struct ct_scan *scan) {
    const struct ct_thread_facts *facts = &c->facts->threads[scan->setup.thread];
    size_t end = scan->past ? scan->gap : facts->gap_count;
    c->totals.gaps += end - scan->first_gap;
    c->totals.gap_ns += scan->gap_ns;
    for (size_t i = scan->first_gap; i < end; i++)
        c->totals.lost += facts->gaps[i].lost;
}

/* Counts the calls that are open where the range begins. */
static void count_inherited(struct ct_counter *c) {
    for (struct ct_frame *frame = NULL; !c->failed && (frame = ct_frames_next(&c->frames, frame));)
        begin_call(c, tally_of(c, frame->function), frame);
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    const struct ct_tally *tally = tally_of(arg, function);
    (void)process;
    return tally && tally->entry_only;
}

static bool is_needed(void *arg, const struct ct_summary *summary, size_t span) {
    const struct ct_counter *c = arg;
    return ct_fits_between(c->fits, c->thread, ct_summary_span(summary, span)->first_seq,
                           ct_summary_span_end(summary, span));
}

int ct_count_thread(struct ct_counter *c, size_t thread) {
    static const struct ct_scan_spans spans = {.needed = is_needed};
    struct ct_scan scan;
    struct ct_trace_event event;
    c->thread = thread;
    c->process = ct_trace_thread_at(c->trace, thread)->process;
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = c->trace,
                                                             .facts = c->facts,
                                                             .thread = thread,
                                                             .from_ns = c->select->from_ns,
                                                             .to_ns = c->select->to_ns,
                                                             .frames = &c->frames,
                                                             .lost = on_lost,
                                                             .entry_only = is_entry_only,
                                                             .arg = c,
                                                             .spans = c->fits ? &spans : NULL,
                                                             .names = c->names});
    if (!status)
        count_inherited(c);
    while (!status && !c->failed && ct_scan_next(&scan, &event)) {
        c->totals.events++;
        if (event.kind == CT_TRACE_CALL)
            count_call(c, &event);
        else
            count_end(c, &event);
    }
    if (!status) {
        count_open(c, ct_scan_end(&scan));
        count_gaps(c, &scan);
        c->totals.events += scan.left_out_events;
        c->totals.threads++;
        c->totals.waited_ns += ct_scan_waited(&scan);
        c->totals.cpu_threads += ct_scan_has_cpu(&scan);
    }
    ct_scan_close(&scan);
    return status ? status : c->failed ? CT_ERR_NO_MEMORY : 0;
}

void ct_counter_free(struct ct_counter *c) {
    ct_frames_free(&c->frames);
}
