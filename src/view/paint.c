/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be seen of a thread, from its events: see paint.h. */
#include "view/paint.h"
#include "abi/atf.h"
#include "report/scan.h"
#include "trace/reader.h"

enum { POLL_EVENTS = 1 << 16 };

static uint32_t place_of(uint32_t depth) {
    return depth & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(depth) : depth;
}

/* ---- event by event ---- */

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    const struct ct_painter *p = arg;
    const struct ct_cached_function *known = ct_function_cache_get(&p->source->names, process, function);
    return known && known->entry_only;
}

/* The end of a call was lost: it is seen up to the last event before that was noticed. */
static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_painter *p = arg;
    ct_strips_end(&p->strips, place_of(frame->called_at), frame->sequence, p->last_ns);
}

void ct_painter_begin(struct ct_painter *p, bool complete) {
    ct_frames_begin(&p->frames, complete, on_lost, p);
}

int ct_painter_event(struct ct_painter *p, const struct ct_trace_event *event) {
    if (event->kind == CT_TRACE_CALL && is_entry_only(p, p->process, event->function_id)) {
        (void)ct_frames_entry(&p->frames, event);
        ct_strips_entry(&p->strips, place_of(event->depth), event->function_id, event->sequence, event->timestamp_ns);
    } else if (event->kind == CT_TRACE_CALL) {
        if (!ct_frames_call(&p->frames, event))
            return CT_ERR_NO_MEMORY;
        ct_strips_call(&p->strips, place_of(event->depth), event->function_id, event->sequence, event->timestamp_ns);
    } else if (event->kind != CT_TRACE_EXCEPTION || event->function_id) {
        const struct ct_frame *frame = ct_frames_close(&p->frames, event);
        if (frame)
            ct_strips_end(&p->strips, place_of(frame->called_at), frame->sequence, event->timestamp_ns);
    }
    p->last_ns = event->timestamp_ns;
    return p->strips.failed ? CT_ERR_NO_MEMORY : 0;
}

void ct_painter_free(struct ct_painter *p) {
    ct_frames_free(&p->frames);
    ct_strips_free(&p->strips);
}

/* ---- a range ---- */

struct painting {
    const struct ct_paint *ask;
    struct ct_painter painter;
    struct ct_scan scan;
};

static void take_open(struct ct_painter *p) {
    for (struct ct_frame *f = NULL; (f = ct_frames_next(&p->frames, f));)
        ct_strips_call(&p->strips, place_of(f->called_at), f->function, f->sequence, f->began_ns);
}

static int read_events(struct painting *p) {
    const struct ct_source_setup *owner = &p->ask->source->setup;
    struct ct_trace_event event;
    int status = 0;
    for (unsigned left = POLL_EVENTS; !status && ct_scan_next(&p->scan, &event); left--) {
        status = ct_painter_event(&p->painter, &event);
        if (!left) {
            left = POLL_EVENTS;
            if (owner->poll && owner->poll(owner->poll_arg))
                return CT_ERR_TIMEOUT;
        }
    }
    return status;
}

static int open_scan(struct painting *p) {
    const struct ct_paint *ask = p->ask;
    struct ct_source *s = ask->source;
    struct ct_scan_setup setup = {.trace = s->trace,
                                  .facts = &s->facts,
                                  .thread = ask->thread,
                                  .from_ns = ask->from_ns,
                                  .to_ns = ask->to_ns,
                                  .frames = &p->painter.frames,
                                  .lost = on_lost,
                                  .entry_only = is_entry_only,
                                  .arg = &p->painter,
                                  .alone = true};
    if (setup.from_ns)
        setup.summary = s->summaries[ask->thread];
    return ct_scan_open(&p->scan, &setup);
}

/* Only the events of the range, from a position on, or from where the open calls are known. */
static int paint_blind(struct painting *p) {
    struct ct_source *s = p->ask->source;
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    uint64_t first = p->ask->open ? p->ask->next : ct_summary_position(s->trace, p->ask->thread, p->ask->from_ns);
    ct_painter_begin(&p->painter, false);
    for (size_t i = 0; i < p->ask->open_count; i++)
        if (ct_painter_event(&p->painter, &p->ask->open[i]) != 0)
            return CT_ERR_NO_MEMORY;
    int status = ct_trace_cursor_open_thread_at(&cursor, s->trace, p->ask->thread, first);
    if (status)
        return status;
    ct_trace_cursor_alone(cursor);
    while (!status && ct_trace_cursor_next(cursor, &event) && (!p->ask->to_ns || event.timestamp_ns < p->ask->to_ns))
        status = ct_painter_event(&p->painter, &event);
    ct_trace_cursor_close(cursor);
    ct_strips_settle(&p->painter.strips, p->painter.last_ns);
    return status;
}

int ct_paint(const struct ct_paint *ask) {
    struct painting p = {.ask = ask,
                         .painter = {.source = ask->source,
                                     .process = ct_trace_thread_at(ask->source->trace, ask->thread)->process,
                                     .strips = {.piece = ask->piece, .arg = ask->arg}}};
    int status;
    if (ask->blind) {
        status = paint_blind(&p);
    } else {
        status = open_scan(&p);
        if (!status) {
            take_open(&p.painter);
            p.painter.last_ns = p.scan.last_ns;
            status = read_events(&p);
        }
        if (!status)
            ct_strips_settle(&p.painter.strips, ct_scan_end(&p.scan));
        ct_scan_close(&p.scan);
    }
    ct_painter_free(&p.painter);
    return status;
}
