/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for the recorder and time off the processor, as lines of a replay.
 *
 * The spans of each thread come in order. A heap finds the thread whose next span begins first, so that lines of all
 * threads are in the order of time. */
#include "report/replay_internal.h"
#include <stdlib.h>

int ct_replay_open_times(struct ct_replay_source *s) {
    struct ct_replay_run *r = s->replay;
    int status = ct_timeline_open(&s->passed, &r->facts, r->trace, s->thread);
    if (!status)
        status = ct_timeline_open(&s->ahead, &r->facts, r->trace, s->thread);
    if (status)
        return status;
    s->frames.timeline = &s->passed;
    if (!ct_timeline_next(&s->ahead, &s->span))
        s->span = (struct ct_off_span){0};
    return 0;
}

void ct_replay_close_times(struct ct_replay_source *s) {
    ct_timeline_close(&s->passed);
    ct_timeline_close(&s->ahead);
}

/* ---- the heap ---- */

static void sift_down(struct ct_replay_run *r, size_t at) {
    for (;;) {
        size_t least = at, left = 2 * at + 1;
        for (size_t i = left; i < left + 2 && i < r->soonest_count; i++)
            if (r->soonest[i]->span.from_ns < r->soonest[least]->span.from_ns)
                least = i;
        if (least == at)
            return;
        struct ct_replay_source *moved = r->soonest[at];
        r->soonest[at] = r->soonest[least];
        r->soonest[least] = moved;
        at = least;
    }
}

int ct_replay_start_times(struct ct_replay_run *r) {
    r->soonest = calloc(r->source_count + 1, sizeof(struct ct_replay_source *));
    if (!r->soonest)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < r->source_count; i++)
        if (r->sources[i] && r->sources[i]->span.to_ns)
            r->soonest[r->soonest_count++] = r->sources[i];
    for (size_t i = r->soonest_count / 2; i-- > 0;)
        sift_down(r, i);
    return 0;
}

/* ---- lines ---- */

/* Only inside a call that is shown, or outside of all calls when all are shown. */
static bool is_shown(struct ct_replay_source *s) {
    const struct ct_replay_options *options = s->replay->options;
    const struct ct_replay_call *top = ct_replay_top(s);
    if (!s->last_ns || s->span.from_ns < options->select.from_ns || s->span.kind == CT_OFF_UNKNOWN ||
        s->span.to_ns - s->span.from_ns < options->min_ns)
        return false;
    return top ? !top->hidden
               : !options->select.functions && !options->select.modules && !options->select.where && !options->one;
}

static void show_span(struct ct_replay_source *s) {
    static const enum ct_replay_kind kinds[] = {
        [CT_OFF_WAITED] = CT_REPLAY_WAITED,
        [CT_OFF_BLOCKED] = CT_REPLAY_BLOCKED,
        [CT_OFF_PREEMPTED] = CT_REPLAY_PREEMPTED,
    };
    struct ct_replay_call *call = ct_replay_new(&s->replay->lines);
    if (!call)
        return;
    ct_replay_fill(s, call, kinds[s->span.kind], NULL);
    call->line.time_ns = s->span.from_ns;
    call->line.duration_ns = s->span.to_ns - s->span.from_ns;
    call->line.reason = s->span.reason;
    call->line.detail = CT_TRACE_NO_DETAIL;
    ct_replay_put(s, call);
}

void ct_replay_times(struct ct_replay_run *r, uint64_t now_ns) {
    while (r->soonest_count && r->soonest[0]->span.from_ns < now_ns && !r->lines.stopped) {
        struct ct_replay_source *s = r->soonest[0];
        if (is_shown(s))
            show_span(s);
        if (!ct_timeline_next(&s->ahead, &s->span))
            r->soonest[0] = r->soonest[--r->soonest_count];
        sift_down(r, 0);
    }
}
