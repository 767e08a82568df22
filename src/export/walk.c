/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through the events of each thread.
 *
 * Invariants: every known frame that is kept has a span as its `user`; a span is in exactly one lane; in a lane, a span
 * lies higher on the stack of frames than the one below it. */
#include "export/walk_pipe.h"
#include "base/grow.h"
#include <stdlib.h>

enum { CHUNK = 256, PROGRESS = 1 << 15 };

struct chunk {
    struct chunk *next;
    struct ct_span spans[CHUNK];
};

/* ---- spans ---- */

static struct ct_span *new_span(struct ct_walk *w) {
    if (!w->free_spans) {
        struct chunk *chunk = malloc(sizeof *chunk);
        if (!chunk)
            return NULL;
        chunk->next = w->chunks;
        w->chunks = chunk;
        for (size_t i = 0; i < CHUNK; i++) {
            chunk->spans[i].below = w->free_spans;
            w->free_spans = &chunk->spans[i];
        }
    }
    struct ct_span *span = w->free_spans;
    w->free_spans = span->below;
    span->name = NULL;
    span->start_ns = span->self_ns = span->inner_ns = span->inner_calls = 0;
    span->lane = 0;
    span->continued = span->context = false;
    span->below = span->above = NULL;
    span->node = NULL;
    return span;
}

static void drop_span(struct ct_walk *w, struct ct_span *span) {
    span->below = w->free_spans;
    w->free_spans = span;
}

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

/* ---- lanes ---- */

/* SIZE_MAX: out of memory. */
static size_t empty_lane(struct ct_walk *w) {
    while (w->lane_hint < w->lane_count && w->lanes[w->lane_hint].top)
        w->lane_hint++;
    if (w->lane_hint < w->lane_count)
        return w->lane_hint;
    if (!ct_grow(&w->lanes, &w->lane_capacity, w->lane_count, sizeof *w->lanes, 16)) {
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
        return SIZE_MAX;
    }
    w->lanes[w->lane_count] = (struct ct_export_lane){0};
    return w->lane_count++;
}

static void put_on_lane(struct ct_walk *w, struct ct_span *span, size_t lane) {
    struct ct_export_lane *l = &w->lanes[lane];
    span->lane = lane;
    span->above = NULL;
    span->below = l->top;
    if (l->top)
        l->top->above = span;
    l->top = span;
}

static void take_off_lane(struct ct_walk *w, struct ct_span *top) {
    struct ct_export_lane *l = &w->lanes[top->lane];
    l->top = top->below;
    if (l->top)
        l->top->above = NULL;
    else if (top->lane < w->lane_hint)
        w->lane_hint = top->lane;
}

static void report_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    if (w->format->begin)
        w->format->begin(w, span, caller);
}

static void report_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    if (w->format->end)
        w->format->end(w, span, caller, how);
}

/* Takes the spans above off the lane, the top first. They stay linked by `above`. */
static struct ct_span *suspend_above(struct ct_walk *w, struct ct_span *span) {
    struct ct_span *lowest = span->above, *moved = NULL;
    if (!lowest)
        return NULL;
    for (;;) {
        struct ct_span *top = w->lanes[span->lane].top;
        report_end(w, top, top->below, CT_SPAN_MOVED);
        take_off_lane(w, top);
        top->above = moved;
        moved = top;
        if (top == lowest)
            return moved;
    }
}

static void end_span(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    struct ct_span *moved = suspend_above(w, span);
    report_end(w, span, caller, how);
    take_off_lane(w, span);
    drop_span(w, span);
    if (!moved)
        return;
    size_t lane = empty_lane(w);
    if (lane == SIZE_MAX)
        return;
    for (struct ct_span *next; moved; moved = next) {
        next = moved->above;
        put_on_lane(w, moved, lane);
        moved->continued = true;
        report_begin(w, moved, moved->below);
    }
}

/* ---- events ---- */

static void close_frame(struct ct_walk *w, const struct ct_frame *frame, enum ct_span_end how) {
    struct ct_span *span = frame->user;
    if (!span || w->e->status)
        return;
    span->self_ns = frame->self_ns;
    end_span(w, span, span_of_caller(w, frame), how);
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_walk *w = arg;
    w->now_ns = w->scan->now_ns > w->now_ns ? w->scan->now_ns : w->now_ns;
    close_frame(w, frame, CT_SPAN_LOST);
}

static void begin_span(struct ct_walk *w, struct ct_frame *frame, struct ct_name *name) {
    if (!ct_fits_keeps(w->e->fits, w->thread, frame->sequence))
        return;
    struct ct_span *span = new_span(w);
    if (!span) {
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
        return;
    }
    frame->user = span;
    span->name = name;
    span->start_ns = w->now_ns;
    span->context = !ct_fits_call(w->e->fits, w->thread, frame->sequence);
    struct ct_span *caller = span_of_caller(w, frame);
    bool on_top = caller && w->lanes[caller->lane].top == caller;
    size_t lane = on_top ? caller->lane : empty_lane(w);
    if (lane == SIZE_MAX)
        return;
    put_on_lane(w, span, lane);
    report_begin(w, span, caller);
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

static size_t on_gaps(struct ct_walk *w, size_t gap, uint64_t sequence) {
    const struct ct_thread_facts *facts = &w->e->facts.threads[w->thread];
    for (; gap < facts->gap_count && facts->gaps[gap].at <= sequence; gap++)
        if (w->format->gap)
            w->format->gap(w, &facts->gaps[gap]);
    return gap;
}

/* ---- waits, and time off the processor ---- */

static void next_off(struct ct_walk *w) {
    w->is_off = false;
    do
        if (!ct_timeline_next(&w->ahead, &w->off))
            w->off = (struct ct_off_span){0};
    while (w->off.kind == CT_OFF_UNKNOWN && w->off.to_ns);
}

static void report_off(struct ct_walk *w, bool begin) {
    if (w->format->names_off) {
        w->off_name = ct_names_other(&w->e->names, w->off.kind, ct_off_text(w->off.kind));
        if (!w->off_name) {
            ct_export_fail(w->e, CT_ERR_NO_MEMORY);
            return;
        }
    }
    w->format->off(w, &w->off, begin);
}

/* Begins and ends spans up to a time, in order. */
static void pass_off(struct ct_walk *w, uint64_t now_ns) {
    if (!w->now_ns) /* nothing is shown before the first event */
        while (w->off.to_ns && w->off.from_ns < now_ns)
            next_off(w);
    while (w->off.to_ns && (w->is_off ? w->off.to_ns : w->off.from_ns) <= now_ns) {
        uint64_t at = w->is_off ? w->off.to_ns : w->off.from_ns;
        w->now_ns = at > w->now_ns ? at : w->now_ns;
        report_off(w, !w->is_off);
        if (w->is_off)
            next_off(w);
        else
            w->is_off = true;
    }
}

/* The thread has no more events: ends the span at its end. */
static void finish_off(struct ct_walk *w, uint64_t end_ns) {
    pass_off(w, end_ns);
    if (w->is_off) {
        w->now_ns = end_ns > w->now_ns ? end_ns : w->now_ns;
        report_off(w, false);
    }
    w->is_off = false;
    w->off = (struct ct_off_span){0};
}

static int open_off(struct ct_walk *w) {
    w->off = (struct ct_off_span){0};
    w->is_off = false;
    int status = w->format->off ? ct_timeline_open(&w->ahead, &w->e->facts, w->e->trace, w->thread) : 0;
    if (!status && w->format->off)
        next_off(w);
    uint64_t from_ns = w->e->options->select.from_ns;
    while (w->off.to_ns && w->off.from_ns < from_ns)
        next_off(w);
    return status;
}

/* ---- threads ---- */

static void close_open(struct ct_walk *w, const struct ct_scan *scan, size_t gap) {
    if (!w->now_ns) /* only a gap */
        w->now_ns = w->e->start_ns;
    uint64_t end_ns = ct_scan_end(scan);
    struct ct_frame frame;
    if (!scan->past)
        on_gaps(w, gap, UINT64_MAX);
    finish_off(w, end_ns);
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
        if (name)
            begin_span(w, frame, name);
        else
            ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    }
}

static int read_events(struct ct_walk *w, struct ct_scan *scan) {
    struct ct_trace_event event;
    uint64_t since = 0;
    size_t gap = scan->first_gap, gap_count = w->e->facts.threads[w->thread].gap_count;
    begin_inherited(w);
    while (!w->e->status && ct_scan_next(scan, &event)) {
        if (w->off.to_ns)
            pass_off(w, event.timestamp_ns);
        if (event.timestamp_ns < w->now_ns) /* a damaged file; viewers reject time that goes back */
            event.timestamp_ns = w->now_ns;
        w->now_ns = event.timestamp_ns;
        w->detail = event.detail;
        if (gap < gap_count)
            gap = on_gaps(w, gap, event.sequence);
        if (event.kind == CT_TRACE_CALL)
            on_call(w, &event);
        else
            on_end(w, &event);
        if (++since == PROGRESS) {
            ct_export_advance(w->e, since);
            since = 0;
        }
    }
    if (!w->e->status)
        close_open(w, scan, gap);
    ct_export_advance(w->e, since);
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
        status = open_off(w);
    if (!status && w->format->begin_thread)
        w->format->begin_thread(w);
    if (!status)
        status = read_events(w, &scan);
    if (!status && w->format->end_thread)
        w->format->end_thread(w);
    ct_timeline_close(&w->ahead);
    ct_scan_close(&scan);
    return status;
}

int ct_walk_trace(struct ct_export *e, const struct ct_walk_format *format, void *arg) {
    struct ct_walk_pipe *pipe = ct_walk_pipe_open(e, format, arg);
    struct ct_walk w = {.e = e, .arg = pipe ? (void *)pipe : arg, .format = pipe ? ct_walk_pipe_format(pipe) : format};
    int status = 0;
    for (size_t i = 0; i < ct_trace_thread_count(e->trace) && !status; i++) {
        w.thread = i;
        w.info = ct_trace_thread_at(e->trace, i);
        if ((w.info->event_count || e->facts.threads[i].gap_count) &&
            ct_select_thread(&e->options->select, e->trace, i))
            status = walk_thread(&w);
    }
    ct_walk_pipe_close(pipe);
    status = status ? status : e->status;
    ct_frames_free(&w.frames);
    while (w.chunks) {
        struct chunk *next = ((struct chunk *)w.chunks)->next;
        free(w.chunks);
        w.chunks = next;
    }
    free(w.lanes);
    return status;
}
