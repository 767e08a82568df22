/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a trace: see moments.h. */
#include "report/moments.h"
#include "base/grow.h"
#include "report/crash.h"
#include "report/window_reasons.h"
#include "trace/reader.h"
#include <stdlib.h>
#include <string.h>

static uint64_t read_number(const struct ct_json_node *node, const char *key) {
    return ct_json_u64(ct_json_get(node, key, NULL), 0);
}

/* ---- crashes ---- */

static size_t find_thread(const struct ct_trace *trace, size_t process, uint64_t tid) {
    for (size_t i = ct_trace_thread_count(trace); i-- > 0;) /* numbers are used again: the last thread that had it */
        if (ct_trace_thread_at(trace, i)->process == process && ct_trace_thread_at(trace, i)->tid == tid)
            return i;
    return SIZE_MAX;
}

/* The signal that the manifest lists as fatal, with its time. */
static bool read_listed(const struct ct_trace *trace, size_t process, const struct ct_json_node *root,
                        struct ct_moment *out) {
    bool found = false;
    for (const struct ct_json_node *node = ct_json_first(ct_json_get(root, "signals", NULL)); node; node = node->next) {
        uint64_t time_ns = read_number(node, "time_ns");
        if (!ct_json_flag(ct_json_get(node, "fatal", NULL), false) || !time_ns)
            continue;
        *out = (struct ct_moment){time_ns, find_thread(trace, process, read_number(node, "tid"))};
        found = true;
    }
    return found;
}

/* The last signal of the index; without one, the end of the process. */
static int read_recorded(struct ct_moment *out, struct ct_trace *trace, const struct ct_facts *facts, size_t process) {
    struct ct_crash *crash = NULL;
    int status = ct_crash_make(&crash, trace, facts, process);
    *out = (struct ct_moment){ct_trace_process_at(trace, process)->time_end_ns, SIZE_MAX};
    if (!status && crash->signal_count) {
        const struct ct_crash_signal *last = &crash->signals[crash->signal_count - 1];
        *out = (struct ct_moment){last->time_ns, last->calls.thread};
    }
    ct_crash_free(crash);
    return status;
}

int ct_moment_crash(struct ct_moment *out, struct ct_trace *trace, const struct ct_facts *facts,
                    const struct ct_select *select) {
    struct ct_moment moment;
    int status = 0;
    *out = (struct ct_moment){0, SIZE_MAX};
    for (size_t i = 0; i < facts->process_count && !status; i++) {
        const struct ct_json_node *root = ct_json_root(facts->trees[i]);
        const char *reason = ct_json_text(ct_json_get(root, "end", "reason", NULL), "");
        if (!ct_select_process(select, trace, i) || strcmp(reason, "signal") != 0)
            continue;
        if (!read_listed(trace, i, root, &moment))
            status = read_recorded(&moment, trace, facts, i);
        if (!status && moment.time_ns >= out->time_ns)
            *out = moment;
    }
    return status ? status : out->time_ns ? 0 : CT_ERR_NOT_FOUND;
}

/* ---- marks ---- */

struct marks {
    const struct ct_trace *trace;
    size_t process; /* that is being read */
    struct ct_moment *at;
    size_t count, capacity;
};

static int compare_moments(const void *a, const void *b) {
    const struct ct_moment *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->thread > y->thread) - (x->thread < y->thread);
}

static bool add_mark(struct marks *m, uint64_t time_ns, size_t thread) {
    if (!time_ns)
        return true;
    if (!ct_grow(&m->at, &m->capacity, m->count, sizeof *m->at, 16))
        return false;
    m->at[m->count++] = (struct ct_moment){time_ns, thread};
    return true;
}

static int add_reason(void *arg, const struct ct_window_reason *reason) {
    struct marks *m = arg;
    if (strcmp(reason->trigger, "always") != 0 &&
        !add_mark(m, reason->first_ns, find_thread(m->trace, m->process, reason->tid)))
        return CT_ERR_NO_MEMORY;
    return add_mark(m, reason->last_mark_ns, SIZE_MAX) ? 0 : CT_ERR_NO_MEMORY;
}

/* One moment is one mark. */
static void unite_marks(struct marks *m) {
    size_t kept = 0;
    if (m->count)
        qsort(m->at, m->count, sizeof *m->at, compare_moments);
    for (size_t i = 0; i < m->count; i++)
        if (!kept || m->at[kept - 1].time_ns != m->at[i].time_ns)
            m->at[kept++] = m->at[i];
    m->count = kept;
}

int ct_moment_mark(struct ct_moment *out, const struct ct_trace *trace, const struct ct_facts *facts,
                   const struct ct_select *select, uint64_t number, size_t *count) {
    struct marks marks = {.trace = trace};
    int status = 0;
    for (; marks.process < facts->process_count && !status; marks.process++)
        if (ct_select_process(select, trace, marks.process))
            status = ct_window_reasons(ct_json_root(facts->trees[marks.process]), add_reason, &marks);
    unite_marks(&marks);
    *count = marks.count;
    if (!status && number >= 1 && number <= marks.count)
        *out = marks.at[number - 1];
    else if (!status)
        status = CT_ERR_NOT_FOUND;
    free(marks.at);
    return status;
}

/* ---- before a moment ---- */

uint64_t ct_moment_before(struct ct_trace *trace, const struct ct_select *select, size_t thread, uint64_t time_ns,
                          uint64_t events) {
    uint64_t from_ns = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        struct ct_index *index = &trace->threads[i].index;
        struct atf_index_event event;
        if ((thread != SIZE_MAX && thread != i) || !ct_select_thread(select, trace, i))
            continue;
        uint64_t place = time_ns == UINT64_MAX ? index->end : ct_index_search(index, time_ns);
        if (place < index->first || place - index->first < events)
            continue;
        if (ct_index_read(index, place - events, &event, 1) && event.timestamp_ns > from_ns)
            from_ns = event.timestamp_ns;
    }
    return from_ns;
}
