/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the edges of plain events: see edges_internal.h. This is the innermost loop of `edges`: a call and its end
 * touch one entry of a stack and one edge, and nothing is looked up that was seen a moment ago. */
#include "abi/atf.h"
#include "base/grow.h"
#include "query/edges_internal.h"
#include "trace/reader.h"
#include <stdlib.h>

enum { BATCH = 1024, KNOWN_BITS = 10, BATCHES_BETWEEN_POLLS = 64 };

struct open_call {
    uint64_t function, began_ns, self_ns;
    uint64_t waited_ns; /* waits before it */
    uint32_t edge;      /* its number + 1; 0: not looked up */
};

/* An edge that was seen. */
struct known {
    uint64_t caller, callee;
    uint32_t edge; /* 0: none */
    bool entry_only;
};

struct plain {
    struct ct_edge_reading *reading;
    struct open_call *stack; /* [0]: time in no call */
    size_t used, room;       /* used: calls that are open */
    uint64_t last_ns, waited_ns;
    struct known known[1 << KNOWN_BITS];
    struct atf_index_event events[BATCH];
};

/* ---- calls that are open at the beginning ---- */

static bool push(struct plain *p, struct open_call call) {
    if (!ct_grow(&p->stack, &p->room, p->used + 1, sizeof *p->stack, 64)) {
        p->reading->failed = true;
        return false;
    }
    p->stack[++p->used] = call;
    return true;
}

/* False: the frames are not plain, or there is no memory. */
static bool take_frames(struct plain *p) {
    const struct ct_frames *frames = &p->reading->frames;
    p->last_ns = frames->last_ns;
    p->waited_ns = frames->waited_ns;
    if (!ct_frames_is_plain(frames, frames->open) || !ct_grow(&p->stack, &p->room, 0, sizeof *p->stack, 64))
        return false;
    p->stack[0] = (struct open_call){0};
    for (const struct ct_frame *frame = NULL; (frame = ct_frames_next(frames, frame));)
        if (frame->unknown || frame->called_at != p->used ||
            !push(p, (struct open_call){frame->function, frame->began_ns, frame->self_ns, frame->waited_ns, 0}))
            return false;
    return p->used == frames->open;
}

/* ---- events ---- */

static void pass_time(struct plain *p, uint64_t now_ns) {
    struct ct_timeline *timeline = p->reading->frames.timeline;
    struct open_call *running = &p->stack[p->used];
    if (!ct_timeline_is_quiet(timeline, now_ns)) {
        struct ct_off off = {{0}};
        uint64_t waited = ct_timeline_pass(timeline, now_ns, &off);
        p->waited_ns += waited;
        running->self_ns -= waited;
    }
    running->self_ns += now_ns - p->last_ns;
    p->last_ns = now_ns;
}

/* NULL: out of memory. */
static inline const struct known *know(struct plain *p, uint64_t caller, uint64_t callee) {
    struct ct_edge_reading *r = p->reading;
    struct known *known = &p->known[(caller * 0x9e3779b97f4a7c15u ^ callee * 0xff51afd7ed558ccdu) >> (64 - KNOWN_BITS)];
    if (known->edge && known->caller == caller && known->callee == callee)
        return known;
    uint32_t edge = ct_edge_table_find(r->table, r->process, caller, callee);
    *known = (struct known){caller, callee, edge, ct_edge_entry_only(r, callee)};
    r->failed |= !edge;
    return r->failed ? NULL : known;
}

static void count_call(struct plain *p, const struct open_call *call, uint64_t end_ns) {
    const struct known *known = call->edge ? NULL : know(p, call[-1].function, call->function);
    uint32_t number = known ? known->edge : call->edge;
    if (!number)
        return;
    struct ct_edge *edge = &p->reading->table->edges[number - 1];
    uint64_t wall = end_ns - call->began_ns, waited = p->waited_ns - call->waited_ns;
    uint64_t duration = wall > waited ? wall - waited : 0;
    edge->calls++;
    edge->timed++;
    edge->total_ns += duration;
    edge->self_ns += call->self_ns;
    edge->max_ns = duration > edge->max_ns ? duration : edge->max_ns;
}

/* False: the event is not plain, or there is no memory. */
static inline bool count_event(struct plain *p, const struct atf_index_event *event) {
    if (event->timestamp_ns < p->last_ns)
        return false;
    if (event->event_kind == ATF_CALL) {
        const struct known *known = know(p, p->stack[p->used].function, event->function_id);
        if (!known)
            return false;
        if (known->entry_only) {
            p->reading->table->edges[known->edge - 1].calls++;
            return true;
        }
        if (event->call_depth != p->used)
            return false;
        pass_time(p, event->timestamp_ns);
        return push(p, (struct open_call){event->function_id, event->timestamp_ns, 0, p->waited_ns, known->edge});
    }
    if (event->event_kind == ATF_EXCEPTION && !event->function_id)
        return true; /* a signal */
    if (!p->used || event->call_depth + UINT64_C(1) != p->used || p->stack[p->used].function != event->function_id)
        return false;
    pass_time(p, event->timestamp_ns);
    count_call(p, &p->stack[p->used--], event->timestamp_ns);
    return !p->reading->failed;
}

/* The calls that are open at the end of the thread. */
static void count_open(struct plain *p) {
    const struct ct_edge_reading *r = p->reading;
    const struct ct_source *s = r->source;
    uint64_t end_ns = ct_facts_thread_end(&s->facts, s->trace, r->part->thread, p->last_ns, p->used);
    if (end_ns > p->last_ns)
        pass_time(p, end_ns);
    for (; p->used; p->used--)
        count_call(p, &p->stack[p->used], end_ns);
}

static int count_events(struct plain *p, bool *plain) {
    struct ct_edge_reading *r = p->reading;
    struct ct_index *index = &r->source->trace->threads[r->part->thread].index;
    uint64_t at = r->scan.next, end = r->part->end < index->end ? r->part->end : index->end;
    int status = 0;
    for (unsigned batches = 1; *plain && at < end && !status; batches++) {
        size_t count = ct_index_read(index, at, p->events, end - at < BATCH ? (size_t)(end - at) : BATCH);
        *plain = count != 0;
        for (size_t i = 0; i < count && *plain; i++)
            *plain = count_event(p, &p->events[i]);
        at += count;
        if (batches % BATCHES_BETWEEN_POLLS == 0)
            status = ct_edge_pass(r->source, UINT64_C(1) * BATCH * BATCHES_BETWEEN_POLLS);
    }
    if (*plain && !status && end == index->end)
        count_open(p);
    return r->failed ? CT_ERR_NO_MEMORY : status;
}

int ct_edge_count_plain(struct ct_edge_reading *r, bool *done) {
    struct ct_trace_event event;
    struct plain *p = calloc(1, sizeof *p);
    int status = 0;
    *done = false;
    if (!p)
        return CT_ERR_NO_MEMORY;
    p->reading = r;
    /* The scan knows the frames before the event that it returns. */
    if (ct_scan_next(&r->scan, &event) && (event.sequence == r->part->first || !r->part->first)) {
        r->scan.next = event.sequence;
        *done = take_frames(p);
        status = *done ? count_events(p, done) : 0;
    }
    *done &= !status;
    free(p->stack);
    free(p);
    return status;
}
