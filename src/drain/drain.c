/* SPDX-License-Identifier: Apache-2.0 */
/* The drain thread, and its way through the chunks. See drain.h.
 *
 * A thread's chunks are taken in the order of their numbers. If a number cannot be found, the agent has dropped that
 * chunk: a gap. A slot that is reserved but not filled yet holds up what comes after it, because a stub that a signal
 * handler interrupted may still fill it. After a while, or when memory gets short (unless threads wait then), the slot
 * is given up (abandoned), and the chunk is not used again before the slot is filled or its thread has ended. */
#include "drain/drain.h"
#include "os/thread.h"
#include <contrail/status.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HOLE_PATIENCE_NS 2000000000ull
#define CALIBRATE_NS     100000000ull
#define SECOND_NS        1000000000ull
#define IDLE_PASSES      20u /* after this many the pauses get longer */
#define IDLE_FACTOR      4u
#define HIGH_PERCENT     85u
#define LOW_PERCENT      50u
#define SLOW_WRITE_S     0.02
#define LOOKS            16u /* tries to read a header that changes meanwhile; the next pass tries again */
#define LAST_PASSES      64u
#define HURRY_NS         3000000000ull

struct found_chunk {
    uint32_t thread, generation, chunk, depth, stack;
    uint64_t number, word, exhausted;
};

/* ---- one chunk ---- */

/* UP_TO_DATE: the chunk is in use, and all filled slots are taken. */
enum outcome { DONE, UP_TO_DATE, MORE_LATER };

static bool is_filled(const struct ct_event *e) {
    return __atomic_load_n(&e->timestamp, __ATOMIC_ACQUIRE) != 0; /* stored last by the stub */
}

static bool memory_is_short(const struct ct_drain *d) {
    return d->lane->control->free_chunks < (int32_t)(d->lane->chunk_count / 4);
}

static uint32_t drained_of(const struct ct_drain *d, uint64_t word) {
    uint32_t drained = CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN ? 0 : CT_CHUNK_DRAINED(word);
    uint32_t capacity = ct_lane_capacity(d->lane);
    return drained < capacity ? drained : capacity;
}

/* According to the word, its thread is still writing to the chunk. */
static bool is_in_use(uint64_t word) {
    return CT_CHUNK_STATE(word) == CT_CHUNK_ACTIVE || CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN;
}

/* Reads the header of a chunk; returns false if the chunk has no events, and will have none. The word is read again
 * afterwards: the agent may give the chunk to another thread at any time. */
static bool look_at_chunk(const struct ct_drain *d, uint32_t chunk, struct found_chunk *out) {
    const struct ct_shm_chunk *c = &d->lane->chunks[chunk];
    struct ct_shm_chunk header;
    uint64_t word;
    unsigned looks = 0;
    do {
        if (looks++ == LOOKS)
            return false;
        word = ct_lane_word(d->lane, chunk);
        if (CT_CHUNK_STATE(word) == CT_CHUNK_FREE || d->quarantined[chunk])
            return false;
        header.number = __atomic_load_n(&c->number, __ATOMIC_ACQUIRE);
        header.generation = __atomic_load_n(&c->generation, __ATOMIC_ACQUIRE);
        header.thread = c->thread;
        header.thread_generation = c->thread_generation;
        header.depth = c->depth;
        header.stack = c->stack;
        header.exhausted = c->exhausted;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (ct_lane_word(d->lane, chunk) != word);
    if (header.generation != CT_CHUNK_GENERATION(word) || header.thread >= d->lane->thread_capacity || !header.number)
        return false;
    if (CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN && !is_filled(ct_lane_events(d->lane, chunk)))
        return false; /* the thread does not have it yet, or did not need it after all */
    *out =
        (struct found_chunk){header.thread, header.thread_generation, chunk, header.depth, header.stack, header.number,
                             word,          header.exhausted};
    return true;
}

/* The end of the filled slots that begin at `from`. */
static uint32_t filled_from(const struct ct_event *events, uint32_t from, uint32_t capacity) {
    while (from < capacity && is_filled(&events[from]))
        from++;
    return from;
}

/* Notes dropped chunks, whose numbers are missing. Called once it is certain that `f` comes next. */
static void note_losses(struct ct_drain *d, struct ct_drain_thread *t, const struct found_chunk *f) {
    uint64_t missing = f->number - t->next_number, exhausted = 0;
    if (f->exhausted > t->exhausted) {
        exhausted = f->exhausted - t->exhausted;
        t->exhausted = f->exhausted;
    }
    if (missing || exhausted) {
        uint64_t dropped = missing ? missing * ct_lane_capacity(d->lane) - t->taken : 0;
        ct_drain_note_gap(d, t, dropped + exhausted, missing ? CT_LOSS_DRAIN_LAG : CT_LOSS_POOL_EXHAUSTED, f->depth);
        ct_drain_stacks_run(t, f->stack);
    }
    if (missing)
        t->taken = 0;
    t->next_number = f->number;
}

/* Takes what the thread has written so far into the chunk that it is still using. */
static void take_live(struct ct_drain *d, struct ct_drain_thread *t, const struct found_chunk *f) {
    const struct ct_event *events = ct_lane_events(d->lane, f->chunk);
    uint32_t from = drained_of(d, f->word), to = filled_from(events, from, ct_lane_capacity(d->lane));
    if (to == from)
        return;
    memcpy(d->copy, events + from, (to - from) * sizeof *events);
    uint64_t taken = CT_CHUNK_WORD(CT_CHUNK_ACTIVE, to, CT_CHUNK_GENERATION(f->word));
    if (!ct_lane_change_word(d->lane, f->chunk, f->word, taken))
        return; /* it was submitted or dropped meanwhile */
    note_losses(d, t, f);
    ct_drain_emit(d, t, d->copy, to - from);
    t->taken = to;
}

static bool gives_up_slot(struct ct_drain *d, struct ct_drain_thread *t) {
    uint64_t now = ct_clock_now();
    if (t->ended || (memory_is_short(d) && !d->lane->lossless))
        return true;
    if (!t->hole_since)
        t->hole_since = now;
    return now - t->hole_since > HOLE_PATIENCE_NS;
}

static void set_drained(struct ct_drain *d, uint32_t chunk, uint32_t count) {
    uint64_t word = ct_lane_word(d->lane, chunk);
    (void)ct_lane_change_word(d->lane, chunk, word, CT_CHUNK_WORD(CT_CHUNK_DRAINING, count, CT_CHUNK_GENERATION(word)));
}

/* Takes the rest of a chunk that is ours (DRAINING). */
static enum outcome take_rest(struct ct_drain *d, struct ct_drain_thread *t, const struct found_chunk *f) {
    const struct ct_event *events = ct_lane_events(d->lane, f->chunk);
    uint32_t capacity = ct_lane_capacity(d->lane), end = capacity;
    uint32_t from = drained_of(d, ct_lane_word(d->lane, f->chunk));
    bool holes = false;
    while (t->ended && end > from && !is_filled(&events[end - 1]))
        end--; /* never reserved */
    while (from < end) {
        uint32_t to = filled_from(events, from, end);
        memcpy(d->copy, events + from, (to - from) * sizeof *events); /* each is read once: the target can change it */
        ct_drain_emit(d, t, d->copy, to - from);
        if (to > from)
            t->hole_since = 0;
        from = to;
        if (from == end)
            break;
        if (!gives_up_slot(d, t)) {
            set_drained(d, f->chunk, from);
            return MORE_LATER;
        }
        holes = true;
        t->abandoned++;
        from++;
    }
    t->hole_since = 0;
    if (holes && !t->ended) {
        set_drained(d, f->chunk, capacity);
        d->quarantined[f->chunk] = 1;
    } else {
        ct_lane_free_chunk(d->lane, f->chunk);
    }
    t->taken = 0;
    t->next_number++;
    return DONE;
}

/* A pass takes what is there at its start, not what comes meanwhile, and ends early if the drain is to end. */
static bool is_pass_over(struct ct_drain *d) {
    if (d->hurry_at && !d->hurried)
        d->hurried = ct_clock_now() > d->hurry_at;
    if ((!d->hurry_at && __atomic_load_n(&d->stopping, __ATOMIC_RELAXED)) || !d->chunks_left)
        d->cut = true;
    else
        d->chunks_left--;
    return d->cut;
}

/* `left`: the thread has moved on to another chunk. This one will be submitted soon, unless a handler has jumped out of
 * the swap. */
static enum outcome take_chunk(struct ct_drain *d, struct ct_drain_thread *t, const struct found_chunk *f, bool left) {
    if (is_pass_over(d))
        return MORE_LATER;
    if (f->number == 1 && !t->events && !t->depth) {
        ct_drain_inherit(d, t, f->depth);
        if (f->depth)
            ct_drain_stacks_run(t, f->stack);
    }
    if (is_in_use(f->word) && !t->ended && !left) {
        take_live(d, t, f);
        return UP_TO_DATE;
    }
    if (CT_CHUNK_STATE(f->word) != CT_CHUNK_DRAINING) {
        uint64_t ours = CT_CHUNK_WORD(CT_CHUNK_DRAINING, drained_of(d, f->word), CT_CHUNK_GENERATION(f->word));
        if (!ct_lane_change_word(d->lane, f->chunk, f->word, ours))
            return MORE_LATER;
    }
    note_losses(d, t, f);
    return take_rest(d, t, f);
}

/* ---- one thread ---- */

/* Finds the earliest of the thread's chunks before `number`. The list may lack one, since chunks are taken
 * meanwhile. */
static bool find_earlier(const struct ct_drain *d, const struct ct_drain_thread *t, uint64_t number,
                         struct found_chunk *out) {
    bool found = false;
    for (uint32_t i = 0; i < d->lane->chunk_count; i++) {
        struct found_chunk f;
        if (!look_at_chunk(d, i, &f) || f.thread != t->slot || f.generation != t->generation ||
            f.number < t->next_number || f.number >= number)
            continue;
        number = f.number;
        *out = f;
        found = true;
    }
    return found;
}

static enum outcome take_up_to(struct ct_drain *d, struct ct_drain_thread *t, const struct found_chunk *f, bool left) {
    struct found_chunk earlier;
    while (f->number > t->next_number && find_earlier(d, t, f->number, &earlier))
        if (take_chunk(d, t, &earlier, true) == MORE_LATER)
            return MORE_LATER;
    if (f->number < t->next_number)
        return DONE; /* the list was made before it was freed */
    return take_chunk(d, t, f, left);
}

static bool has_ended(const struct ct_drain *d, const struct ct_drain_thread *t) {
    const struct ct_shm_thread *s = &d->lane->threads[t->slot];
    return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == CT_THREAD_ENDED && s->generation == t->generation;
}

/* `found`: all chunks of one thread, sorted by number. */
static void take_thread(struct ct_drain *d, const struct found_chunk *found, size_t count) {
    struct ct_drain_thread *t = ct_drain_thread_of(d, found->thread, found->generation);
    if (!t || !t->writer)
        return;
    bool over = has_ended(d, t);
    t->gone |= over && !__atomic_load_n(&d->leaving, __ATOMIC_ACQUIRE);
    t->ended |= over;
    enum outcome outcome = DONE;
    for (size_t i = 0; i < count && outcome == DONE; i++)
        outcome = take_up_to(d, t, &found[i], i + 1 < count);
    if (outcome == MORE_LATER)
        t->cut_pass = d->pass + 1; /* ct_drain_put_signals ends this pass */
    __atomic_store_n(&d->lane->control->write_since, ct_os_timestamp(), __ATOMIC_RELAXED);
    int status = ct_thread_writer_flush(t->writer);
    if (t->code && !status)
        status = ct_code_writer_flush(t->code);
    __atomic_store_n(&d->lane->control->write_since, 0, __ATOMIC_RELAXED);
    d->error = d->error ? d->error : status;
}

/* ---- one pass ---- */

static int by_thread_and_number(const void *a, const void *b) {
    const struct found_chunk *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static size_t list_chunks(struct ct_drain *d, struct found_chunk *list) {
    size_t count = 0;
    for (uint32_t i = 0; i < d->lane->chunk_count; i++) {
        struct found_chunk f;
        if (!look_at_chunk(d, i, &f))
            continue;
        /* A chunk in use with nothing new is not worth sorting. */
        uint32_t drained = drained_of(d, f.word);
        const struct ct_drain_thread *t = d->by_slot[f.thread];
        if (is_in_use(f.word) && t && !t->ended &&
            (drained == ct_lane_capacity(d->lane) || !is_filled(&ct_lane_events(d->lane, i)[drained])))
            continue;
        list[count++] = f;
    }
    return count;
}

/* Frees chunks whose abandoned slots were filled after all. */
static void free_quarantined(struct ct_drain *d) {
    uint32_t capacity = ct_lane_capacity(d->lane);
    for (uint32_t i = 0; i < d->lane->chunk_count; i++)
        if (d->quarantined[i] && filled_from(ct_lane_events(d->lane, i), 0, capacity) == capacity) {
            d->quarantined[i] = 0;
            ct_lane_free_chunk(d->lane, i);
        }
}

/* Frees what an ended thread has left; returns false while it has something that will go away by itself. */
static bool free_left_chunks(struct ct_drain *d, uint32_t slot, uint32_t generation) {
    for (uint32_t i = 0; i < d->lane->chunk_count; i++) {
        const struct ct_shm_chunk *c = &d->lane->chunks[i];
        uint64_t word = ct_lane_word(d->lane, i);
        if (CT_CHUNK_STATE(word) == CT_CHUNK_FREE || c->thread != slot || c->thread_generation != generation)
            continue;
        /* The agent took it from the thread (the header is no longer valid, and the loss may be about to be counted),
         * or it is still to be drained. */
        bool taken = CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN;
        if (c->generation != CT_CHUNK_GENERATION(word) || (!taken && !d->quarantined[i]))
            return false;
        if (taken && !ct_lane_change_word(d->lane, i, word, (word & ~0xffull) | CT_CHUNK_DRAINING))
            return false;
        d->quarantined[i] = 0;
        ct_lane_free_chunk(d->lane, i);
    }
    return true;
}

/* Frees the slots of threads that have ended in the target, once their events are taken. */
static void retire_ended(struct ct_drain *d) {
    uint32_t high = d->lane->control->thread_high;
    for (uint32_t i = 0; i < high && i < d->lane->thread_capacity; i++) {
        struct ct_shm_thread *s = &d->lane->threads[i];
        uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
        if (!d->by_slot[i] && (state == CT_THREAD_ALIVE || state == CT_THREAD_ENDED) && s->lost[CT_LOSS_POOL_EXHAUSTED])
            (void)ct_drain_thread_of(d, i, s->generation); /* it never had a chunk; its losses are still reported */
        if (state != CT_THREAD_ENDED)
            continue;
        struct ct_drain_thread *t = d->by_slot[i];
        bool current = t && t->generation == s->generation;
        if (current && !t->ended) {
            t->ended = true; /* one more pass takes its last chunk */
            t->gone |= !__atomic_load_n(&d->leaving, __ATOMIC_ACQUIRE);
            continue;
        }
        if (!free_left_chunks(d, i, s->generation) || !ct_detail_retire(d, current ? t : NULL, i, s->generation))
            continue;
        if (t) { /* if of another generation, the target has freed the slot itself */
            int status = ct_drain_close_thread(d, t);
            d->error = d->error ? d->error : status;
        }
        d->by_slot[i] = NULL;
        __atomic_store_n(&s->state, CT_THREAD_FREE, __ATOMIC_RELEASE); /* acquired by take_slot in agent/agent_lane.c */
    }
}

static void watch_level(struct ct_drain *d) {
    const struct ct_shm_control *c = d->lane->control;
    uint32_t count = d->lane->chunk_count, free_now = c->free_chunks > 0 ? (uint32_t)c->free_chunks : 0;
    uint32_t used = (uint32_t)((uint64_t)(count - (free_now < count ? free_now : count)) * 100 / count);
    if (free_now < d->least_free)
        d->least_free = free_now;
    d->times_above += !d->above && used >= HIGH_PERCENT;
    d->above = used >= (d->above ? LOW_PERCENT : HIGH_PERCENT);
}

static void take_all(struct ct_drain *d, struct found_chunk *list) {
    uint64_t stamp = ct_os_timestamp(), now = ct_clock_now();
    watch_level(d);
    d->found = d->cut = false;
    d->chunks_left = 2 * d->lane->chunk_count;
    ct_detail_watch_marks(d);
    size_t count = list_chunks(d, list);
    qsort(list, count, sizeof *list, by_thread_and_number);
    for (size_t i = 0, n; i < count; i += n) {
        for (n = 1;
             i + n < count && list[i + n].thread == list[i].thread && list[i + n].generation == list[i].generation;)
            n++;
        take_thread(d, list + i, n);
    }
    d->switching = ct_switches_pass(d->switches, now);
    ct_drain_put_signals(d, false);
    ct_detail_pass(d, now);
    ct_drain_put_old_registers(d);
    ct_drain_measure(d, ct_clock_now());
    if (!d->cut)
        __atomic_store_n(&d->written_ns, now, __ATOMIC_RELEASE);
    if (d->error)
        __atomic_store_n(&d->lane->control->recording, 0, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&d->lane->control->drain_stamp, stamp, __ATOMIC_RELEASE);
    retire_ended(d);
}

/* ---- statistics ---- */

static void count_thread(struct ct_session_statistics *s, const struct ct_drain_thread *t) {
    s->events += t->events;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        s->lost[i] += t->lost[i];
    s->abandoned += t->abandoned;
    s->deep_calls += t->deep_calls;
    s->left_frames += t->left_frames;
    s->guarded_calls += t->guarded_calls;
    s->bytes_written += t->writer ? ct_thread_writer_bytes(t->writer) : t->bytes;
    s->bytes_written += t->code ? ct_code_writer_bytes(t->code) : t->code_bytes;
    s->threads_seen++;
    s->threads_alive += t->writer && !t->ended;
    s->detail_events += t->detail.written;
    s->detail_bytes += t->detail.writer ? ct_detail_writer_bytes(t->detail.writer) : t->detail.bytes;
    s->detail_lost[CT_LOSS_DRAIN_LAG] += t->detail.lost;
}

static void publish_statistics(struct ct_drain *d) {
    struct ct_session_statistics s = {0};
    const struct ct_shm_control *c = d->lane->control;
    for (struct ct_drain_thread *t = d->threads; t; t = t->next) {
        if (t->writer)
            ct_drain_refresh(d, t);
        count_thread(&s, t);
    }
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        s.lost[i] += c->lost_unseen[i];
    uint32_t bytes = d->lane->chunk_bytes;
    s.lane_bytes = (uint64_t)bytes * d->lane->chunk_count;
    s.lane_used = s.lane_bytes - (uint64_t)(c->free_chunks > 0 ? c->free_chunks : 0) * bytes;
    s.lane_above = d->above;
    s.lane_times_above = d->times_above;
    s.lane_least_free = (uint64_t)d->least_free * bytes;
    s.detail_reach_ns = d->detail ? d->detail->reach_ns : 0;
    s.detail_needed = d->detail ? ct_detail_needed(d) : 0;
    s.marks = d->windows ? d->windows->marks : 0;
    s.windows = d->windows ? d->windows->opened : 0;
    s.window_state = d->windows ? d->windows->state : CT_SESSION_WINDOW_CAPTURING;
    s.latency_p50_ns = ct_drain_latency(d, 0.5);
    s.latency_p99_ns = ct_drain_latency(d, 0.99);
    pthread_mutex_lock(&d->mutex);
    d->statistics = s;
    pthread_mutex_unlock(&d->mutex);
}

/* ---- the thread ---- */

/* Returns false if it is time to finish. */
static bool pause_for(struct ct_drain *d, unsigned ms) {
    struct pollfd p = {.fd = d->stop_fd, .events = POLLIN};
    return poll(&p, 1, (int)ms) <= 0;
}

static void drain_until_stopped(struct ct_drain *d, struct found_chunk *list) {
    unsigned idle = 0;
    uint64_t calibrated = 0, second = ct_clock_now(), now;
    unsigned pause_ms;
    do {
        now = ct_clock_now();
        if (now - calibrated > CALIBRATE_NS) {
            ct_clock_calibrate(d->clock);
            calibrated = now;
            publish_statistics(d);
        }
        bool busy = d->every_pass && d->every_pass(d->on_pass_arg);
        take_all(d, list);
        idle = d->found || busy || d->switching ? 0 : idle + 1;
        if (now - second > SECOND_NS) {
            second = now;
            ct_drain_refresh_names(d);
            free_quarantined(d);
            d->every_second(d->every_second_arg);
        }
        pause_ms = (memory_is_short(d) && d->found) || (d->detail && d->detail->more) ? 0
                   : idle > IDLE_PASSES                                               ? d->interval_ms * IDLE_FACTOR
                                                                                      : d->interval_ms;
    } while (pause_for(d, pause_ms));
}

static void finish_drain(struct ct_drain *d, struct found_chunk *list) {
    unsigned passes = 0;
    ct_clock_calibrate(d->clock);
    d->hurry_at = ct_clock_now() + HURRY_NS;
    if (d->detached)
        ct_drain_last_look(d);
    for (struct ct_drain_thread *t = d->threads; t; t = t->next)
        t->ended |= t->writer != NULL;
    do { /* threads that are new to us appear in the first pass only */
        take_all(d, list);
        for (struct ct_drain_thread *t = d->threads; t; t = t->next)
            t->ended |= t->writer != NULL;
    } while (d->found && !d->error && ++passes < LAST_PASSES);
    d->finishing = true;
    ct_drain_put_signals(d, true);
    ct_detail_finish(d);
    for (struct ct_drain_thread *t = d->threads; t; t = t->next) {
        int status = ct_drain_close_thread(d, t);
        d->error = d->error ? d->error : status;
    }
    __atomic_store_n(&d->written_ns, 0, __ATOMIC_RELEASE);
    publish_statistics(d);
}

static void *run_drain(void *arg) {
    struct ct_drain *d = arg;
    struct found_chunk *list = calloc(d->lane->chunk_count, sizeof *list);
    int held = list ? ct_lane_hold(d->lane) : CT_ERR_NO_MEMORY;
    __atomic_store_n(&d->held, held ? held : 1, __ATOMIC_RELEASE);
    if (!held) {
        drain_until_stopped(d, list);
        finish_drain(d, list);
        ct_lane_release(d->lane);
    }
    free(list);
    return NULL;
}

/* The drain thread blocks all signals: they are for the program's own threads. */
static int start_thread(struct ct_drain *d) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&d->thread, NULL, run_drain, d);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? CT_ERR_NO_THREADS : 0;
}

/* For the ticker: what was lost was an event too. */
static uint64_t count_events(void *arg) {
    struct ct_drain *d = arg;
    pthread_mutex_lock(&d->mutex);
    uint64_t count = d->statistics.events;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        count += d->statistics.lost[i];
    pthread_mutex_unlock(&d->mutex);
    return count;
}

/* Without a ticker times are exact: nothing is wrong. */
static void start_ticker(struct ct_drain *d) {
    d->ticker = (struct ct_ticker){.clock = d->lane->clock, .events = count_events, .arg = d};
    if (d->lane->fast_clock)
        (void)ct_ticker_start(&d->ticker);
}

int ct_drain_start(struct ct_drain *d) {
    const struct ct_lane *lane = d->lane;
    d->threads_end = &d->threads;
    d->least_free = lane->chunk_count;
    d->written_ns = 1; /* nothing yet */
    d->lane->control->slow_write = (uint64_t)(ct_clock_hz(d->clock) * SLOW_WRITE_S);
    d->by_slot = calloc(lane->thread_capacity, sizeof(struct ct_drain_thread *));
    d->quarantined = calloc(lane->chunk_count, 1);
    d->copy = malloc(lane->chunk_bytes);
    d->stop_fd = eventfd(0, EFD_CLOEXEC);
    ct_drain_watch_threads(d);
    pthread_mutex_init(&d->mutex, NULL);
    if (!d->by_slot || !d->quarantined || !d->copy || d->stop_fd < 0 || ct_detail_start(d))
        return CT_ERR_NO_MEMORY;
    int status = start_thread(d);
    if (status)
        return status;
    d->running = 1;
    int held;
    while (!(held = __atomic_load_n(&d->held, __ATOMIC_ACQUIRE)))
        usleep(50);
    if (held > 0)
        start_ticker(d);
    return held < 0 ? held : 0;
}

void ct_drain_set_functions(struct ct_drain *d, const uint64_t *function_ids, size_t hook_count) {
    __atomic_store_n(&d->function_ids, function_ids, __ATOMIC_RELEASE); /* it is larger: valid with the old count too */
    __atomic_store_n(&d->hook_count, hook_count, __ATOMIC_RELEASE);
}

int ct_drain_finish(struct ct_drain *d) {
    if (!d->running)
        return d->error;
    ct_ticker_stop(&d->ticker);
    uint64_t one = 1;
    __atomic_store_n(&d->stopping, 1, __ATOMIC_RELAXED);
    (void)!write(d->stop_fd, &one, sizeof one);
    pthread_join(d->thread, NULL);
    d->running = 0;
    return d->error;
}

void ct_drain_free(struct ct_drain *d) {
    if (d->threads_end) {
        close(d->stop_fd);
        pthread_mutex_destroy(&d->mutex);
    }
    ct_drain_free_signals(d);
    for (struct ct_drain_thread *t = d->threads, *next; t; t = next) {
        next = t->next;
        free(t->stack);
        free(t->gaps);
        free(t->detail.values);
        free(t->detail.runs);
        ct_detail_free_calls(&t->detail);
        free(t);
    }
    ct_detail_free(d);
    ct_switches_close(d->switches);
    free(d->by_slot);
    free(d->quarantined);
    free(d->copy);
    *d = (struct ct_drain){0};
}
