/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads take the events of a pass, each those of other threads of the target. See drain.h.
 *
 * The drain thread lists and claims chunks, and makes threads, alone. Then it and its helpers take the threads' shares,
 * each with a hand of its own; a thread of the target belongs to one hand until all are done. What comes after that in
 * a pass (signals, detail, windows, threads that have ended) is the drain thread's alone again. So a file has one owner
 * at a time, and helpers know nothing of passes. They are started when there is work for them, where processors are
 * free as for trace/pack_pool.h. Lock: `lock`, for all but the hands. */
#include "drain/drain.h"
#include <stdlib.h>

#define MOST_HELPERS 7u

struct helper {
    struct ct_drain_crew *crew;
    pthread_t thread;
    struct ct_drain_hand hand;
};

struct ct_drain_crew {
    struct ct_drain *drain;
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    struct helper helpers[MOST_HELPERS];
    unsigned count;
    bool ending;
    /* what is done now */
    void (*work)(struct ct_drain *drain, size_t i, struct ct_drain_hand *hand);
    size_t next, end;
    unsigned at_work;
};

unsigned ct_drain_delay_us;

/* ---- helpers ---- */

/* Does work until none is left. Call with the lock held. */
static void do_work(struct ct_drain_crew *c, struct ct_drain_hand *hand) {
    c->at_work++;
    while (c->next < c->end) {
        size_t i = c->next++;
        pthread_mutex_unlock(&c->lock);
        c->work(c->drain, i, hand);
        pthread_mutex_lock(&c->lock);
    }
    if (!--c->at_work)
        pthread_cond_signal(&c->done);
}

static void *run_helper(void *arg) {
    struct helper *h = arg;
    struct ct_drain_crew *c = h->crew;
    pthread_mutex_lock(&c->lock);
    while (!c->ending)
        if (c->next < c->end)
            do_work(c, &h->hand);
        else
            pthread_cond_wait(&c->more, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* The drain thread's signals are blocked, and so are those of threads that it starts. */
static void start_helpers(struct ct_drain_crew *c, unsigned count) {
    while (c->count < count && c->count < MOST_HELPERS) {
        struct helper *h = &c->helpers[c->count];
        h->crew = c;
        h->hand.copy = malloc(c->drain->lane->chunk_bytes);
        if (!h->hand.copy || pthread_create(&h->thread, NULL, run_helper, h)) {
            free(h->hand.copy);
            return;
        }
        c->count++;
    }
}

static struct ct_drain_crew *make_crew(struct ct_drain *d, unsigned helpers) {
    struct ct_drain_crew *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->drain = d;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->more, NULL);
    pthread_cond_init(&c->done, NULL);
    start_helpers(c, helpers);
    return c;
}

/* ---- the drain thread ---- */

/* What counts or explains events as they are taken has one caller. */
bool ct_drain_crew_may(const struct ct_drain *d) {
    bool alone = d->resolve || d->code || __atomic_load_n(&d->counts, __ATOMIC_ACQUIRE);
    return !alone && d->hands > 1;
}

void ct_drain_crew_run(struct ct_drain *d, size_t count,
                       void (*work)(struct ct_drain *drain, size_t i, struct ct_drain_hand *hand)) {
    if (!d->crew)
        d->crew = make_crew(d, d->hands - 1);
    struct ct_drain_crew *c = d->crew;
    if (!c)
        return; /* the caller does it alone */
    pthread_mutex_lock(&c->lock);
    c->work = work;
    c->next = 0;
    c->end = count;
    pthread_cond_broadcast(&c->more);
    do_work(c, &d->own);
    while (c->at_work)
        pthread_cond_wait(&c->done, &c->lock);
    c->next = c->end = 0;
    pthread_mutex_unlock(&c->lock);
}

static void gather(struct ct_drain *d, struct ct_drain_hand *h, uint64_t now) {
    d->found |= h->found;
    d->held_up |= h->held_up;
    d->cut |= h->cut;
    d->error = d->error ? d->error : h->error;
    if (h->time_start && (!d->time_start || h->time_start < d->time_start))
        d->time_start = h->time_start;
    if (h->time_end > d->time_end)
        d->time_end = h->time_end;
    h->found = h->held_up = h->cut = false;
    ct_drain_measure(d, h, now);
}

void ct_drain_gather(struct ct_drain *d, uint64_t now) {
    gather(d, &d->own, now);
    for (unsigned i = 0; d->crew && i < d->crew->count; i++)
        gather(d, &d->crew->helpers[i].hand, now);
}

void ct_drain_crew_end(struct ct_drain *d) {
    struct ct_drain_crew *c = d->crew;
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->count; i++) {
        pthread_join(c->helpers[i].thread, NULL);
        free(c->helpers[i].hand.copy);
    }
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->more);
    pthread_mutex_destroy(&c->lock);
    free(c);
    d->crew = NULL;
}
