/* SPDX-License-Identifier: Apache-2.0 */
/* The drain thread. See drain.h. */
#include "drain/drain.h"
#include "os/thread.h"
#include "trace/pack_pool.h"
#include <contrail/status.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CALIBRATE_NS 100000000ull
#define SECOND_NS    1000000000ull
#define IDLE_PASSES  20u /* after this many the pauses get longer */
#define IDLE_FACTOR  4u
#define HIGH_PERCENT 85u
#define LOW_PERCENT  50u
#define SLOW_WRITE_S 0.02
#define LAST_PASSES  64u
#define HURRY_NS     3000000000ull

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
        if (!ct_drain_free_left(d, i, s->generation) || !ct_detail_retire(d, current ? t : NULL, i, s->generation))
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

static void take_all(struct ct_drain *d) {
    uint64_t stamp = ct_os_timestamp(), now = ct_clock_now();
    watch_level(d);
    d->found = d->cut = false;
    ct_detail_watch_marks(d);
    ct_drain_take(d);
    d->switching = ct_switches_pass(d->switches, now);
    ct_drain_put_signals(d, false);
    ct_detail_pass(d, now);
    ct_drain_put_old_registers(d);
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
    s->waited_ns += t->waits.ns;
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

static void apply_wait(struct ct_drain *d) {
    double hz = ct_clock_hz(d->clock);
    unsigned ms = __atomic_load_n(&d->wait_ms, __ATOMIC_RELAXED);
    __atomic_store_n(&d->lane->control->wait_second, (uint64_t)hz, __ATOMIC_RELAXED);
    __atomic_store_n(&d->lane->control->wait_counts, (uint64_t)(hz * ms / 1000), __ATOMIC_RELAXED);
}

static void drain_until_stopped(struct ct_drain *d) {
    unsigned idle = 0;
    uint64_t calibrated = 0, second = ct_clock_now(), now;
    unsigned pause_ms;
    do {
        now = ct_clock_now();
        if (now - calibrated > CALIBRATE_NS) {
            ct_clock_calibrate(d->clock);
            apply_wait(d);
            ct_drain_pace_measure(d);
            calibrated = now;
            publish_statistics(d);
        }
        bool busy = d->every_pass && d->every_pass(d->on_pass_arg);
        take_all(d);
        idle = d->found || busy || d->switching ? 0 : idle + 1;
        if (now - second > SECOND_NS) {
            second = now;
            ct_drain_refresh_names(d);
            ct_drain_free_quarantined(d);
            ct_lane_count_chunks(d->lane);
            d->every_second(d->every_second_arg);
        }
        pause_ms = (ct_drain_is_short(d) && d->found) || (d->detail && d->detail->more) ? 0
                   : idle > IDLE_PASSES                                                 ? d->interval_ms * IDLE_FACTOR
                                                                                        : d->interval_ms;
    } while (ct_drain_sleep(d, pause_ms));
}

static void finish_drain(struct ct_drain *d) {
    unsigned passes = 0;
    ct_clock_calibrate(d->clock);
    d->hurry_at = ct_clock_now() + HURRY_NS;
    if (d->detached)
        ct_drain_last_look(d);
    for (struct ct_drain_thread *t = d->threads; t; t = t->next)
        t->ended |= t->writer != NULL;
    do { /* threads that are new to us appear in the first pass only */
        take_all(d);
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
    int held = ct_lane_hold(d->lane);
    __atomic_store_n(&d->held, held ? held : 1, __ATOMIC_RELEASE);
    if (!held) {
        ct_pack_pool_open(d->workers ? d->workers : ct_pack_pool_spare());
        d->hands = d->hands ? d->hands : 1 + ct_pack_pool_spare();
        ct_drain_pace_begin(d);
        drain_until_stopped(d);
        finish_drain(d);
        ct_drain_crew_end(d);
        ct_drain_pace_end(d);
        ct_pack_pool_close();
        ct_lane_release(d->lane);
    }
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

void ct_drain_set_wait(struct ct_drain *d, unsigned ms) {
    __atomic_store_n(&d->wait_ms, ms, __ATOMIC_RELAXED);
}

int ct_drain_start(struct ct_drain *d) {
    const struct ct_lane *lane = d->lane;
    d->threads_end = &d->threads;
    d->least_free = lane->chunk_count;
    d->written_ns = 1; /* nothing yet */
    d->format.writing = ct_drain_writing;
    d->format.writing_arg = d;
    d->lane->control->slow_write = (uint64_t)(ct_clock_hz(d->clock) * SLOW_WRITE_S);
    apply_wait(d);
    d->by_slot = calloc(lane->thread_capacity, sizeof(struct ct_drain_thread *));
    d->quarantined = calloc(lane->chunk_count, 1);
    d->own.copy = malloc(lane->chunk_bytes);
    d->stop_fd = eventfd(0, EFD_CLOEXEC);
    ct_drain_watch_threads(d);
    pthread_mutex_init(&d->mutex, NULL);
    pthread_mutex_init(&d->places, NULL);
    if (!d->by_slot || !d->quarantined || !d->own.copy || d->stop_fd < 0 || ct_drain_take_start(d) ||
        ct_detail_start(d))
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
    __atomic_store_n(&d->stopping, 1, __ATOMIC_RELEASE);
    ct_drain_wake(d);
    pthread_join(d->thread, NULL);
    d->running = 0;
    return d->error;
}

void ct_drain_free(struct ct_drain *d) {
    if (d->threads_end) {
        close(d->stop_fd);
        pthread_mutex_destroy(&d->mutex);
        pthread_mutex_destroy(&d->places);
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
    ct_drain_take_end(d);
    free(d->by_slot);
    free(d->quarantined);
    free(d->own.copy);
    *d = (struct ct_drain){0};
}
