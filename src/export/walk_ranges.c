/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of a thread on all processors: see walk_ranges.h. */
#include "export/walk_ranges.h"
#include "export/walk_part.h"
#include "report/ranges.h"
#include "trace/ahead.h"
#include <errno.h>
#include <stdlib.h>

enum {
    RANGE = 1 << 16,   /* events: those of a full block */
    SETTLED = 1 << 10, /* calls are settled where a range ends that has as many events */
    EXTRA_SLOTS = 2,   /* besides one for each worker */
    /* What workers write to all the time is in different cache lines: one that two write to goes back and forth between
     * their processors. Processors fetch lines in pairs. */
    APART = 128,
};

/* What a range has written. */
struct slot {
    _Alignas(APART) struct ct_out out; /* in memory; not used by a worker that is alone: it writes to the file */
    struct ranges *ranges;
    size_t number; /* of the range */
    uint64_t events;
    bool done;
};

struct ranges {
    struct ct_walk *whole;
    struct ct_scan *scan;
    uint64_t (*read)(struct ct_walk *w, struct ct_scan *scan, uint64_t end);
    struct ct_range_source source;
    struct ct_range_piece *pieces;
    size_t count;
    bool unsettled; /* the whole walk has read events since it was settled */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t next;    /* the first range that nobody has taken */
    size_t passed;  /* the range where the whole walk is: its worker has the walk */
    size_t written; /* the first range that is not written */
    bool writing;
    struct slot *slots;
    size_t slot_count;
    bool alone; /* there is one worker */
};

/* ---- the whole walk ---- */

/* Calls are settled from the innermost on. */
static void settle(struct ranges *r) {
    struct ct_walk *w = r->whole;
    size_t count = 0;
    const struct ct_frame **frames = NULL;
    r->unsettled = false;
    if (!w->format->sharing->settle || w->e->status)
        return;
    if (w->frames.count && !(frames = malloc(w->frames.count * sizeof *frames)))
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    for (const struct ct_frame *f = NULL; frames && count < w->frames.count && (f = ct_frames_next(&w->frames, f));)
        frames[count++] = f;
    while (count--) {
        const struct ct_frame *caller = ct_frames_known(&w->frames, ct_frames_caller(&w->frames, frames[count]));
        while (caller && !caller->user)
            caller = ct_frames_known(&w->frames, ct_frames_caller(&w->frames, caller));
        if (frames[count]->user)
            w->format->sharing->settle(w, frames[count]->user, caller ? caller->user : NULL);
    }
    free(frames);
}

/* Reads a range with the whole walk. Where it is settled does not depend on who reads. */
static uint64_t read_piece(struct ranges *r, const struct ct_range_piece *piece) {
    uint64_t events = r->read(r->whole, r->scan, piece->end);
    r->unsettled = true;
    if (piece->end - piece->first >= SETTLED)
        settle(r);
    return events;
}

static void begin_piece(struct ranges *r, const struct ct_range_piece *piece) {
    if (r->unsettled && piece->end - piece->first >= SETTLED)
        settle(r);
}

/* ---- writing ---- */

static struct ct_out *out_of(struct ranges *r, struct slot *slot) {
    return r->alone ? &r->whole->e->out : &slot->out;
}

static void write_slot(struct ranges *r, struct slot *slot) {
    struct ct_export *e = r->whole->e;
    if (slot->out.used) /* a range may have nothing to show */
        ct_out_bytes(&e->out, slot->out.buffer, slot->out.used);
    if (slot->out.error)
        ct_export_fail(e, CT_ERR_NO_MEMORY);
    slot->out.used = 0;
    ct_export_advance(e, slot->events);
}

/* Writes what is done, in order, unless another worker does; with the lock held. */
static void write_done(struct ranges *r) {
    struct slot *slot;
    while (!r->writing && (slot = &r->slots[r->written % r->slot_count])->done) {
        r->writing = true;
        pthread_mutex_unlock(&r->lock);
        write_slot(r, slot);
        pthread_mutex_lock(&r->lock);
        slot->done = false;
        r->written++;
        r->writing = false;
        pthread_cond_broadcast(&r->changed);
    }
}

/* A range has written much: waits for its turn. Ranges before it need nothing that its worker has. */
static void write_early(struct ct_out *out) {
    const struct slot *slot = out->arg;
    struct ranges *r = slot->ranges;
    pthread_mutex_lock(&r->lock);
    while (r->written != slot->number || r->writing)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    ct_out_bytes(&r->whole->e->out, out->buffer, out->used);
    out->used = 0;
}

/* ---- workers ---- */

/* `part` may be NULL: the whole walk reads all. */
static void do_range(struct ranges *r, struct ct_walk_part *part, struct slot *slot) {
    const struct ct_range_piece *piece = &r->pieces[slot->number];
    struct ct_walk *w = r->whole;
    if (part && (piece->gap || piece->end - piece->first < SETTLED || !slot->number))
        part = NULL;
    if (part)
        ct_walk_part_read(part, piece->first, piece->end);
    pthread_mutex_lock(&r->lock);
    while (r->passed != slot->number)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    begin_piece(r, piece);
    if (part && !ct_walk_part_begin(part, w, r->scan))
        part = NULL;
    if (!part) {
        w->out = out_of(r, slot);
        slot->events = read_piece(r, piece);
    }
    pthread_mutex_lock(&r->lock);
    r->passed++;
    w->e->result->ranges += part != NULL;
    if (w->e->status || r->scan->past)
        r->count = r->next; /* nobody takes another one */
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (part) {
        part->walk.out = out_of(r, slot);
        ct_walk_part_run(part);
        slot->events = piece->end - piece->first;
    }
}

static void do_ranges(struct ranges *r, struct ct_walk_part *part) {
    pthread_mutex_lock(&r->lock);
    while (r->next < r->count) {
        if (r->next == r->written + r->slot_count) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        struct slot *slot = &r->slots[r->next % r->slot_count];
        slot->number = r->next++;
        pthread_mutex_unlock(&r->lock);
        do_range(r, part, slot);
        pthread_mutex_lock(&r->lock);
        slot->done = true;
        write_done(r);
    }
    pthread_mutex_unlock(&r->lock);
}

struct worker {
    _Alignas(APART) struct ranges *ranges;
    struct ct_walk_part part;
    pthread_t thread;
};

static void *run_worker(void *arg) {
    struct worker *worker = arg;
    struct ranges *r = worker->ranges;
    if (ct_walk_part_open(&worker->part, r->whole, &r->source) == 0)
        do_ranges(r, &worker->part);
    return NULL;
}

/* The caller is the first worker; it does everything if there is no other. What the others have counted is added when
 * nobody works any more. */
static void work(struct ranges *r, struct worker *workers, unsigned count) {
    unsigned started = 1;
    for (unsigned i = 0; i < count; i++)
        workers[i].ranges = r;
    while (started < count && pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]) == 0)
        started++;
    bool good = ct_walk_part_open(&workers[0].part, r->whole, &r->source) == 0;
    do_ranges(r, good && !r->whole->e->options->one_by_one ? &workers[0].part : NULL);
    for (unsigned i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    r->whole->out = &r->whole->e->out;
    for (unsigned i = 0; i < started; i++)
        ct_walk_part_close(&workers[i].part, r->whole);
}

/* ---- a thread ---- */

static void *new_apart(size_t count, size_t size) {
    void *list = aligned_alloc(APART, count * size);
    return list ? memset(list, 0, count * size) : NULL;
}

static bool open_slots(struct ranges *r, unsigned workers) {
    r->slots = new_apart(workers + EXTRA_SLOTS, sizeof *r->slots);
    while (r->slots && r->slot_count < workers + EXTRA_SLOTS) {
        struct slot *slot = &r->slots[r->slot_count++];
        slot->ranges = r;
        if (!r->alone && !ct_out_open_memory(&slot->out, write_early, slot))
            return false;
    }
    return r->slots;
}

static void close_slots(struct ranges *r) {
    for (size_t i = 0; i < r->slot_count; i++)
        ct_out_close(&r->slots[i].out);
    free(r->slots);
}

static unsigned count_workers(const struct ct_export *e) {
    unsigned workers = e->options->workers ? e->options->workers : ct_ahead_processors(e->trace);
    return workers < CT_CREW_MOST ? workers : CT_CREW_MOST;
}

void ct_walk_ranges(struct ct_walk *w, struct ct_scan *scan,
                    uint64_t (*read)(struct ct_walk *w, struct ct_scan *scan, uint64_t end)) {
    struct ct_export *e = w->e;
    uint64_t size = e->options->range_events ? e->options->range_events : RANGE, to_ns = e->options->select.to_ns;
    struct ranges r = {.whole = w,
                       .scan = scan,
                       .read = read,
                       .source = {.trace = e->trace,
                                  .facts = &e->facts,
                                  .thread = w->thread,
                                  .names = &e->lock,
                                  .to_ns = to_ns,
                                  .kept = size}};
    uint64_t end = e->trace->threads[w->thread].index.end;
    unsigned workers = count_workers(e);
    r.alone = workers == 1;
    if (!w->format->sharing || e->fits) /* parts do not know which calls fit */
        return;
    if (e->status || (!e->options->range_events && end - scan->next < 2 * size))
        return;
    if (to_ns)
        end = ct_index_search(&e->trace->threads[w->thread].index, to_ns);
    if (!ct_range_cut(&r.pieces, &r.count, &r.source, scan->next, end, size))
        return;
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    struct worker *list = new_apart(workers, sizeof *list);
    if (list && open_slots(&r, workers))
        work(&r, list, workers);
    free(list);
    close_slots(&r);
    free(r.pieces);
    pthread_cond_destroy(&r.changed);
    pthread_mutex_destroy(&r.lock);
}
