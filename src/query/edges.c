/* SPDX-License-Identifier: Apache-2.0 */
/* Counts edges: see edges.h.
 *
 * The work is divided into parts: threads, and pieces of busy threads between places where the summary knows the open
 * calls. A call belongs to the part in which it ends. Each worker takes parts, reads them from a trace that it has
 * opened for itself, and counts into a table of its own; the tables are merged at the end. The parts, the facts and the
 * summaries of the first trace are only read meanwhile. */
#include "query/edges.h"
#include "base/grow.h"
#include "query/calls.h"
#include "trace/ahead.h"
#include "trace/reader.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PART_EVENTS (UINT64_C(1) << 20)

enum { MOST_WORKERS = 16, FIRST_ROOM = 1024 };

/* ---- a table of edges ---- */

struct table {
    struct ct_edge *slots; /* calls 0: empty */
    size_t count, room;    /* room: a power of two */
};

static size_t hash_of(const struct ct_edge *e) {
    uint64_t h = (e->caller * 0x9e3779b97f4a7c15u ^ e->callee) * 0xff51afd7ed558ccdu ^ e->process;
    return (size_t)((h ^ h >> 29) * 0xc4ceb9fe1a85ec53u >> 20);
}

static bool is_same(const struct ct_edge *a, const struct ct_edge *b) {
    return a->process == b->process && a->caller == b->caller && a->callee == b->callee;
}

static struct ct_edge *slot_of(struct table *t, const struct ct_edge *key) {
    size_t at = hash_of(key) & (t->room - 1);
    while (t->slots[at].calls && !is_same(&t->slots[at], key))
        at = (at + 1) & (t->room - 1);
    return &t->slots[at];
}

static bool grow_table(struct table *t) {
    struct table grown = {.count = t->count, .room = t->room ? 2 * t->room : FIRST_ROOM};
    grown.slots = calloc(grown.room, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->slots[i].calls)
            *slot_of(&grown, &t->slots[i]) = t->slots[i];
    free(t->slots);
    *t = grown;
    return true;
}

/* Adds the counts of `e`. False: out of memory. */
static bool add_edge(struct table *t, const struct ct_edge *e) {
    if (2 * t->count >= t->room && !grow_table(t))
        return false;
    struct ct_edge *slot = slot_of(t, e);
    if (!slot->calls) {
        slot->process = e->process;
        slot->caller = e->caller;
        slot->callee = e->callee;
        t->count++;
    }
    slot->calls += e->calls;
    slot->timed += e->timed;
    slot->total_ns += e->total_ns;
    slot->self_ns += e->self_ns;
    slot->max_ns = e->max_ns > slot->max_ns ? e->max_ns : slot->max_ns;
    return true;
}

/* ---- parts ---- */

struct part {
    size_t thread;
    uint64_t first, end; /* positions of ends of calls */
};

struct work {
    struct ct_source *source;
    struct part *parts;
    size_t part_count, part_room;
    pthread_mutex_t lock;
    size_t next; /* part to be taken */
    int status;  /* of the first failure */
};

struct worker {
    struct work *work;
    struct ct_source *source; /* NULL: it opens one */
    struct table table;
    pthread_t thread;
};

static bool add_part(struct work *w, size_t thread, uint64_t first, uint64_t end) {
    if (!ct_grow(&w->parts, &w->part_room, w->part_count, sizeof *w->parts, 64))
        return false;
    w->parts[w->part_count++] = (struct part){thread, first, end};
    return true;
}

/* Divides a thread where its summary has starts. */
static bool divide_thread(struct work *w, size_t thread, uint64_t part_events) {
    uint64_t begin = 0, last = ct_trace_thread_at(w->source->trace, thread)->first_sequence;
    bool large = ct_trace_thread_at(w->source->trace, thread)->event_count >= 2 * part_events;
    const struct ct_summary *summary = large ? ct_source_summary(w->source, thread) : NULL;
    size_t spans = summary && ct_summary_is_ordered(summary) ? ct_summary_span_count(summary) : 0;
    for (size_t i = 1, start = 0; i < spans; i++) {
        size_t here = ct_summary_start_before(summary, i);
        uint64_t first = ct_summary_span(summary, i)->first_seq;
        if (here == start || ct_summary_start(summary, here)->span != i || first - last < part_events)
            continue;
        if (!add_part(w, thread, begin, first))
            return false;
        start = here;
        begin = last = first;
    }
    return add_part(w, thread, begin, UINT64_MAX);
}

/* ---- workers ---- */

static bool take_part(struct work *w, struct part *part) {
    pthread_mutex_lock(&w->lock);
    bool more = !w->status && w->next < w->part_count;
    if (more)
        *part = w->parts[w->next++];
    pthread_mutex_unlock(&w->lock);
    return more;
}

static void fail(struct work *w, int status) {
    pthread_mutex_lock(&w->lock);
    w->status = w->status ? w->status : status;
    pthread_mutex_unlock(&w->lock);
}

static struct ct_edge edge_of(const struct ct_call_reader *r) {
    const struct ct_call *call = &r->call;
    bool timed = call->end != CT_CALL_LOST && call->end != CT_CALL_ENTRY;
    return (struct ct_edge){.process = r->process,
                            .caller = call->parent_function,
                            .callee = call->function,
                            .calls = 1,
                            .timed = timed,
                            .total_ns = timed ? call->duration_ns : 0,
                            .self_ns = timed ? call->self_ns : 0,
                            .max_ns = timed ? call->duration_ns : 0};
}

static int count_part(struct worker *worker, const struct part *part) {
    struct ct_call_reader *reader = calloc(1, sizeof *reader);
    struct ct_ask ask;
    if (!reader)
        return CT_ERR_NO_MEMORY;
    ct_ask_all(&ask);
    ask.ranges[CT_ASK_THREAD] = (struct ct_ask_range){(int64_t)part->thread + 1, (int64_t)part->thread + 1};
    int status = ct_call_reader_open(reader, worker->source, &ask);
    reader->part_first = part->first;
    reader->part_end = part->end;
    while (!status && (status = ct_call_reader_next(reader)) > 0) {
        const struct ct_edge edge = edge_of(reader);
        status = add_edge(&worker->table, &edge) ? 0 : CT_ERR_NO_MEMORY;
    }
    ct_call_reader_close(reader);
    free(reader);
    return status;
}

static void count_parts(struct worker *worker) {
    struct part part;
    int status = 0;
    while (!status && take_part(worker->work, &part))
        status = count_part(worker, &part);
    if (status)
        fail(worker->work, status);
}

/* A worker with a trace of its own. */
static void *run_worker(void *arg) {
    struct worker *worker = arg;
    struct ct_source *first = worker->work->source;
    struct ct_trace *trace;
    if (ct_trace_open(&trace, ct_trace_path(first->trace), NULL, 0) != 0)
        return NULL; /* the others do its work */
    trace->summary = first->trace->summary;
    trace->jobs = 1;
    if (ct_trace_thread_count(trace) == ct_trace_thread_count(first->trace) &&
        ct_source_open(&worker->source, &(struct ct_source_setup){.trace = trace}) == 0) {
        count_parts(worker);
        ct_source_close(worker->source);
    }
    __atomic_fetch_add(&first->trace->cache.unpacked, trace->cache.unpacked, __ATOMIC_RELAXED);
    ct_trace_close(trace);
    return NULL;
}

/* ---- all ---- */

/* A trace that is being written has other threads in a moment: then one worker reads what was opened. */
static unsigned worker_count(const struct ct_source *s, unsigned wanted, size_t parts) {
    unsigned workers = wanted ? wanted : ct_ahead_processors(s->trace);
    for (size_t i = 0; i < ct_trace_process_count(s->trace); i++)
        workers = ct_trace_process_at(s->trace, i)->complete ? workers : 1;
    workers = workers > MOST_WORKERS ? MOST_WORKERS : workers;
    return workers > parts ? (unsigned)parts : workers;
}

static int count_all(struct work *w, struct table *table, unsigned wanted) {
    struct worker workers[MOST_WORKERS] = {{.work = w, .source = w->source}};
    unsigned count = worker_count(w->source, wanted, w->part_count), started = 1;
    for (; started < count; started++) {
        workers[started] = (struct worker){.work = w};
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]) != 0)
            break;
    }
    count_parts(&workers[0]);
    *table = workers[0].table;
    for (unsigned i = 1; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        for (size_t k = 0; k < workers[i].table.room; k++)
            if (workers[i].table.slots[k].calls && !add_edge(table, &workers[i].table.slots[k]))
                w->status = CT_ERR_NO_MEMORY;
        free(workers[i].table.slots);
    }
    return w->status;
}

static int by_total(const void *a, const void *b) {
    const struct ct_edge *x = a, *y = b;
#define BY(member, sign)                                                                                               \
    if (x->member != y->member)                                                                                        \
        return x->member < y->member ? -(sign) : (sign);
    BY(total_ns, -1)
    BY(calls, -1)
    BY(process, 1)
    BY(caller, 1)
    BY(callee, 1)
#undef BY
    return 0;
}

static void list_edges(struct ct_edges *out, struct table *table) {
    for (size_t i = 0; i < table->room; i++)
        if (table->slots[i].calls)
            table->slots[out->count++] = table->slots[i];
    if (out->count)
        qsort(table->slots, out->count, sizeof *table->slots, by_total);
    out->items = table->slots;
}

int ct_edges_make(struct ct_edges *out, struct ct_source *source, unsigned workers, uint64_t part_events) {
    struct work w = {.source = source, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct table table = {0};
    int status = 0;
    *out = (struct ct_edges){0};
    for (size_t i = 0; i < ct_trace_thread_count(source->trace) && !status; i++)
        if (!divide_thread(&w, i, part_events ? part_events : PART_EVENTS))
            status = CT_ERR_NO_MEMORY;
    if (!status)
        status = count_all(&w, &table, workers);
    if (status)
        free(table.slots);
    else
        list_edges(out, &table);
    out->parts = w.part_count;
    free(w.parts);
    return status;
}

void ct_edges_free(struct ct_edges *edges) {
    free(edges->items);
    *edges = (struct ct_edges){0};
}
