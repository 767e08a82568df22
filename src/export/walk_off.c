/* SPDX-License-Identifier: Apache-2.0 */
/* Waits, and time off the processor: see walk_off.h. */
#include "export/walk_off.h"

static void next_off(struct ct_walk *w) {
    w->is_off = false;
    do
        if (!ct_timeline_next(&w->ahead, &w->off))
            w->off = (struct ct_off_span){0};
    while (w->off.kind == CT_OFF_UNKNOWN && w->off.to_ns);
}

static struct ct_name *name_of(struct ct_walk *w, enum ct_off_kind kind) {
    return ct_names_other(&w->e->names, kind, ct_off_text(kind));
}

/* All at once: the numbers of names do not depend on which spans come first. */
static void make_names(struct ct_walk *w) {
    if (!name_of(w, CT_OFF_BLOCKED) || !name_of(w, CT_OFF_PREEMPTED) || !name_of(w, CT_OFF_WAITED))
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
}

/* The time of the thread's first event; 0: not known. */
static uint64_t first_event(const struct ct_walk *w) {
    struct ct_index *index = &w->e->trace->threads[w->thread].index;
    struct atf_index_event event;
    return w->off.to_ns && ct_index_read(index, index->first, &event, 1) ? event.timestamp_ns : 0;
}

int ct_walk_off_begin(struct ct_walk *w) {
    w->off = (struct ct_off_span){0};
    w->is_off = false;
    int status = w->format->off ? ct_timeline_open(&w->ahead, &w->e->facts, w->e->trace, w->thread) : 0;
    if (!status && w->format->off)
        next_off(w);
    return status;
}

int ct_walk_off_open(struct ct_walk *w) {
    int status = ct_walk_off_begin(w);
    uint64_t from_ns = w->e->options->select.from_ns, to_ns = w->e->options->select.to_ns, first_ns = first_event(w);
    if (first_ns > from_ns) /* nothing is shown before the first event */
        from_ns = first_ns;
    while (w->off.to_ns && w->off.from_ns < from_ns)
        next_off(w);
    w->off_spans = w->off.to_ns && (!to_ns || w->off.from_ns < to_ns);
    if (w->off_spans && w->format->names_off)
        make_names(w);
    return status;
}

void ct_walk_off_follow(struct ct_walk *w, const struct ct_walk *other) {
    const struct ct_off_span *to = &other->off;
    while (w->off.to_ns &&
           (!to->to_ns || w->off.from_ns < to->from_ns || (w->off.from_ns == to->from_ns && w->off.to_ns < to->to_ns)))
        next_off(w);
    w->is_off = other->is_off;
}

static void report(struct ct_walk *w, bool begin) {
    if (w->silent)
        return;
    if (w->format->names_off && !(w->off_name = name_of(w, w->off.kind)))
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    else
        w->format->off(w, &w->off, begin);
}

void ct_walk_off_report(struct ct_walk *w, uint64_t now_ns) {
    if (!w->now_ns) /* nothing is shown before the first event */
        while (w->off.to_ns && w->off.from_ns < now_ns)
            next_off(w);
    while (w->off.to_ns && (w->is_off ? w->off.to_ns : w->off.from_ns) <= now_ns) {
        uint64_t at = w->is_off ? w->off.to_ns : w->off.from_ns;
        w->now_ns = at > w->now_ns ? at : w->now_ns;
        report(w, !w->is_off);
        if (w->is_off)
            next_off(w);
        else
            w->is_off = true;
    }
}

void ct_walk_off_finish(struct ct_walk *w, uint64_t end_ns) {
    ct_walk_off_pass(w, end_ns);
    if (w->is_off) {
        w->now_ns = end_ns > w->now_ns ? end_ns : w->now_ns;
        report(w, false);
    }
    w->is_off = false;
    w->off = (struct ct_off_span){0};
}

void ct_walk_off_close(struct ct_walk *w) {
    ct_timeline_close(&w->ahead);
}
