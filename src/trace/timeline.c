/* SPDX-License-Identifier: Apache-2.0 */
/* See timeline.h. Merges two lists of spans; where both have one, the wait for the recorder counts. */
#include "trace/timeline.h"
#include "trace/reader.h"
#include <contrail/status.h>
#include <stdio.h>

static const enum ct_off_kind kinds[] = {
    [CT_SWITCHES_BLOCKED] = CT_OFF_BLOCKED,
    [CT_SWITCHES_PREEMPTED] = CT_OFF_PREEMPTED,
    [CT_SWITCHES_UNKNOWN] = CT_OFF_UNKNOWN,
};

const char *ct_off_text(enum ct_off_kind kind) {
    static const char *const texts[] = {[CT_OFF_BLOCKED] = "blocked",
                                        [CT_OFF_PREEMPTED] = "preempted",
                                        [CT_OFF_UNKNOWN] = "unknown",
                                        [CT_OFF_WAITED] = "waited for the recorder"};
    return texts[kind];
}

int ct_timeline_open(struct ct_timeline *t, const struct ct_facts *facts, const struct ct_trace *trace, size_t thread) {
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    *t = (struct ct_timeline){0};
    int status = ct_waits_of_thread(&t->waits, facts, trace, thread);
    if (status)
        return status;
    status = ct_switches_reader_open(&t->switches, ct_trace_process_at(trace, info->process)->directory, info->id);
    if (status == CT_ERR_NO_MEMORY) {
        ct_timeline_close(t);
        return status;
    }
    t->over = !t->switches; /* a damaged file counts as a missing one; `verify` reports it */
    if (t->switches && ct_switches_reader_begins(t->switches))
        t->ahead = (struct ct_off_span){0, ct_switches_reader_begins(t->switches), CT_OFF_UNKNOWN, ""};
    t->known_ns = t->ahead.to_ns;
    return 0;
}

void ct_timeline_close(struct ct_timeline *t) {
    ct_waits_free(&t->waits);
    ct_switches_reader_close(t->switches);
    *t = (struct ct_timeline){0};
}

bool ct_timeline_has_cpu(const struct ct_timeline *t) {
    return t->switches;
}

bool ct_timeline_is_recorded(const struct ct_trace *trace) {
    bool any = false;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        const struct ct_trace_thread *info = ct_trace_thread_at(trace, i);
        char name[64];
        snprintf(name, sizeof name, "thread_%u/" CT_SWITCHES_FILE, info->id);
        if (info->event_count && !ct_find_exists(ct_trace_process_at(trace, info->process)->directory, name))
            return false;
        any |= info->event_count != 0;
    }
    return any;
}

/* ---- merging ---- */

static bool look_ahead(struct ct_timeline *t) {
    struct ct_switch_span span;
    if (t->ahead.to_ns)
        return true;
    if (t->over)
        return false;
    if (ct_switches_reader_next(t->switches, &span) > 0) {
        t->ahead = (struct ct_off_span){span.from_ns, span.to_ns, kinds[span.kind], ""};
        t->known_ns = span.to_ns;
        return true;
    }
    t->over = true;
    if (ct_switches_reader_finished(t->switches))
        return false;
    t->ahead = (struct ct_off_span){t->known_ns, UINT64_MAX, CT_OFF_UNKNOWN, ""}; /* the recorder was killed */
    return true;
}

/* Takes the part of `ahead` before a time. */
static void cut_ahead(struct ct_timeline *t, uint64_t until_ns) {
    if (t->ahead.to_ns <= until_ns)
        t->ahead = (struct ct_off_span){0};
    else if (t->ahead.from_ns < until_ns)
        t->ahead.from_ns = until_ns;
}

bool ct_timeline_next(struct ct_timeline *t, struct ct_off_span *span) {
    const struct ct_wait_span *wait = t->wait < t->waits.count ? &t->waits.spans[t->wait] : NULL;
    bool off = look_ahead(t);
    if (wait && (!off || wait->from_ns <= t->ahead.from_ns)) {
        *span = (struct ct_off_span){wait->from_ns, wait->to_ns, CT_OFF_WAITED, wait->reason};
        t->wait++;
        while (look_ahead(t) && t->ahead.from_ns < wait->to_ns)
            cut_ahead(t, wait->to_ns);
        return true;
    }
    if (!off)
        return false;
    *span = t->ahead;
    if (wait && wait->from_ns < span->to_ns)
        span->to_ns = wait->from_ns;
    cut_ahead(t, span->to_ns);
    return true;
}

uint64_t ct_timeline_pass_spans(struct ct_timeline *t, uint64_t to_ns, struct ct_off *off) {
    uint64_t waited = 0;
    t->quiet_ns = 0;
    while (t->passed_ns < to_ns) {
        struct ct_off_span *s = &t->next;
        if (!s->to_ns && !ct_timeline_next(t, s)) {
            t->quiet_ns = UINT64_MAX;
            break;
        }
        uint64_t from = s->from_ns > t->passed_ns ? s->from_ns : t->passed_ns;
        uint64_t to = s->to_ns < to_ns ? s->to_ns : to_ns;
        if (to > from && s->kind == CT_OFF_WAITED)
            waited += to - from;
        else if (to > from)
            off->ns[s->kind] += to - from;
        if (s->to_ns > to_ns) {
            t->quiet_ns = s->from_ns;
            break;
        }
        *s = (struct ct_off_span){0};
    }
    t->passed_ns = to_ns > t->passed_ns ? to_ns : t->passed_ns;
    return waited;
}
