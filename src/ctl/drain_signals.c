/* Signals on their way into the index: handed over by whoever traces the process, put by the drain thread where they belong.
 *
 * A thread stands while its signal is handed over, so what it has filled until then is older than the signal's counter value, and
 * what it fills afterwards newer. A signal goes before the first newer event; or, when none has come, behind everything that there
 * was after two whole passes (one may have missed a chunk), or at the end. The queue is memory of ours: no overload of the lanes
 * touches it. */
#include "ctl/drain.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_QUEUED = 1 << 16, FIRST_ROOM = 64, PASSES = 2 };

int ct_drain_signal(struct ct_drain *d, const struct ct_signal_record *record) {
    struct ct_drain_signals *q = &d->signals;
    int status = 0;
    pthread_mutex_lock(&d->mutex);
    if (q->count == q->room) {
        size_t room = q->room ? 2 * q->room : FIRST_ROOM;
        struct ct_drain_signal *grown = room <= MAX_QUEUED ? realloc(q->list, room * sizeof *grown) : NULL;
        if (grown) {
            q->list = grown;
            q->room = room;
        } else {
            q->lost++;
            status = CT_ERR_NO_MEMORY;
        }
    }
    if (!status)
        q->list[q->count] = (struct ct_drain_signal){.record = *record};
    if (!status)
        __atomic_store_n(&q->count, q->count + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->mutex);
    return status;
}

/* The oldest signal of the thread; they are queued in order. */
static bool first_of(struct ct_drain *d, const struct ct_drain_thread *t, struct ct_signal_record *out) {
    struct ct_drain_signals *q = &d->signals;
    bool found = false;
    pthread_mutex_lock(&d->mutex);
    for (size_t i = 0; i < q->count && !found; i++) {
        found = q->list[i].record.tid == t->tid;
        if (found)
            *out = q->list[i].record;
    }
    pthread_mutex_unlock(&d->mutex);
    return found;
}

static void remove_first_of(struct ct_drain *d, const struct ct_drain_thread *t) {
    struct ct_drain_signals *q = &d->signals;
    pthread_mutex_lock(&d->mutex);
    for (size_t i = 0; i < q->count; i++)
        if (q->list[i].record.tid == t->tid) {
            memmove(q->list + i, q->list + i + 1, (q->count - i - 1) * sizeof *q->list);
            __atomic_store_n(&q->count, q->count - 1, __ATOMIC_RELEASE);
            break;
        }
    pthread_mutex_unlock(&d->mutex);
}

/* Persisted whatever else of the detail lane is. */
static void put_registers(struct ct_drain *d, const struct ct_drain_placed *p) {
    struct ct_drain_thread *t = p->thread;
    const struct ct_signal_record *record = &p->record;
    struct __attribute__((packed)) {
        struct atf_detail_signal signal;
        uint64_t registers[CT_SIGNAL_REGISTERS];
    } out = {.signal = {.event = {.total_length = sizeof out,
                                  .event_type = ATF_DETAIL_SIGNAL,
                                  .index_seq = (uint32_t)p->seq,
                                  .thread_id = (uint32_t)t->tid,
                                  .timestamp = p->ns},
                        .signal = (uint32_t)record->signal,
                        .code = (uint32_t)record->code,
                        .fault_address = record->fault_address}};
    memcpy(out.registers, record->registers, sizeof out.registers);
    int status = 0;
    if (!t->detail.writer)
        status = ct_detail_writer_open(&t->detail.writer, d->directory, t->id, (uint32_t)t->tid);
    uint32_t sequence = status ? ATF_NO_DETAIL : ct_detail_writer_add(t->detail.writer, &out.signal.event);
    if (sequence != ATF_NO_DETAIL) {
        ct_thread_writer_link(t->writer, p->seq, sequence);
        t->detail.written++;
        status = ct_detail_writer_flush(t->detail.writer);
    }
    d->error = d->error ? d->error : status;
}

void ct_drain_put_registers(struct ct_drain *d) {
    for (size_t i = 0; i < d->signals.placed_count; i++)
        if (d->signals.placed[i].thread->writer)
            put_registers(d, &d->signals.placed[i]);
    d->signals.placed_count = 0;
}

void ct_drain_free_signals(struct ct_drain *d) {
    free(d->signals.list);
    free(d->signals.placed);
    d->signals = (struct ct_drain_signals){0};
}

static void remember(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_signal_record *record) {
    struct ct_drain_signals *q = &d->signals;
    if (q->placed_count == q->placed_room) {
        size_t room = q->placed_room ? 2 * q->placed_room : FIRST_ROOM;
        struct ct_drain_placed *grown = realloc(q->placed, room * sizeof *grown);
        if (!grown)
            return;
        q->placed = grown;
        q->placed_room = room;
    }
    q->placed[q->placed_count++] =
        (struct ct_drain_placed){.record = *record, .thread = t, .seq = t->events, .ns = t->last_ns};
}

static void put(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_signal_record *record) {
    uint64_t ns = ct_clock_ns(d->clock, record->counter);
    size_t room;
    t->last_ns = ns > t->last_ns ? ns : t->last_ns;
    struct atf_index_event *out = ct_thread_writer_reserve(t->writer, &room);
    *out = (struct atf_index_event){
        .timestamp_ns = t->last_ns,
        .thread_id = (uint32_t)t->tid,
        .event_kind = ATF_EXCEPTION,
        .call_depth = (uint32_t)t->depth,
        .detail_seq = ATF_NO_DETAIL,
    };
    ct_thread_writer_commit(t->writer, 1);
    remember(d, t, record);
    t->events++;
    d->time_start = d->time_start ? d->time_start : t->last_ns;
    d->time_end = t->last_ns > d->time_end ? t->last_ns : d->time_end;
    d->found = true;
    if (record->mark[0] && d->windows)
        ct_windows_mark(d->windows, t->last_ns, record->mark, t->tid, 0);
    remove_first_of(d, t);
}

size_t ct_drain_signals_before(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *events,
                               size_t count) {
    struct ct_signal_record record;
    if (!__atomic_load_n(&d->signals.count, __ATOMIC_ACQUIRE))
        return count;
    while (first_of(d, t, &record)) {
        size_t older = 0;
        while (older < count && events[older].timestamp <= record.counter)
            older++;
        if (older)
            return older; /* after these we are asked again */
        put(d, t, &record);
    }
    return count;
}

static struct ct_drain_thread *thread_of(struct ct_drain *d, int tid) {
    struct ct_drain_thread *found = NULL;
    for (struct ct_drain_thread *t = d->threads; t; t = t->next)
        if (t->tid == tid && t->writer)
            found = t;
    return found;
}

/* The oldest that has waited long enough, or, at the end, any; 0: none. */
static int next_due(struct ct_drain *d, bool all, size_t from) {
    struct ct_drain_signals *q = &d->signals;
    int tid = 0;
    pthread_mutex_lock(&d->mutex);
    for (size_t i = from; i < q->count && !tid; i++)
        if (all || q->list[i].passes >= PASSES)
            tid = q->list[i].record.tid;
    pthread_mutex_unlock(&d->mutex);
    return tid;
}

void ct_drain_put_signals(struct ct_drain *d, bool all) {
    struct ct_signal_record record;
    size_t skipped = 0; /* of threads that have no file (yet) */
    int tid;
    if (!__atomic_load_n(&d->signals.count, __ATOMIC_ACQUIRE))
        return;
    while ((tid = next_due(d, all, skipped))) {
        struct ct_drain_thread *t = thread_of(d, tid);
        if (t && first_of(d, t, &record))
            put(d, t, &record);
        else
            skipped++;
    }
    pthread_mutex_lock(&d->mutex);
    for (size_t i = 0; i < d->signals.count; i++)
        d->signals.list[i].passes++;
    pthread_mutex_unlock(&d->mutex);
}
