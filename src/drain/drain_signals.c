/* SPDX-License-Identifier: Apache-2.0 */
/* Signals on their way into the index: the tracer of the process hands them over, the drain thread puts them in place.
 *
 * A thread is stopped while its signal is handed over, so its events so far are older than the signal's counter value,
 * and later ones are newer. A signal goes before the first newer event. If none comes, it goes after all events that
 * two whole passes have found (one may have missed a chunk), or at the end. Its registers go into the detail file in
 * the order of events. All of this is our own memory: an overload of the lanes does not affect it.
 *
 *   handed over ─▶ waiting (a stray while its thread has no file) ─▶ placed in the index ─▶ in the detail file */
#include "drain/drain.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_QUEUED = 1 << 16, MAX_PLACED = 1 << 13, PASSES = 2 };

/* ---- lists ---- */

static void append_signal(struct ct_drain_signals *list, struct ct_drain_signal *s) {
    s->next = NULL;
    if (!list->first)
        list->end = &list->first;
    __atomic_store_n(list->end, s, __ATOMIC_RELEASE); /* a hand looks whether its thread has one */
    list->end = &s->next;
}

static struct ct_drain_signal *take_first(struct ct_drain_signals *list) {
    struct ct_drain_signal *s = list->first;
    if (s)
        list->first = s->next;
    return s;
}

static void free_list(struct ct_drain_signals *list) {
    for (struct ct_drain_signal *s; (s = take_first(list));)
        free(s);
}

int ct_drain_signal(struct ct_drain *d, const struct ct_signal_record *record) {
    struct ct_drain_signal *s = malloc(sizeof *s);
    pthread_mutex_lock(&d->mutex);
    bool taken = s && __atomic_load_n(&d->signal_count, __ATOMIC_RELAXED) < MAX_QUEUED;
    if (taken) {
        *s = (struct ct_drain_signal){.record = *record};
        append_signal(&d->signals, s);
        __atomic_fetch_add(&d->signal_count, 1, __ATOMIC_RELEASE);
    } else {
        d->signals_lost++;
    }
    pthread_mutex_unlock(&d->mutex);
    if (!taken)
        free(s);
    return taken ? 0 : CT_ERR_NO_MEMORY;
}

static struct ct_drain_thread *thread_of(struct ct_drain *d, int tid) {
    struct ct_drain_thread *found = NULL;
    for (struct ct_drain_thread *t = d->threads; t; t = t->next)
        if (t->tid == tid && t->writer)
            found = t;
    return found;
}

/* `pass`: the last one that may have begun before the signals came. */
static void hand_out_signals(struct ct_drain *d, struct ct_drain_signals *from, uint64_t pass) {
    struct ct_drain_signals strays = {0};
    for (struct ct_drain_signal *s; (s = take_first(from));) {
        struct ct_drain_thread *t = thread_of(d, s->record.tid);
        s->pass = pass;
        append_signal(t ? &t->waiting : &strays, s);
    }
    while (strays.first)
        append_signal(&d->strays, take_first(&strays));
}

/* Moves queued signals to their threads. Strays are tried again once per pass. They are counted as queued until that is
 * done: a hand that sees none in the queue sees those of its thread. */
static void take_queue(struct ct_drain *d, uint64_t pass) {
    if (!__atomic_load_n(&d->signal_count, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&d->mutex);
    struct ct_drain_signals all = d->signals;
    size_t count = d->signal_count;
    d->signals.first = NULL;
    pthread_mutex_unlock(&d->mutex);
    hand_out_signals(d, &all, pass);
    __atomic_fetch_sub(&d->signal_count, count, __ATOMIC_RELEASE);
}

/* ---- registers: persisted whether or not other detail is ---- */

static void write_registers(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_drain_signal *s) {
    const struct ct_signal_record *record = &s->record;
    size_t registers_size = record->register_count * sizeof *record->registers;
    struct __attribute__((packed)) {
        struct atf_detail_signal signal;
        uint64_t registers[CT_SIGNAL_REGISTERS];
    } out = {.signal = {.event = {.total_length = (uint32_t)(sizeof out.signal + registers_size),
                                  .event_type = ATF_DETAIL_SIGNAL,
                                  .index_seq = (uint32_t)s->seq,
                                  .thread_id = (uint32_t)t->tid,
                                  .timestamp = s->ns},
                        .signal = (uint32_t)record->signal,
                        .code = (uint32_t)record->code,
                        .fault_address = record->fault_address}};
    memcpy(out.registers, record->registers, registers_size);
    int status = 0;
    if (!t->detail.writer)
        status = ct_detail_writer_open(&t->detail.writer, d->place, t->id, (uint32_t)t->tid);
    uint32_t sequence = status ? ATF_NO_DETAIL : ct_detail_writer_add(t->detail.writer, &out.signal.event);
    if (sequence != ATF_NO_DETAIL) {
        ct_thread_writer_link(t->writer, s->seq, sequence);
        t->detail.next_seq = s->seq + 1;
        t->detail.written++;
    }
    d->error = d->error ? d->error : status;
}

void ct_drain_put_registers(struct ct_drain *d, struct ct_drain_thread *t, uint64_t before) {
    while (t->placed.first && t->placed.first->seq < before) {
        struct ct_drain_signal *s = take_first(&t->placed);
        if (t->writer)
            write_registers(d, t, s);
        d->placed_count--;
        free(s);
    }
}

/* May detail from before a signal still be taken? A window is open, or what it wants is more than a pass takes. */
static bool may_be_older_detail(const struct ct_drain *d) {
    return d->detail && (d->detail->more || d->windows->state == CT_SESSION_WINDOW_MARKED ||
                         !ct_windows_settled(d->windows, ct_clock_now()));
}

void ct_drain_put_old_registers(struct ct_drain *d) {
    if (!d->placed_count || (d->placed_count <= MAX_PLACED && may_be_older_detail(d)))
        return;
    for (struct ct_drain_thread *t = d->threads; t; t = t->next) {
        ct_drain_put_registers(d, t, UINT64_MAX);
        int status = t->detail.writer ? ct_detail_writer_flush(t->detail.writer) : 0;
        d->error = d->error ? d->error : status;
    }
}

/* ---- places ---- */

/* Places the thread's first waiting signal after its events so far. */
static void place_signal(struct ct_drain *d, struct ct_drain_thread *t) {
    struct ct_drain_signal *s = take_first(&t->waiting);
    uint64_t ns = ct_clock_ns(d->clock, s->record.counter);
    size_t room;
    t->last_ns = ns > t->last_ns ? ns : t->last_ns;
    s->seq = t->events;
    s->ns = t->last_ns;
    struct atf_index_event *out = ct_thread_writer_reserve(t->writer, &room);
    *out = (struct atf_index_event){
        .timestamp_ns = t->last_ns,
        .thread_id = (uint32_t)t->tid,
        .event_kind = ATF_EXCEPTION,
        .call_depth = (uint32_t)t->depth,
        .detail_seq = ATF_NO_DETAIL,
    };
    ct_thread_writer_commit(t->writer, 1);
    t->events++;
    d->time_start = d->time_start ? d->time_start : t->last_ns;
    d->time_end = t->last_ns > d->time_end ? t->last_ns : d->time_end;
    d->found = true;
    if (s->record.mark[0] && d->windows) {
        ct_windows_mark(d->windows, t->last_ns, s->record.mark, t->tid, 0);
        ct_detail_keep_before(t, t->detail.newest + 1);
    }
    append_signal(&t->placed, s);
    d->placed_count++;
}

/* Places what is older than the events; returns how many of these come first. */
static size_t place_before(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *events, size_t count) {
    take_queue(d, d->pass + 1); /* ct_drain_put_signals ends this pass, which has listed its chunks already */
    while (t->waiting.first) {
        uint64_t counter = t->waiting.first->record.counter;
        size_t older = 0;
        while (older < count && events[older].timestamp <= counter)
            older++;
        if (older)
            return older; /* after these the caller asks again */
        place_signal(d, t);
    }
    return count;
}

/* The events were copied before: a signal that comes from now on is newer than all of them. */
size_t ct_drain_signals_before(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *events,
                               size_t count) {
    if (!__atomic_load_n(&d->signal_count, __ATOMIC_ACQUIRE) && !__atomic_load_n(&t->waiting.first, __ATOMIC_ACQUIRE))
        return count;
    pthread_mutex_lock(&d->places);
    size_t older = place_before(d, t, events, count);
    pthread_mutex_unlock(&d->places);
    return older;
}

/* The number of passes that took everything of the thread since its first waiting signal came. */
static uint64_t whole_passes(const struct ct_drain *d, const struct ct_drain_thread *t) {
    uint64_t since = t->waiting.first->pass;
    return d->pass - (since > t->cut_pass ? since : t->cut_pass);
}

void ct_drain_put_signals(struct ct_drain *d, bool all) {
    d->pass++;
    take_queue(d, d->pass);
    if (d->strays.first) {
        struct ct_drain_signals strays = d->strays;
        d->strays.first = NULL;
        hand_out_signals(d, &strays, d->pass);
    }
    for (struct ct_drain_thread *t = d->threads; t; t = t->next)
        while (t->waiting.first && t->writer && (all || whole_passes(d, t) >= PASSES))
            place_signal(d, t);
}

static bool has_mark(const struct ct_drain_signals *list) {
    for (const struct ct_drain_signal *s = list->first; s; s = s->next)
        if (s->record.mark[0])
            return true;
    return false;
}

bool ct_drain_awaits_marks(struct ct_drain *d) {
    if (__atomic_load_n(&d->signal_count, __ATOMIC_ACQUIRE) || has_mark(&d->strays))
        return true;
    for (const struct ct_drain_thread *t = d->threads; t; t = t->next)
        if (t->writer && has_mark(&t->waiting))
            return true;
    return false;
}

void ct_drain_free_signals(struct ct_drain *d) {
    free_list(&d->signals);
    free_list(&d->strays);
    for (struct ct_drain_thread *t = d->threads; t; t = t->next) {
        free_list(&t->waiting);
        free_list(&t->placed);
    }
}
