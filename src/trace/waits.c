/* SPDX-License-Identifier: Apache-2.0 */
/* See waits.h. In the manifest a wait is [tid, from_ns, to_ns, reason]; tid 0 is all threads. Waits for memory are
 * many: thread_N/waits has them. */
#include "trace/waits.h"
#include "base/grow.h"
#include "trace/switches_file.h"
#include <contrail/status.h>
#include <stdlib.h>

static int by_start(const void *a, const void *b) {
    const struct ct_wait_span *x = a, *y = b;
    if (x->from_ns != y->from_ns)
        return x->from_ns < y->from_ns ? -1 : 1;
    return x->to_ns > y->to_ns ? -1 : x->to_ns < y->to_ns;
}

/* A thread that waits is stopped with the others too: what overlaps is one wait. */
static void unite(struct ct_waits *w) {
    size_t count = 0;
    if (w->count)
        qsort(w->spans, w->count, sizeof *w->spans, by_start);
    for (size_t i = 0; i < w->count; i++) {
        struct ct_wait_span *last = count ? &w->spans[count - 1] : NULL;
        if (last && w->spans[i].from_ns <= last->to_ns)
            last->to_ns = w->spans[i].to_ns > last->to_ns ? w->spans[i].to_ns : last->to_ns;
        else
            w->spans[count++] = w->spans[i];
    }
    w->count = count;
}

/* Any tid: 0. */
static int read_waits(struct ct_waits *out, const struct ct_facts *facts, size_t process, uint32_t tid) {
    const struct ct_json_node *root = ct_json_root(facts->trees[process]);
    const struct ct_json_node *list = ct_json_get(root, "waits", "list", NULL), *item = ct_json_first(list);
    *out = (struct ct_waits){.more = ct_json_u64(ct_json_get(root, "waits", "more", NULL), 0),
                             .more_ns = ct_json_u64(ct_json_get(root, "waits", "more_ns", NULL), 0)};
    if (!item)
        return 0;
    if (!(out->spans = calloc(list->count, sizeof *out->spans)))
        return CT_ERR_NO_MEMORY;
    out->room = list->count;
    for (; item; item = item->next) {
        const struct ct_json_node *who = ct_json_first(item), *from = who ? who->next : NULL;
        const struct ct_json_node *to = from ? from->next : NULL;
        uint64_t waits = ct_json_u64(who, UINT64_MAX);
        struct ct_wait_span span = {ct_json_u64(from, 0), ct_json_u64(to, 0), ct_json_text(to ? to->next : NULL, "")};
        if (span.to_ns > span.from_ns && (!tid || !waits || waits == tid))
            out->spans[out->count++] = span;
    }
    return 0;
}

/* A damaged file counts as far as it is whole; `verify` reports it. */
static int read_file(struct ct_waits *out, const char *directory, uint32_t id) {
    struct ct_switches_reader *reader;
    struct ct_switch_span span;
    int status = ct_switches_reader_open_as(&reader, directory, id, CT_WAITS_FILE);
    if (status)
        return status == CT_ERR_NO_MEMORY ? status : 0;
    while (!status && ct_switches_reader_next(reader, &span) > 0)
        if (ct_grow(&out->spans, &out->room, out->count, sizeof *out->spans, 64))
            out->spans[out->count++] = (struct ct_wait_span){span.from_ns, span.to_ns, "memory"};
        else
            status = CT_ERR_NO_MEMORY;
    ct_switches_reader_close(reader);
    return status;
}

int ct_waits_of_thread(struct ct_waits *out, const struct ct_facts *facts, const struct ct_trace *trace,
                       size_t thread) {
    const struct ct_trace_thread *t = ct_trace_thread_at(trace, thread);
    int status = read_waits(out, facts, t->process, t->tid ? t->tid : UINT32_MAX);
    if (!status)
        status = read_file(out, ct_trace_process_at(trace, t->process)->directory, t->id);
    if (status)
        ct_waits_free(out);
    else
        unite(out);
    return status;
}

int ct_waits_of_process(struct ct_waits *out, const struct ct_facts *facts, size_t process) {
    int status = read_waits(out, facts, process, 0);
    unite(out);
    return status;
}

void ct_waits_free(struct ct_waits *waits) {
    free(waits->spans);
    *waits = (struct ct_waits){0};
}

uint64_t ct_waits_in(const struct ct_waits *waits, uint64_t from_ns, uint64_t to_ns) {
    uint64_t sum = 0;
    for (size_t i = 0; i < waits->count; i++) {
        const struct ct_wait_span *s = &waits->spans[i];
        uint64_t from = s->from_ns > from_ns ? s->from_ns : from_ns, to = s->to_ns < to_ns ? s->to_ns : to_ns;
        sum += to > from ? to - from : 0;
    }
    return sum;
}
