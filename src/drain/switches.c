/* SPDX-License-Identifier: Apache-2.0 */
/* From records of switches to the files of threads. See switches.h.
 *
 * A thread is known by its number, from its first record on. Until the drain has a directory for it, spans wait in
 * memory; a thread that never calls a recorded function has none. */
#include "drain/switches_internal.h"
#include "base/grow.h"
#include "drain/drain.h"
#include "trace/switches_file.h"
#include <contrail/status.h>
#include <stdlib.h>

enum {
    BUCKETS = 1024,
    WAITING = 256,             /* spans of a thread without a file */
    MOST_THREADS = 16384,      /* without a file; those without records for a while are forgotten */
    WAITING_RECORDS = 1 << 20, /* of two passes */
    MANY_RECORDS = 256,        /* of a pass */
};
#define IDLE_NS  10000000000ull
#define FLUSH_NS 1000000000ull

struct thread {
    struct thread *next; /* in its bucket */
    int tid;
    struct ct_switches_writer *writer; /* NULL: no file yet */
    struct ct_switch_span *spans;      /* without a file */
    size_t count, room;
    uint64_t begins_ns; /* nothing is known of the time before */
    uint64_t last_ns;   /* of its last record; 0: none */
    uint64_t out_ns;    /* it is off the processor since then; 0: it is not */
    bool preempted;
    bool uncertain; /* records were lost since the last one */
};

struct ct_switches {
    struct ct_rings rings;
    struct thread *buckets[BUCKETS];
    size_t without_file;
    struct ct_switch *records; /* not used yet */
    size_t count, room;
    uint64_t begins_ns, before_ns; /* start; beginning of the pass before */
    uint64_t flushed_ns, limit;
    uint64_t dropped; /* for lack of memory */
    struct ct_switches_counts counts;
};

int ct_switches_open(struct ct_switches **out, int pid, uint64_t limit, char why[CT_SWITCHES_WHY]) {
    struct ct_switches *s = *out = calloc(1, sizeof *s);
    if (!s)
        return CT_ERR_NO_MEMORY;
    s->limit = limit;
    int status = ct_rings_open(&s->rings, pid, why);
    s->begins_ns = s->before_ns = ct_clock_now();
    if (status) {
        free(s);
        *out = NULL;
    }
    return status;
}

/* ---- threads ---- */

static struct thread *find_thread(struct ct_switches *s, int tid) {
    struct thread *t = s->buckets[(unsigned)tid % BUCKETS];
    while (t && t->tid != tid)
        t = t->next;
    return t;
}

/* NULL: out of memory. */
static struct thread *get_thread(struct ct_switches *s, int tid) {
    struct thread *t = find_thread(s, tid), **bucket = &s->buckets[(unsigned)tid % BUCKETS];
    if (t || !(t = calloc(1, sizeof *t)))
        return t;
    *t = (struct thread){.next = *bucket, .tid = tid, .begins_ns = s->begins_ns};
    *bucket = t;
    s->without_file++;
    return t;
}

static void free_thread(struct ct_switches *s, struct thread *t) {
    struct thread **at = &s->buckets[(unsigned)t->tid % BUCKETS];
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    s->without_file -= !t->writer;
    if (t->writer)
        (void)ct_switches_writer_close(t->writer);
    free(t->spans);
    free(t);
}

static void each_thread(struct ct_switches *s, void (*each)(struct ct_switches *s, struct thread *t, uint64_t now_ns),
                        uint64_t now_ns) {
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct thread *t = s->buckets[i], *next; t; t = next) {
            next = t->next;
            each(s, t, now_ns);
        }
}

/* A thread that does not get a file for a while loses its oldest spans. */
static void put_span(struct thread *t, uint64_t from_ns, uint64_t to_ns, enum ct_switches_kind kind) {
    const struct ct_switch_span span = {from_ns, to_ns, kind};
    if (to_ns <= from_ns)
        return;
    if (t->writer) {
        ct_switches_writer_put(t->writer, &span);
        return;
    }
    if (t->count == WAITING) {
        t->count = 0;
        t->begins_ns = from_ns;
    }
    if (ct_grow(&t->spans, &t->room, t->count, sizeof *t->spans, 16))
        t->spans[t->count++] = span;
    else
        t->uncertain = true;
}

/* A thread that was off the processor when we began has no record of that. */
static void use_record(struct ct_switches *s, const struct ct_switch *record) {
    struct thread *t = get_thread(s, record->tid);
    if (!t || record->ns <= t->last_ns)
        return;
    if (t->uncertain || (record->out && t->out_ns))
        put_span(t, t->last_ns ? t->last_ns : t->begins_ns, record->ns, CT_SWITCHES_UNKNOWN);
    else if (!record->out && (t->out_ns || !t->last_ns))
        put_span(t, t->out_ns ? t->out_ns : t->begins_ns, record->ns,
                 t->preempted ? CT_SWITCHES_PREEMPTED : CT_SWITCHES_BLOCKED);
    t->uncertain = false;
    t->last_ns = record->ns;
    t->out_ns = record->out ? record->ns : 0;
    t->preempted = record->preempted;
}

/* ---- records ---- */

static void keep_record(void *arg, const struct ct_switch *record) {
    struct ct_switches *s = arg;
    __atomic_store_n(&s->counts.switches, s->counts.switches + 1, __ATOMIC_RELAXED);
    if (s->count < WAITING_RECORDS && ct_grow(&s->records, &s->room, s->count, sizeof *s->records, 1024))
        s->records[s->count++] = *record;
    else
        s->dropped++;
}

static int by_time(const void *a, const void *b) {
    const struct ct_switch *x = a, *y = b;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static void doubt(struct ct_switches *s, struct thread *t, uint64_t now_ns) {
    (void)s;
    (void)now_ns;
    t->uncertain = true;
}

/* Which thread a lost record was of is not known. Returns how many records came. */
static size_t read_rings(struct ct_switches *s) {
    size_t before = s->count;
    uint64_t lost = ct_rings_read(&s->rings, keep_record, s) + s->dropped;
    size_t came = s->count - before;
    s->dropped = 0;
    if (came)
        qsort(s->records, s->count, sizeof *s->records, by_time);
    if (lost) {
        __atomic_store_n(&s->counts.lost, s->counts.lost + lost, __ATOMIC_RELAXED);
        each_thread(s, doubt, 0);
    }
    return came;
}

static void use_records(struct ct_switches *s, uint64_t before_ns) {
    size_t used = 0;
    for (; used < s->count && s->records[used].ns < before_ns; used++)
        use_record(s, &s->records[used]);
    for (size_t i = used; i < s->count; i++)
        s->records[i - used] = s->records[i];
    s->count -= used;
}

/* The thread has ended, and makes no more records: those that wait are used now. */
static void use_records_of(struct ct_switches *s, int tid) {
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->records[i].tid == tid)
            use_record(s, &s->records[i]);
        else
            s->records[kept++] = s->records[i];
    }
    s->count = kept;
}

static void tidy(struct ct_switches *s, struct thread *t, uint64_t now_ns) {
    if (t->writer)
        (void)ct_switches_writer_flush(t->writer);
    else if (s->without_file > MOST_THREADS && now_ns - t->last_ns > IDLE_NS)
        free_thread(s, t);
}

bool ct_switches_pass(struct ct_switches *s, uint64_t now_ns) {
    if (!s)
        return false;
    bool busy = read_rings(s) > MANY_RECORDS;
    use_records(s, s->before_ns);
    s->before_ns = now_ns;
    if (now_ns - s->flushed_ns > FLUSH_NS) {
        s->flushed_ns = now_ns;
        each_thread(s, tidy, now_ns);
    }
    return busy;
}

/* ---- for the drain ---- */

/* A pass that begins or ends thousands of threads takes so long that rings would overflow meanwhile. */
static void relieve_rings(struct ct_switches *s) {
    if (ct_rings_are_filling(&s->rings))
        (void)read_rings(s);
}

void ct_switches_begin_thread(struct ct_switches *s, struct ct_place *process, const struct ct_drain_thread *d) {
    if (s)
        relieve_rings(s);
    struct thread *t = s ? get_thread(s, d->tid) : NULL;
    if (!t || t->writer ||
        ct_switches_writer_open(&t->writer, process, d->id, (uint32_t)d->tid, t->begins_ns, s->limit))
        return;
    s->without_file--;
    for (size_t i = 0; i < t->count; i++)
        ct_switches_writer_put(t->writer, &t->spans[i]);
    free(t->spans);
    t->spans = NULL;
    t->count = t->room = 0;
}

void ct_switches_end_thread(struct ct_switches *s, const struct ct_drain_thread *d) {
    struct thread *t = s ? find_thread(s, d->tid) : NULL;
    if (!t || !t->writer)
        return;
    (void)read_rings(s);
    use_records_of(s, d->tid);
    uint64_t now = ct_clock_now();
    if (t->uncertain)
        put_span(t, t->last_ns ? t->last_ns : t->begins_ns, now, CT_SWITCHES_UNKNOWN);
    else if (t->out_ns || !t->last_ns) /* without any record it has not run since we began */
        put_span(t, t->out_ns ? t->out_ns : t->begins_ns, now,
                 t->preempted ? CT_SWITCHES_PREEMPTED : CT_SWITCHES_BLOCKED);
    free_thread(s, t);
}

struct ct_switches_counts ct_switches_counts(const struct ct_switches *s) {
    return (struct ct_switches_counts){
        .switches = __atomic_load_n(&s->counts.switches, __ATOMIC_RELAXED),
        .lost = __atomic_load_n(&s->counts.lost, __ATOMIC_RELAXED),
    };
}

static void drop_thread(struct ct_switches *s, struct thread *t, uint64_t now_ns) {
    (void)now_ns;
    free_thread(s, t);
}

void ct_switches_close(struct ct_switches *s) {
    if (!s)
        return;
    ct_rings_close(&s->rings);
    each_thread(s, drop_thread, 0);
    free(s->records);
    free(s);
}
