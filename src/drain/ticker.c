/* SPDX-License-Identifier: Apache-2.0 */
/* See ticker.h. */
#include "drain/ticker.h"
#include "os/thread.h"
#include <contrail/status.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#define TICK_NS       100000l
#define LOOK_NS       50000000l /* how often the number of events is looked at */
#define BUSY_EVENTS   2000000u  /* a second; with more of them ticks are worth their cost */
#define QUIET_EVENTS  1000000u
#define SECOND_NS     1000000000l
#define NOT_TICKING   UINT64_MAX
#define QUIETER_AFTER 8 /* looks: programs pause */

/* ---- how late ---- */

static unsigned bucket_of(uint64_t counts) {
    if (counts < 4)
        return (unsigned)counts;
    unsigned power = 63 - (unsigned)__builtin_clzll(counts);
    return (power - 1) * 4 + (unsigned)(counts >> (power - 2) & 3);
}

/* The first number of counts that is in the next bucket. */
static uint64_t bucket_end(unsigned bucket) {
    return bucket < 4 ? bucket + 1 : (5ull + bucket % 4) << (bucket / 4 - 1);
}

uint64_t ct_ticker_late(const struct ct_ticker *t, double share) {
    uint64_t wanted = (uint64_t)((double)__atomic_load_n(&t->ticks, __ATOMIC_RELAXED) * share), seen = 0;
    uint64_t most = __atomic_load_n(&t->latest, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < CT_TICKER_BUCKETS && share < 1; i++)
        if ((seen += __atomic_load_n(&t->late[i], __ATOMIC_RELAXED)) > wanted)
            return bucket_end(i) < most ? bucket_end(i) : most;
    return most;
}

static void note_distance(struct ct_ticker *t, uint64_t counts) {
    uint64_t *bucket = &t->late[bucket_of(counts)];
    __atomic_store_n(bucket, *bucket + 1, __ATOMIC_RELAXED); /* nobody else writes it */
    __atomic_store_n(&t->ticks, t->ticks + 1, __ATOMIC_RELAXED);
    if (counts > t->latest)
        __atomic_store_n(&t->latest, counts, __ATOMIC_RELAXED);
}

/* ---- ticks ---- */

/* Stores a tick and returns its value. What counts is when it has arrived, so that is read after the store. */
static uint64_t tick(struct ct_ticker *t, uint64_t before, bool last) {
    uint64_t value = ct_os_timestamp();
    __atomic_store_n(&t->clock->tick, last ? NOT_TICKING : value, __ATOMIC_SEQ_CST);
    if (before != NOT_TICKING)
        note_distance(t, ct_os_timestamp() - before);
    return last ? NOT_TICKING : value;
}

/* Waits until it is time for another look, or for the end: then it returns false. */
static bool wait_for_look(struct ct_ticker *t) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_mutex_lock(&t->mutex);
    while (!t->stopping && !pthread_cond_timedwait(&t->stop, &t->mutex, &until))
        ;
    bool stopping = t->stopping;
    pthread_mutex_unlock(&t->mutex);
    return !stopping;
}

static bool is_stopping(struct ct_ticker *t) {
    pthread_mutex_lock(&t->mutex);
    bool stopping = t->stopping;
    pthread_mutex_unlock(&t->mutex);
    return stopping;
}

/* Ticks until it is time for another look. */
static bool tick_until_look(struct ct_ticker *t, uint64_t *before) {
    for (long spent = 0; spent < LOOK_NS && !is_stopping(t); spent += TICK_NS) {
        *before = tick(t, *before, false);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = TICK_NS}, NULL);
    }
    return !is_stopping(t);
}

static uint64_t events_per_second(struct ct_ticker *t, uint64_t *count, struct timespec *then) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t events = t->events(t->arg), made = events - *count;
    double seconds = (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) / 1e9;
    *count = events;
    *then = now;
    return seconds > 0 ? (uint64_t)((double)made / seconds) : 0;
}

/* A late tick is a late time. The thread hardly runs, so it takes nothing from others: it goes before all that has our
 * priority, real-time or not. */
static void ask_for_punctuality(void) {
    struct sched_param now = {0};
    int policy = SCHED_OTHER, most = sched_get_priority_max(SCHED_FIFO);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    (void)pthread_getschedparam(pthread_self(), &policy, &now);
    bool real_time = policy == SCHED_FIFO || policy == SCHED_RR;
    now.sched_priority = real_time && now.sched_priority < most ? now.sched_priority + 1 : real_time ? most : 1;
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &now); /* often not allowed */
}

/* Begins with ticks: short programs are over before it is known how busy they are. */
static void *run_ticker(void *arg) {
    struct ct_ticker *t = arg;
    struct timespec then;
    uint64_t before = NOT_TICKING, count = 0;
    unsigned quiet = 0;
    ask_for_punctuality();
    clock_gettime(CLOCK_MONOTONIC, &then);
    while (quiet < QUIETER_AFTER ? tick_until_look(t, &before) : wait_for_look(t)) {
        uint64_t rate = events_per_second(t, &count, &then);
        quiet = rate >= BUSY_EVENTS ? 0 : rate < QUIET_EVENTS && quiet < QUIETER_AFTER ? quiet + 1 : quiet;
        if (quiet == QUIETER_AFTER && before != NOT_TICKING)
            before = tick(t, before, true);
    }
    (void)tick(t, before, true);
    return NULL;
}

/* ---- start and end ---- */

int ct_ticker_start(struct ct_ticker *t) {
    pthread_condattr_t monotonic;
    sigset_t all, old;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the program's own threads */
    t->running = !pthread_create(&t->thread, NULL, run_ticker, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return t->running ? 0 : CT_ERR_NO_THREADS;
}

void ct_ticker_stop(struct ct_ticker *t) {
    if (!t->running)
        return;
    pthread_mutex_lock(&t->mutex);
    t->stopping = true;
    pthread_cond_signal(&t->stop);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->stop);
    pthread_mutex_destroy(&t->mutex);
    t->running = false;
}
