/* SPDX-License-Identifier: Apache-2.0 */
/* Counts edges: see edges.h.
 *
 * The work is divided into parts: threads, and pieces of busy threads between places where the summary knows the open
 * calls. A call belongs to the part in which it ends. Each worker takes parts, reads them from a trace that it has
 * opened for itself, and counts into a table of its own; the tables are merged at the end. The parts, the facts and the
 * summaries of the first trace are only read meanwhile. */
#include "query/edges_internal.h"
#include "base/grow.h"
#include "trace/ahead.h"
#include "trace/reader.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PART_EVENTS (UINT64_C(1) << 20)

enum { MOST_WORKERS = 16, POLL_EVENTS = 1 << 16 };

/* ---- parts ---- */

struct work {
    struct ct_source *source;
    struct ct_edge_part *parts;
    size_t part_count, part_room;
    pthread_mutex_t lock;
    size_t next; /* part to be taken */
    int status;  /* of the first failure */
};

struct worker {
    struct work *work;
    struct ct_source *source; /* NULL: it opens one */
    struct ct_edge_table table;
    struct ct_edge_table plain; /* of a part, while it is not known whether all its events are plain */
    pthread_t thread;
};

static bool add_part(struct work *w, size_t thread, uint64_t first, uint64_t end) {
    if (!ct_grow(&w->parts, &w->part_room, w->part_count, sizeof *w->parts, 64))
        return false;
    w->parts[w->part_count++] = (struct ct_edge_part){thread, first, end};
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

static bool take_part(struct work *w, struct ct_edge_part *part) {
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

bool ct_edge_entry_only(struct ct_edge_reading *r, uint64_t function) {
    const struct ct_wanted_function *f = ct_wanted_get(&r->functions, function);
    r->failed |= !f;
    return f && f->known->entry_only;
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    (void)process;
    return ct_edge_entry_only(arg, function);
}

/* The call is of a function that the frame at this place has called. */
static uint32_t edge_from(struct ct_edge_reading *r, size_t caller, uint64_t function) {
    const struct ct_frame *frame = ct_frames_at(&r->frames, caller);
    uint32_t edge = ct_edge_table_find(r->table, r->process, frame ? frame->function : 0, function);
    r->failed |= !edge;
    return edge;
}

/* A frame's `user` is the number of its edge, so that an end needs no look-up; but for calls from before the part, and
 * those whose caller has ended before them. */
static struct ct_edge *edge_of(struct ct_edge_reading *r, const struct ct_frame *frame) {
    size_t caller = ct_frames_caller(&r->frames, frame);
    uint32_t edge = (uint32_t)(uintptr_t)frame->user;
    if (!edge || (caller == CT_NO_FRAME && r->table->edges[edge - 1].caller))
        edge = edge_from(r, caller, frame->function);
    return edge ? &r->table->edges[edge - 1] : NULL;
}

/* Is the event that is being read one of the part? */
static bool is_inside(const struct ct_edge_reading *r) {
    return r->scan.next > r->part->first && r->scan.next <= r->part->end;
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_edge_reading *r = arg;
    struct ct_edge *edge = is_inside(r) ? edge_of(r, frame) : NULL;
    if (edge)
        edge->calls++;
}

static void count_call(struct ct_edge_reading *r, const struct ct_frame *frame, uint64_t end_ns) {
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

static void begin_call(struct ct_edge_reading *r, const struct ct_trace_event *event) {
    if (ct_edge_entry_only(r, event->function_id)) {
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

static void follow_event(struct ct_edge_reading *r, const struct ct_trace_event *event) {
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

int ct_edge_pass(struct ct_source *source, uint64_t events) {
    const struct ct_source_setup *setup = &source->setup;
    source->events += events;
    return setup->poll && setup->poll(setup->poll_arg) ? CT_ERR_TIMEOUT : 0;
}

static int read_part(struct ct_edge_reading *r, struct ct_source *source) {
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
            status = ct_edge_pass(source, POLL_EVENTS);
    }
    source->events += count % POLL_EVENTS;
    uint64_t end_ns = more ? 0 : ct_scan_end(&r->scan);
    while (!more && !status && ct_frames_take(&r->frames, end_ns, &frame))
        count_call(r, &frame, end_ns);
    return r->failed ? CT_ERR_NO_MEMORY : status;
}

static bool is_needed(void *arg, const struct ct_summary *summary, size_t span) {
    const struct ct_edge_reading *r = arg;
    return ct_summary_span_end(summary, span) > r->part->first &&
           ct_summary_span(summary, span)->first_seq < r->part->end;
}

static int open_part(struct ct_edge_reading *r) {
    static const struct ct_scan_spans spans = {.needed = is_needed};
    struct ct_source *source = r->source;
    bool piece = r->part->first || r->part->end != UINT64_MAX;
    ct_wanted_begin(&r->functions, r->process);
    return ct_scan_open(&r->scan,
                        &(struct ct_scan_setup){.trace = source->trace,
                                                .facts = &source->facts,
                                                .thread = r->part->thread,
                                                .frames = &r->frames,
                                                .lost = on_lost,
                                                .entry_only = is_entry_only,
                                                .arg = r,
                                                .alone = true,
                                                .spans = piece ? &spans : NULL,
                                                .summary = piece ? ct_source_summary(source, r->part->thread) : NULL});
}

/* `plain`: only if all events are; *done: they were. */
static int count_into(struct worker *worker, struct ct_edge_table *table, const struct ct_edge_part *part, bool plain,
                      bool *done) {
    struct ct_ask ask;
    struct ct_source *source = worker->source;
    struct ct_edge_reading r = {.source = source,
                                .table = table,
                                .part = part,
                                .functions = {.source = source, .ask = &ask},
                                .process = ct_trace_thread_at(source->trace, part->thread)->process};
    ct_ask_all(&ask);
    int status = open_part(&r);
    if (!status && plain)
        status = ct_edge_count_plain(&r, done);
    else if (!status)
        status = read_part(&r, source);
    ct_scan_close(&r.scan);
    ct_frames_free(&r.frames);
    ct_wanted_free(&r.functions);
    return status;
}

/* Adds the counts of a table, and makes them zero there. */
static bool move_counts(struct ct_edge_table *to, struct ct_edge_table *from, bool add) {
    for (size_t i = 0; i < from->count; i++) {
        struct ct_edge *e = &from->edges[i];
        if (add && e->calls && !ct_edge_table_add(to, e))
            return false;
        *e = (struct ct_edge){.process = e->process, .caller = e->caller, .callee = e->callee};
    }
    return true;
}

static int count_part(struct worker *worker, const struct ct_edge_part *part) {
    bool gaps = worker->source->facts.threads[part->thread].gap_count, done = false;
    int status = gaps ? 0 : count_into(worker, &worker->plain, part, true, &done);
    if (!move_counts(&worker->table, &worker->plain, done))
        return CT_ERR_NO_MEMORY;
    return status || done ? status : count_into(worker, &worker->table, part, false, &done);
}

static void count_parts(struct worker *worker) {
    struct ct_edge_part part;
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

static int count_all(struct work *w, struct ct_edge_table *table, unsigned wanted) {
    struct worker workers[MOST_WORKERS] = {{.work = w, .source = w->source}};
    unsigned count = worker_count(w->source, wanted, w->part_count), started = 1;
    for (; started < count; started++) {
        workers[started] = (struct worker){.work = w};
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]) != 0)
            break;
    }
    count_parts(&workers[0]);
    ct_edge_table_free(&workers[0].plain);
    *table = workers[0].table;
    for (unsigned i = 1; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        for (size_t k = 0; k < workers[i].table.count; k++)
            if (!ct_edge_table_add(table, &workers[i].table.edges[k]))
                w->status = CT_ERR_NO_MEMORY;
        ct_edge_table_free(&workers[i].table);
        ct_edge_table_free(&workers[i].plain);
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
static void list_edges(struct ct_edges *out, struct ct_edge_table *table) {
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
    struct ct_edge_table table = {0};
    int status = 0;
    *out = (struct ct_edges){0};
    for (size_t i = 0; i < ct_trace_thread_count(source->trace) && !status; i++)
        if (!divide_thread(&w, i, part_events ? part_events : PART_EVENTS))
            status = CT_ERR_NO_MEMORY;
    if (!status)
        status = count_all(&w, &table, workers);
    if (status)
        ct_edge_table_free(&table);
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
