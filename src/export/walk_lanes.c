/* SPDX-License-Identifier: Apache-2.0 */
/* Spans and lanes: see walk_lanes.h. In a lane, a span lies higher on the stack of frames than the one below it. */
#include "export/walk_lanes.h"
#include "base/grow.h"
#include <stdlib.h>

enum { CHUNK = 256 };

struct chunk {
    struct chunk *next;
    struct ct_span spans[CHUNK];
};

/* ---- spans ---- */

struct ct_span *ct_walk_new_span(struct ct_walk *w) {
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

void ct_walk_drop_span(struct ct_walk *w, struct ct_span *span) {
    span->below = w->free_spans;
    w->free_spans = span;
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

void ct_walk_put_on_lane(struct ct_walk *w, struct ct_span *span, size_t lane) {
    struct ct_export_lane *l = &w->lanes[lane];
    span->lane = lane;
    span->above = NULL;
    span->below = l->top;
    if (l->top)
        l->top->above = span;
    l->top = span;
}

void ct_walk_take_off_lane(struct ct_walk *w, struct ct_span *top) {
    struct ct_export_lane *l = &w->lanes[top->lane];
    l->top = top->below;
    if (l->top)
        l->top->above = NULL;
    else if (top->lane < w->lane_hint)
        w->lane_hint = top->lane;
}

size_t ct_walk_lane_for(struct ct_walk *w, const struct ct_span *caller) {
    return caller && w->lanes[caller->lane].top == caller ? caller->lane : empty_lane(w);
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
        ct_walk_take_off_lane(w, top);
        top->above = moved;
        moved = top;
        if (top == lowest)
            return moved;
    }
}

void ct_walk_end_span(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    struct ct_span *moved = suspend_above(w, span);
    report_end(w, span, caller, how);
    ct_walk_take_off_lane(w, span);
    ct_walk_drop_span(w, span);
    if (!moved)
        return;
    size_t lane = empty_lane(w);
    if (lane == SIZE_MAX)
        return;
    for (struct ct_span *next; moved; moved = next) {
        next = moved->above;
        ct_walk_put_on_lane(w, moved, lane);
        moved->continued = true;
        report_begin(w, moved, moved->below);
    }
}

void ct_walk_free_spans(struct ct_walk *w) {
    while (w->chunks) {
        struct chunk *next = ((struct chunk *)w->chunks)->next;
        free(w->chunks);
        w->chunks = next;
    }
}
