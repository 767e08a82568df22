/* SPDX-License-Identifier: Apache-2.0 */
/* A range that is walked by itself: see walk_part.h. */
#include "export/walk_part.h"
#include "base/grow.h"
#include "export/walk_lanes.h"
#include "export/walk_off.h"
#include <stdlib.h>

enum {
    DEEPEST = 1 << 14, /* open calls that a part gets: it has a copy of each */
    LOOK = 1024,       /* events between two looks at the status */
};

int ct_walk_part_open(struct ct_walk_part *part, const struct ct_walk *whole, const struct ct_range_source *source) {
    struct ct_walk *w = &part->walk;
    *part = (struct ct_walk_part){.walk = {.e = whole->e,
                                           .thread = whole->thread,
                                           .process = whole->process,
                                           .info = whole->info,
                                           .format = whole->format,
                                           .lanes = &part->lane,
                                           .lane_count = 1}};
    const struct ct_walk_sharing *sharing = whole->format->sharing;
    w->arg = calloc(1, sharing->size);
    int status = w->arg ? ct_range_reader_open(&part->reader, source) : CT_ERR_NO_MEMORY;
    return status || sharing->off_apart ? status : ct_walk_off_begin(w);
}

void ct_walk_part_close(struct ct_walk_part *part, struct ct_walk *whole) {
    if (part->walk.arg && whole->format->sharing->end)
        whole->format->sharing->end(whole, &part->walk);
    ct_walk_off_close(&part->walk);
    ct_range_reader_close(&part->reader);
    ct_range_free(&part->range);
    free(part->walk.values);
    free(part->walk.arg);
    free(part->spans);
}

void ct_walk_part_read(struct ct_walk_part *part, uint64_t first, uint64_t end) {
    ct_range_clear(&part->range);
    ct_range_count(&part->range, &part->reader, first, end);
}

/* ---- spans ---- */

/* Links spans with each other after they have moved. */
static void link_spans(struct ct_walk_part *part) {
    for (size_t i = 0; i < part->used; i++) {
        part->spans[i].below = i ? &part->spans[i - 1] : NULL;
        part->spans[i].above = i + 1 < part->used ? &part->spans[i + 1] : NULL;
    }
    part->lane.top = part->used ? &part->spans[part->used - 1] : NULL;
}

/* NULL: no memory. */
static inline struct ct_span *push_span(struct ct_walk_part *part) {
    if (part->used == part->room) {
        if (!ct_grow(&part->spans, &part->room, part->used, sizeof *part->spans, 256))
            return NULL;
        link_spans(part);
    }
    struct ct_span *span = &part->spans[part->used++];
    struct ct_span *below = part->lane.top;
    if (below)
        below->above = span;
    span->lane = 0;
    span->continued = span->context = false;
    span->below = below;
    span->above = NULL;
    span->node = NULL;
    span->inner_ns = span->inner_calls = 0;
    part->lane.top = span;
    return span;
}

static inline void pop_span(struct ct_walk_part *part) {
    struct ct_span *below = part->lane.top->below;
    part->used--;
    part->lane.top = below;
    if (below)
        below->above = NULL;
}

/* ---- where the part begins ---- */

/* How many calls are open, if they are one stack in one lane, so that each was called by the one below; else SIZE_MAX.
 * Below them may be calls of which nothing is known. */
static size_t count_open(const struct ct_walk *w) {
    const struct ct_frames *frames = &w->frames;
    const struct ct_span *span = w->lane_count ? w->lanes[0].top : NULL;
    size_t count = 0;
    for (size_t i = frames->row_count; i--; count++, span = span->below) {
        const struct ct_frame *frame = &frames->places[frames->row[i]];
        if (frame->unknown)
            break;
        size_t caller = ct_frames_caller(frames, frame);
        const struct ct_frame *below = i ? &frames->places[frames->row[i - 1]] : NULL;
        if (!span || frame->user != span || span->lane || count == DEEPEST ||
            (span->below ? !below || below->user != span->below || caller != frames->row[i - 1]
                         : ct_frames_known(frames, caller) != NULL))
            return SIZE_MAX;
    }
    return span ? SIZE_MAX : count;
}

/* True when the ends of calls from before are those of the innermost ones. Frames from before a gap may also be removed
 * by the end of another function. */
static bool ends_match(const struct ct_range *range, const struct ct_walk *whole, size_t open) {
    if (range->end_count > open)
        return false;
    const struct ct_span *span = open ? whole->lanes[0].top : NULL;
    for (size_t i = 0; i < range->end_count; i++, span = span->below)
        if (span->name->key.function != range->end_functions[i])
            return false;
    return true;
}

static bool copy_open(struct ct_walk_part *part, const struct ct_walk *whole, size_t count) {
    if (count && !ct_grow(&part->spans, &part->room, count - 1, sizeof *part->spans, 256))
        return false;
    part->used = count;
    const struct ct_span *span = count ? whole->lanes[0].top : NULL;
    for (size_t i = count; i--; span = span->below) {
        part->spans[i] = *span;
        part->spans[i].node = NULL;
    }
    link_spans(part);
    return true;
}

/* The functions that the range calls get their names, in the order of their first calls. */
static bool find_names(struct ct_walk_part *part, struct ct_walk *whole) {
    for (size_t i = 0; i < part->range.touched_count; i++) {
        struct ct_tally *tally = part->range.touched[i];
        tally->user = ct_names_get(&whole->e->names, whole->process, tally->key.function);
        if (!tally->user)
            return false;
    }
    return true;
}

/* ---- the whole walk goes on after the part ---- */

struct passing {
    struct ct_walk *whole;
    struct ct_walk_part *part;
};

/* A call from before ends: now all of its self time is known. */
static void pass_end(void *arg, const struct ct_range_end *end) {
    struct passing *p = arg;
    struct ct_walk *w = p->whole;
    const struct ct_frame *frame = ct_frames_close(&w->frames, &end->event);
    struct ct_span *span = frame ? frame->user : NULL;
    if (!span) /* count_open says that there is one */
        return;
    p->part->range.selves[end->self] = frame->self_ns;
    ct_walk_take_off_lane(w, span);
    ct_walk_drop_span(w, span);
}

static void pass_open(void *arg, const struct ct_range_call *call, struct ct_frame *frame) {
    struct passing *p = arg;
    struct ct_walk *w = p->whole;
    struct ct_span *caller = w->lane_count ? w->lanes[0].top : NULL, *span = ct_walk_new_span(w);
    size_t lane = span ? ct_walk_lane_for(w, caller) : SIZE_MAX;
    if (lane == SIZE_MAX) {
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
        return;
    }
    frame->user = span;
    span->name = call->tally->user;
    span->start_ns = call->start_ns;
    ct_walk_put_on_lane(w, span, lane);
    w->now_ns = call->start_ns;
    w->sequence = call->sequence;
    if (w->format->sharing->open)
        w->format->sharing->open(w, span, caller);
}

static void pass_part(struct ct_walk_part *part, struct ct_walk *whole, struct ct_scan *scan) {
    const struct ct_walk_sharing *sharing = whole->format->sharing;
    const struct ct_range *range = &part->range;
    struct passing passing = {whole, part};
    const struct ct_range_taker taker = {.end = pass_end, .open = pass_open, .arg = &passing};
    uint64_t now_ns = whole->now_ns;
    if (!ct_range_take(range, &whole->frames, scan, &taker))
        ct_export_fail(whole->e, CT_ERR_NO_MEMORY);
    whole->now_ns = now_ns;
    whole->silent = !sharing->off_apart;
    ct_walk_off_pass(whole, range->last_ns);
    whole->silent = false;
    whole->now_ns = range->last_ns;
    whole->sequence = range->end - 1;
    if (sharing->pass)
        sharing->pass(whole, range);
}

bool ct_walk_part_begin(struct ct_walk_part *part, struct ct_walk *whole, struct ct_scan *scan) {
    struct ct_walk *w = &part->walk;
    size_t open = SIZE_MAX;
    if (!whole->e->status && whole->now_ns && part->range.begin_ns && part->range.first_ns >= whole->now_ns &&
        ct_range_continues(&part->range, &whole->frames, scan))
        open = count_open(whole);
    if (open == SIZE_MAX || !ends_match(&part->range, whole, open))
        return false;
    w->now_ns = whole->now_ns;
    if (!whole->format->sharing->off_apart)
        ct_walk_off_follow(w, whole);
    if (!copy_open(part, whole, open) || !find_names(part, whole) || !whole->format->sharing->begin(w, whole)) {
        ct_export_fail(whole->e, CT_ERR_NO_MEMORY);
        return false;
    }
    pass_part(part, whole, scan);
    return true;
}

/* ---- events ---- */

static inline void begin_call(struct ct_walk_part *part, uint64_t function) {
    struct ct_walk *w = &part->walk;
    const struct ct_tally *tally = ct_range_tally(&part->range, part->reader.source, function);
    struct ct_span *caller = part->lane.top;
    if (tally->entry_only) {
        if (w->format->entry)
            w->format->entry(w, tally->user, caller);
        return;
    }
    struct ct_span *span = push_span(part);
    if (!span) {
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
        return;
    }
    span->name = tally->user;
    span->start_ns = w->now_ns;
    w->format->begin(w, span, span->below);
}

static inline void end_call(struct ct_walk_part *part, uint64_t self_ns, bool left) {
    struct ct_walk *w = &part->walk;
    struct ct_span *span = part->lane.top;
    span->self_ns = self_ns;
    w->format->end(w, span, span->below, left ? CT_SPAN_LEFT : CT_SPAN_RETURNED);
    pop_span(part);
}

static void settle(struct ct_walk_part *part) {
    struct ct_walk *w = &part->walk;
    for (size_t i = part->used; w->format->sharing->settle && i--;)
        w->format->sharing->settle(w, &part->spans[i], part->spans[i].below);
}

void ct_walk_part_run(struct ct_walk_part *part) {
    struct ct_walk *w = &part->walk;
    const struct ct_range *range = &part->range;
    size_t count = (size_t)(range->end - range->first), ended = 0;
    for (size_t i = 0; i < count && (i % LOOK || !w->e->status); i++) {
        const struct atf_index_event *event = &part->reader.events[i];
        ct_walk_off_pass(w, event->timestamp_ns);
        w->now_ns = event->timestamp_ns;
        w->sequence = range->first + i;
        w->detail = event->detail_seq;
        if (event->event_kind == ATF_CALL)
            begin_call(part, event->function_id);
        else if (event->event_kind != ATF_EXCEPTION || event->function_id)
            end_call(part, range->selves[ended++], event->event_kind == ATF_EXCEPTION);
        else if (w->format->signal)
            w->format->signal(w);
    }
    settle(part);
}
