/* SPDX-License-Identifier: Apache-2.0 */
/* See marks.h. */
#include "report/marks.h"
#include "report/window_reasons.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

int ct_marks_add(struct ct_marks *m, uint64_t time_ns, const char *label) {
    struct ct_mark *items = realloc(m->items, (m->count + 1) * sizeof *items);
    char *copy = strdup(label);
    m->items = items ? items : m->items;
    if (!items || !copy) {
        free(copy);
        return CT_ERR_NO_MEMORY;
    }
    items[m->count++] = (struct ct_mark){time_ns, copy};
    return 0;
}

/* All processes of a session are marked at once: a mark with a label is listed once. */
static bool is_listed(const struct ct_marks *m, size_t before, const char *label) {
    for (size_t i = 0; *label && i < before; i++)
        if (!strcmp(m->items[i].label, label))
            return true;
    return false;
}

/* The marks of a process. */
struct reading {
    struct ct_marks *marks;
    size_t before; /* marks of the processes before it */
};

static int read_reason(void *arg, const struct ct_window_reason *reason) {
    const struct reading *r = arg;
    if (strcmp(reason->trigger, "manual") != 0 || is_listed(r->marks, r->before, reason->label))
        return 0;
    return ct_marks_add(r->marks, reason->first_ns, reason->label);
}

static int by_time(const void *a, const void *b) {
    const struct ct_mark *x = a, *y = b;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

int ct_marks_read(struct ct_marks *out, const struct ct_trace *trace) {
    int status = 0;
    *out = (struct ct_marks){0};
    for (size_t i = 0; i < ct_trace_process_count(trace) && !status; i++) {
        const char *text = ct_trace_process_at(trace, i)->manifest;
        struct ct_json_tree *tree;
        size_t error_at;
        if (!text || ct_json_parse(&tree, text, strlen(text), &error_at))
            continue; /* opening the trace has reported it */
        status = ct_window_reasons(ct_json_root(tree), read_reason, &(struct reading){out, out->count});
        ct_json_tree_free(tree);
    }
    if (status)
        ct_marks_free(out);
    else if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_time);
    return status;
}

const struct ct_mark *ct_marks_next(struct ct_marks *m, uint64_t until_ns) {
    return m->next < m->count && m->items[m->next].time_ns <= until_ns ? &m->items[m->next++] : NULL;
}

void ct_marks_skip(struct ct_marks *m, uint64_t before_ns) {
    while (m->next < m->count && m->items[m->next].time_ns < before_ns)
        m->next++;
}

void ct_marks_free(struct ct_marks *m) {
    for (size_t i = 0; i < m->count; i++)
        free(m->items[i].label);
    free(m->items);
    *m = (struct ct_marks){0};
}
