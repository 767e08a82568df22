/* SPDX-License-Identifier: Apache-2.0 */
/* Counts edges: see edges.h.
 *
 * The work is divided into parts: threads, and pieces of busy threads between places where the summary knows the open
 * calls. A call belongs to the part in which it ends. Each worker takes parts, reads them from a trace that it has
 * opened for itself, and counts into a table of its own; the tables are merged at the end. The parts, the facts and the
 * summaries of the first trace are only read meanwhile. */
#include "query/edges.h"
#include "base/grow.h"
#include "query/wanted.h"
#include "report/scan.h"
#include "trace/ahead.h"
#include "trace/reader.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PART_EVENTS (UINT64_C(1) << 20)

enum { MOST_WORKERS = 16, FIRST_ROOM = 1024, POLL_EVENTS = 1 << 16 };

/* ---- a table of edges ---- */

struct table {
    struct ct_edge *edges;
    size_t count, room;
    uint32_t *slots;   /* number of an edge + 1; 0: empty */
    size_t slot_count; /* a power of two */
};

static size_t hash_of(const struct ct_edge *e) {
    uint64_t h = (e->caller * 0x9e3779b97f4a7c15u ^ e->callee) * 0xff51afd7ed558ccdu ^ e->process;
    return (size_t)((h ^ h >> 29) * 0xc4ceb9fe1a85ec53u >> 20);
}

static bool is_same(const struct ct_edge *a, const struct ct_edge *b) {
    return a->callee == b->callee && a->caller == b->caller && a->process == b->process;
}

static uint32_t *slot_of(const struct table *t, const struct ct_edge *key) {
    size_t at = hash_of(key) & (t->slot_count - 1);
    while (t->slots[at] && !is_same(&t->edges[t->slots[at] - 1], key))
        at = (at + 1) & (t->slot_count - 1);
    return &t->slots[at];
}

static bool grow_slots(struct table *t) {
    size_t count = t->slot_count ? 2 * t->slot_count : FIRST_ROOM;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots || count > UINT32_MAX) {
        free(slots);
        return false;
    }
    free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    for (size_t i = 0; i < t->count; i++)
        *slot_of(t, &t->edges[i]) = (uint32_t)i + 1;
    return true;
}

/* The number of the edge + 1; 0: out of memory. */
static uint32_t find_edge(struct table *t, size_t process, uint64_t caller, uint64_t callee) {
    const struct ct_edge key = {.process = process, .caller = caller, .callee = callee};
    if (2 * t->count >= t->slot_count && !grow_slots(t))
        return 0;
    uint32_t *slot = slot_of(t, &key);
    if (!*slot && ct_grow(&t->edges, &t->room, t->count, sizeof *t->edges, FIRST_ROOM)) {
        t->edges[t->count] = key;
        *slot = (uint32_t)++t->count;
    }
    return *slot;
}

/* Adds the counts of `e`. False: out of memory. */
static bool add_edge(struct table *t, const struct ct_edge *e) {
    uint32_t number = find_edge(t, e->process, e->caller, e->callee);
    if (!number)
        return false;
    struct ct_edge *to = &t->edges[number - 1];
    to->calls += e->calls;
    to->timed += e->timed;
    to->total_ns += e->total_ns;
    to->self_ns += e->self_ns;
    to->max_ns = e->max_ns > to->max_ns ? e->max_ns : to->max_ns;
    return true;
}

static void free_table(struct table *t) {
    free(t->edges);
    free(t->slots);
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

/* ---- one part ---- */

struct reading {
    struct table *table;
    const struct part *part;
    struct ct_scan scan;
    struct ct_frames frames;
    struct ct_wanted functions; /* all of them */
    size_t process;
    bool failed; /* out of memory */
};

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    struct reading *r = arg;
    const struct ct_wanted_function *f = ct_wanted_get(&r->functions, function);
    (void)process;
    r->failed |= !f;
    return f && f->known->entry_only;
}

/* The call is of a function that the frame at this place has called. */
static uint32_t edge_from(struct reading *r, size_t caller, uint64_t function) {
    const struct ct_frame *frame = ct_frames_at(&r->frames, caller);
    uint32_t edge = find_edge(r->table, r->process, frame ? frame->function : 0, function);
    r->failed |= !edge;
    return edge;
}

/* A frame's `user` is the number of its edge, so that an end needs no look-up; but for calls from before the part, and
 * those whose caller has ended before them. */
static struct ct_edge *edge_of(struct reading *r, const struct ct_frame *frame) {
    size_t caller = ct_frames_caller(&r->frames, frame);
    uint32_t edge = (uint32_t)(uintptr_t)frame->user;
    if (!edge || (caller == CT_NO_FRAME && r->table->edges[edge - 1].caller))
        edge = edge_from(r, caller, frame->function);
    return edge ? &r->table->edges[edge - 1] : NULL;
}

/* Is the event that is being read one of the part? */
static bool is_inside(const struct reading *r) {
    return r->scan.next > r->part->first && r->scan.next <= r->part->end;
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct reading *r = arg;
    struct ct_edge *edge = is_inside(r) ? edge_of(r, frame) : NULL;
    if (edge)
        edge->calls++;
}

static void count_call(struct reading *r, const struct ct_frame *frame, uint64_t end_ns) {
    struct ct_edge *edge = edge_of(r, frame);
    if (!edge)
        return;
    uint64_t duration = ct_frames_lasted(&r->frames, frame, end_ns);
    edge->calls++;
    edge->timed++;
    edge->total_ns += duration;
    edge->self_ns += frame->self_ns;
    edge->max_ns = duration > edge->max_ns ? duration : edge->max_ns;
}

static void begin_call(struct reading *r, const struct ct_trace_event *event) {
    if (is_entry_only(r, r->process, event->function_id)) {
        size_t caller = ct_frames_entry(&r->frames, event);
        uint32_t edge = is_inside(r) ? edge_from(r, caller, event->function_id) : 0;
        if (edge)
            r->table->edges[edge - 1].calls++;
        return;
    }
    struct ct_frame *frame = ct_frames_call(&r->frames, event);
    r->failed |= !frame;
    if (frame)
        frame->user = (void *)(uintptr_t)edge_from(r, ct_frames_caller(&r->frames, frame), event->function_id);
}

static void follow_event(struct reading *r, const struct ct_trace_event *event) {
    if (event->kind == CT_TRACE_CALL) {
        begin_call(r, event);
        return;
    }
    if (event->kind == CT_TRACE_EXCEPTION && !event->function_id) /* a signal */
        return;
    const struct ct_frame *frame = ct_frames_close(&r->frames, event);
    if (frame && is_inside(r))
        count_call(r, frame, event->timestamp_ns);
}

/* Time to see whether anybody still wants the answer. */
static int pass_events(struct ct_source *source, uint64_t events) {
    const struct ct_source_setup *setup = &source->setup;
    source->events += events;
    return setup->poll && setup->poll(setup->poll_arg) ? CT_ERR_TIMEOUT : 0;
}

static int read_part(struct reading *r, struct ct_source *source) {
    struct ct_trace_event event;
    struct ct_frame frame;
    uint64_t count = 0;
    int status = 0;
    bool more = true;
    while (!status && !r->failed && r->scan.next < r->part->end && (more = ct_scan_next(&r->scan, &event))) {
        if (event.sequence >= r->part->end)
            break;
        follow_event(r, &event);
        if (++count % POLL_EVENTS == 0)
            status = pass_events(source, POLL_EVENTS);
    }
    source->events += count % POLL_EVENTS;
    uint64_t end_ns = more ? 0 : ct_scan_end(&r->scan);
    while (!more && !status && ct_frames_take(&r->frames, end_ns, &frame))
        count_call(r, &frame, end_ns);
    return r->failed ? CT_ERR_NO_MEMORY : status;
}

static bool is_needed(void *arg, const struct ct_summary *summary, size_t span) {
    const struct reading *r = arg;
    return ct_summary_span_end(summary, span) > r->part->first &&
           ct_summary_span(summary, span)->first_seq < r->part->end;
}

static int count_part(struct worker *worker, const struct part *part) {
    static const struct ct_scan_spans spans = {.needed = is_needed};
    struct ct_source *source = worker->source;
    struct ct_ask ask;
    struct reading r = {.table = &worker->table,
                        .part = part,
                        .functions = {.source = source, .ask = &ask},
                        .process = ct_trace_thread_at(source->trace, part->thread)->process};
    bool piece = part->first || part->end != UINT64_MAX;
    ct_ask_all(&ask);
    ct_wanted_begin(&r.functions, r.process);
    int status = ct_scan_open(
        &r.scan, &(struct ct_scan_setup){.trace = source->trace,
                                         .facts = &source->facts,
                                         .thread = part->thread,
                                         .frames = &r.frames,
                                         .lost = on_lost,
                                         .entry_only = is_entry_only,
                                         .arg = &r,
                                         .alone = true,
                                         .spans = piece ? &spans : NULL,
                                         .summary = piece ? ct_source_summary(source, part->thread) : NULL});
    if (!status)
        status = read_part(&r, source);
    ct_scan_close(&r.scan);
    ct_frames_free(&r.frames);
    ct_wanted_free(&r.functions);
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
        for (size_t k = 0; k < workers[i].table.count; k++)
            if (!add_edge(table, &workers[i].table.edges[k]))
                w->status = CT_ERR_NO_MEMORY;
        free_table(&workers[i].table);
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

/* Edges of calls that end in another part have no counts. */
static void list_edges(struct ct_edges *out, struct table *table) {
    for (size_t i = 0; i < table->count; i++)
        if (table->edges[i].calls)
            table->edges[out->count++] = table->edges[i];
    if (out->count)
        qsort(table->edges, out->count, sizeof *table->edges, by_total);
    out->items = table->edges;
    free(table->slots);
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
        free_table(&table);
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
