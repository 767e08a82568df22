/* SPDX-License-Identifier: Apache-2.0 */
/* Counting of one thread: every event goes through the frames to the tally of its function.
 *
 * A frame's `user` is its tally, so that a return needs no look-up.
 *
 * Of a large thread, ranges are counted by several workers (ranges.h), and merged here in order: ends of calls from
 * before a range and calls that are open at its end go through the frames, all others are in the range's tallies. */
#include "report/count.h"
#include "trace/summary.h"

#define LEAST_EVENTS (UINT64_C(1) << 16) /* smaller threads are counted event by event */

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
    if (c->spread && !ct_tally_spread(tally, c->spread, frame->self_ns, &frame->off_self))
        c->failed = true;
}

static void count_end(struct ct_counter *c, const struct ct_trace_event *event) {
    bool left = event->kind == CT_TRACE_EXCEPTION;
    if (left && event->function_id == 0) /* a signal: no frame ends */
        return;
    const struct ct_frame *frame = ct_frames_close(&c->frames, event);
    if (frame ? !frame->user : c->fits != NULL) /* it does not fit, or nobody knows */
        return;
    c->totals.exceptions += left;
    if (frame) {
        count_time(c, frame, event->timestamp_ns);
        ((struct ct_tally *)frame->user)->exceptions += left;
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

static void count_event(struct ct_counter *c, const struct ct_trace_event *event) {
    c->totals.events++;
    if (event->kind == CT_TRACE_CALL)
        count_call(c, event);
    else
        count_end(c, event);
}

/* ---- ranges ---- */

/* Times of functions while the calls from before the range were as they are now. */
static void take_parts(struct ct_counter *c, const struct ct_range *range, size_t from, size_t to) {
    for (; from < to; from++) {
        const struct ct_range_part *part = &range->parts[from];
        struct ct_tally *tally = tally_of(c, part->tally->key.function);
        if (!tally || tally->open_time.active)
            continue; /* it is inside a call of the function */
        tally->total_ns += part->total_ns;
        ct_off_add(&tally->total_off, &part->off);
    }
}

/* A range that is being taken over. */
struct taking {
    struct ct_counter *counter;
    const struct ct_range *range;
    size_t parts; /* taken so far */
};

static void take_parts_until(struct taking *t, size_t parts) {
    take_parts(t->counter, t->range, t->parts, parts);
    t->parts = parts;
}

static void take_end(void *arg, const struct ct_range_end *end) {
    struct taking *t = arg;
    take_parts_until(t, end->parts);
    count_end(t->counter, &end->event);
}

static void take_open(void *arg, const struct ct_range_call *call, struct ct_frame *frame) {
    struct taking *t = arg;
    struct ct_counter *c = t->counter;
    take_parts_until(t, t->range->part_count); /* before these calls are open */
    struct ct_tally *tally = tally_of(c, call->function);
    if (!tally || !call->tally)
        return;
    frame->user = tally;
    ct_frames_open_time(&c->frames, frame, &tally->open_time);
}

static void take_range(struct ct_counter *c, struct ct_scan *scan, const struct ct_range *range) {
    struct taking taking = {.counter = c, .range = range};
    const struct ct_range_taker taker = {.end = take_end, .open = take_open, .arg = &taking};
    if (!ct_range_take(range, &c->frames, scan, &taker))
        c->failed = true;
    take_parts_until(&taking, range->part_count);
    for (size_t i = 0; i < range->touched_count; i++) {
        struct ct_tally *tally = tally_of(c, range->touched[i]->key.function);
        if (!tally || !ct_tally_merge(tally, range->touched[i]))
            c->failed = true;
    }
    c->totals.events += range->events;
    c->totals.calls += range->calls;
    c->totals.exceptions += range->exceptions;
    c->totals.ranges++;
}

/* Counts a large thread, or the first part of it, or nothing if it cannot: the caller counts the rest. Each range needs
 * a reader of its own, and the process may have no more files open. */
static void count_ranges(struct ct_counter *c, struct ct_scan *scan) {
    const struct ct_trace_thread *info = ct_trace_thread_at(c->trace, c->thread);
    const struct ct_range_source source = {.trace = c->trace,
                                           .facts = c->facts,
                                           .thread = c->thread,
                                           .names = c->names,
                                           .fits = c->fits,
                                           .to_ns = c->select->to_ns,
                                           .spread = c->spread};
    uint64_t size = c->range_events ? c->range_events : CT_RANGE_EVENTS, end = c->trace->threads[c->thread].index.end;
    struct ct_ranges *ranges;
    const struct ct_range *range;
    struct ct_trace_event event;
    if (scan->summary) /* it leaves out more than others can count */
        return;
    if (size == UINT64_MAX || (!c->range_events && info->event_count < LEAST_EVENTS))
        return;
    if (source.to_ns)
        end = ct_summary_position(c->trace, c->thread, source.to_ns);
    if (ct_ranges_open(&ranges, &source, c->crew, scan->next, end, size))
        return;
    while (!c->failed && !scan->past && (range = ct_ranges_next(ranges))) {
        if (ct_range_continues(range, &c->frames, scan))
            take_range(c, scan, range);
        else
            while (!c->failed && scan->next < range->end && ct_scan_next(scan, &event))
                count_event(c, &event);
    }
    ct_ranges_close(ranges);
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
                                                             .alone = true,
                                                             .spans = c->fits ? &spans : NULL,
                                                             .names = c->names});
    if (!status)
        count_inherited(c);
    if (!status)
        count_ranges(c, &scan);
    while (!status && !c->failed && ct_scan_next(&scan, &event))
        count_event(c, &event);
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
