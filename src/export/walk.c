/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through the events of each thread.
 *
 * Invariants: every known frame that is kept has a span as its `user`; in a lane, a span lies higher on the stack of
 * frames than the one below it. */
#include "export/walk_lanes.h"
#include "export/walk_off.h"
#include "export/walk_ranges.h"
#include <stdlib.h>

enum { PROGRESS = 1 << 15 };

/* The span of the frame at index `at`, or of the nearest one that it was called in. */
static struct ct_span *span_at(const struct ct_walk *w, size_t at) {
    const struct ct_frame *frame = ct_frames_known(&w->frames, at);
    while (frame && !frame->user)
        frame = ct_frames_known(&w->frames, ct_frames_caller(&w->frames, frame));
    return frame ? frame->user : NULL;
}

static struct ct_span *span_of_caller(const struct ct_walk *w, const struct ct_frame *frame) {
    return span_at(w, ct_frames_caller(&w->frames, frame));
}

/* ---- events ---- */

static void close_frame(struct ct_walk *w, const struct ct_frame *frame, enum ct_span_end how) {
    struct ct_span *span = frame->user;
    if (!span || w->e->status)
        return;
    span->self_ns = frame->self_ns;
    ct_walk_end_span(w, span, span_of_caller(w, frame), how);
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_walk *w = arg;
    w->now_ns = w->scan->now_ns > w->now_ns ? w->scan->now_ns : w->now_ns;
    close_frame(w, frame, CT_SPAN_LOST);
}

static void begin_span(struct ct_walk *w, struct ct_frame *frame, struct ct_name *name) {
    if (!ct_fits_keeps(w->e->fits, w->thread, frame->sequence))
        return;
    struct ct_span *span = ct_walk_new_span(w);
    if (!span) {
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
        return;
    }
    frame->user = span;
    span->name = name;
    span->start_ns = w->now_ns;
    span->context = !ct_fits_call(w->e->fits, w->thread, frame->sequence);
    struct ct_span *caller = span_of_caller(w, frame);
    size_t lane = ct_walk_lane_for(w, caller);
    if (lane == SIZE_MAX)
        return;
    ct_walk_put_on_lane(w, span, lane);
    if (w->format->begin)
        w->format->begin(w, span, caller);
}

static void on_call(struct ct_walk *w, const struct ct_trace_event *event) {
    struct ct_name *name = ct_names_get(&w->e->names, w->process, event->function_id);
    if (!name) {
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
        return;
    }
    if (name->entry_only) {
        size_t caller = ct_frames_entry(&w->frames, event);
        if (w->format->entry && ct_fits_keeps(w->e->fits, w->thread, event->sequence))
            w->format->entry(w, name, span_at(w, caller));
        return;
    }
    struct ct_frame *frame = ct_frames_call(&w->frames, event);
    if (frame)
        begin_span(w, frame, name);
    else
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
}

static void on_end(struct ct_walk *w, const struct ct_trace_event *event) {
    bool left = event->kind == CT_TRACE_EXCEPTION;
    if (left && event->function_id == 0) {
        if (w->format->signal)
            w->format->signal(w);
        return;
    }
    const struct ct_frame *frame = ct_frames_close(&w->frames, event);
    if (frame) {
        close_frame(w, frame, left ? CT_SPAN_LEFT : CT_SPAN_RETURNED);
        return;
    }
    if (w->e->fits) /* nobody knows whether it fits */
        return;
    struct ct_name *name = ct_names_get(&w->e->names, w->process, event->function_id);
    if (!name)
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    else if (w->format->unpaired)
        w->format->unpaired(w, name, left);
}

static void on_gaps(struct ct_walk *w, uint64_t sequence) {
    const struct ct_thread_facts *facts = &w->e->facts.threads[w->thread];
    for (; w->gap < facts->gap_count && facts->gaps[w->gap].at <= sequence; w->gap++)
        if (w->format->gap)
            w->format->gap(w, &facts->gaps[w->gap]);
}

/* ---- threads ---- */

static void close_open(struct ct_walk *w, const struct ct_scan *scan) {
    if (!w->now_ns) /* only a gap */
        w->now_ns = w->e->start_ns;
    uint64_t end_ns = ct_scan_end(scan);
    struct ct_frame frame;
    if (!scan->past)
        on_gaps(w, UINT64_MAX);
    ct_walk_off_finish(w, end_ns);
    w->now_ns = end_ns > w->now_ns ? end_ns : w->now_ns;
    w->detail = CT_TRACE_NO_DETAIL;
    while (!w->e->status && ct_frames_take(&w->frames, w->now_ns, &frame))
        close_frame(w, &frame, CT_SPAN_OPEN);
}

/* Begins the calls that are open where the range begins. */
static void begin_inherited(struct ct_walk *w) {
    w->detail = CT_TRACE_NO_DETAIL;
    for (struct ct_frame *frame = NULL; !w->e->status && (frame = ct_frames_next(&w->frames, frame));) {
        struct ct_name *name = ct_names_get(&w->e->names, w->process, frame->function);
        w->now_ns = frame->start_ns;
        w->detail = frame->detail;
        w->sequence = frame->sequence;
        if (name)
            begin_span(w, frame, name);
        else
            ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    }
}

/* Reads the events up to the position `end`. Returns how many there were. */
static uint64_t read_until(struct ct_walk *w, struct ct_scan *scan, uint64_t end) {
    struct ct_trace_event event;
    size_t gap_count = w->e->facts.threads[w->thread].gap_count;
    uint64_t count = 0;
    for (; !w->e->status && scan->next < end && ct_scan_next(scan, &event); count++) {
        ct_walk_off_pass(w, event.timestamp_ns);
        if (event.timestamp_ns < w->now_ns) /* a damaged file; viewers reject time that goes back */
            event.timestamp_ns = w->now_ns;
        w->now_ns = event.timestamp_ns;
        w->sequence = event.sequence;
        w->detail = event.detail;
        if (w->gap < gap_count)
            on_gaps(w, event.sequence);
        if (event.kind == CT_TRACE_CALL)
            on_call(w, &event);
        else
            on_end(w, &event);
    }
    return count;
}

static int read_events(struct ct_walk *w, struct ct_scan *scan) {
    uint64_t count;
    w->gap = scan->first_gap;
    begin_inherited(w);
    ct_walk_ranges(w, scan, read_until);
    while ((count = read_until(w, scan, scan->next + PROGRESS)))
        ct_export_advance(w->e, count);
    if (!w->e->status)
        close_open(w, scan);
    return w->e->status;
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    struct ct_walk *w = arg;
    const struct ct_name *name = ct_names_get(&w->e->names, process, function);
    return name && name->entry_only;
}

static int walk_thread(struct ct_walk *w) {
    const struct ct_select *select = &w->e->options->select;
    struct ct_scan scan;
    w->scan = &scan;
    w->process = w->info->process;
    w->now_ns = 0;
    w->lane_count = w->lane_hint = 0;
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = w->e->trace,
                                                             .facts = &w->e->facts,
                                                             .thread = w->thread,
                                                             .from_ns = select->from_ns,
                                                             .to_ns = select->to_ns,
                                                             .frames = &w->frames,
                                                             .lost = on_lost,
                                                             .entry_only = is_entry_only,
                                                             .arg = w});
    if (!status)
        status = ct_walk_off_open(w);
    if (!status && w->format->begin_thread)
        w->format->begin_thread(w);
    if (!status)
        status = read_events(w, &scan);
    if (!status && w->format->end_thread)
        w->format->end_thread(w);
    ct_walk_off_close(w);
    ct_scan_close(&scan);
    return status;
}

int ct_walk_trace(struct ct_export *e, const struct ct_walk_format *format, void *arg) {
    struct ct_walk w = {.e = e, .out = &e->out, .arg = arg, .format = format};
    int status = 0;
    for (size_t i = 0; i < ct_trace_thread_count(e->trace) && !status; i++) {
        w.thread = i;
        w.info = ct_trace_thread_at(e->trace, i);
        if ((w.info->event_count || e->facts.threads[i].gap_count) &&
            ct_select_thread(&e->options->select, e->trace, i))
            status = walk_thread(&w);
    }
    status = status ? status : e->status;
    ct_frames_free(&w.frames);
    ct_walk_free_spans(&w);
    free(w.values);
    free(w.lanes);
    return status;
}
