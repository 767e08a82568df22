/* SPDX-License-Identifier: Apache-2.0 */
/* See recording_budget.h. */
#include "session/recording_budget.h"
#include "base/grow.h"
#include "base/json_write.h"
#include "drain/drain_count.h"
#include "os/thread.h"
#include "session/budget.h"
#include "session/budget_places.h"
#include "session/budget_price.h"
#include "session/budget_stops.h"
#include "session/policy.h"
#include "session/recording.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIAL_MS     10
#define IDLE_MS      200
#define LEAST_CPU_NS 4000000ull   /* with less CPU time in it a look says nothing yet */
#define LONGEST_LOOK 500000000ull /* but is taken all the same */
#define BATCH        256u

struct ct_budget_change {
    uint64_t ns, function_id, calls;
    double cost;
    unsigned looks;
    bool out;
};
#define CT_BUDGET_CHANGES 4096u /* that are listed */

/* The thread alone changes it; `mutex` is for those who read what it reports. */
struct ct_recording_budget {
    struct ct_recording *recording;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool started, stop;
    struct ct_budget budget;
    struct ct_budget_places places;
    struct ct_drain_counts *counts;
    struct ct_drain_count *all; /* with those that were only counted; NULL: calls are not sampled */
    clockid_t cpu_clock;
    struct ct_budget_price price;
    double scale;
    uint64_t cpu_seen, looked_ns, events_seen, lost_seen, stopped_seen;
    struct ct_budget_stops stops;
    struct ct_budget_stopped stopped;
    struct ct_budget_change *changes;
    size_t change_count, change_room;
    uint64_t more_changes;
};

/* What a call costs that is only counted (--sample). */
#define COUNTED_NS 18.0

/* ---- changes, for the manifest ---- */

static void note_change(struct ct_recording_budget *g, uint32_t number, uint64_t now_ns, bool out) {
    const struct ct_budget_hook *h = &g->budget.hooks[number];
    struct ct_budget_place *p = &g->places.at[number];
    uint64_t calls = g->counts->hooks[number].calls;
    p->changed = true;
    if (out)
        p->out_calls = calls;
    if (out && !p->first_out_ns)
        p->first_out_ns = now_ns;
    if (g->change_count < CT_BUDGET_CHANGES &&
        ct_grow(&g->changes, &g->change_room, g->change_count, sizeof *g->changes, 64))
        g->changes[g->change_count++] =
            (struct ct_budget_change){now_ns, p->function_id, calls, h->cost, out ? g->budget.over : 0, out};
    else
        g->more_changes++;
}

/* ---- looking ---- */

static double limit_of(struct ct_recording *r) {
    pthread_rwlock_rdlock(&r->session->policy_lock);
    unsigned budget = r->session->policy->budget;
    pthread_rwlock_unlock(&r->session->policy_lock);
    return budget / 10000.0;
}

static uint64_t cpu_ns(const struct ct_recording_budget *g) {
    struct timespec t;
    if (clock_gettime(g->cpu_clock, &t))
        return g->cpu_seen;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double pair_of(const struct ct_recording_budget *g, const struct ct_target_hook *hook) {
    const struct ct_recording *r = g->recording;
    double pair = ct_budget_price_pair(&g->price, r->lane.segment_count, r->session->options.fast_clock);
    return hook && hook->entry_only ? pair / 2 : pair;
}

/* Calls that are only counted cost something too: of a function, each call costs what they do on average. */
static const struct ct_drain_count *all_calls(struct ct_recording_budget *g) {
    const struct ct_lane *lane = &g->recording->lane;
    if (!lane->counts || !g->all)
        return g->counts->hooks;
    for (uint32_t i = 0; i < g->budget.count && i < g->counts->room; i++) {
        uint64_t recorded = g->counts->hooks[i].calls, calls = ct_lane_calls(lane, i);
        g->all[i].calls = calls > recorded ? calls : recorded;
        double share = g->all[i].calls ? (double)recorded / (double)g->all[i].calls : 0;
        g->budget.hooks[i].pair_ns = (float)(COUNTED_NS + share * pair_of(g, g->places.at[i].hook));
    }
    return g->all;
}

static void look(struct ct_recording_budget *g, uint64_t now_ns) {
    uint64_t cpu = cpu_ns(g), used = cpu > g->cpu_seen ? cpu - g->cpu_seen : 0;
    if (used < LEAST_CPU_NS && now_ns - g->looked_ns < LONGEST_LOOK)
        return;
    uint64_t events = __atomic_load_n(&g->counts->events, __ATOMIC_RELAXED) - g->events_seen;
    uint64_t lost = __atomic_load_n(&g->counts->lost, __ATOMIC_RELAXED) - g->lost_seen;
    if (events)
        g->scale = (double)(events + lost) / (double)events;
    double hz = ct_clock_hz(&g->recording->clock);
    const struct ct_budget_look l = {.now_ns = now_ns,
                                     .cpu_ns = used,
                                     .stopped_ns = g->stopped.ns - g->stopped_seen,
                                     .scale = g->scale,
                                     .ns_per_count = hz > 0 ? 1e9 / hz : 0,
                                     .counts = all_calls(g),
                                     .count = g->counts->room};
    ct_budget_look(&g->budget, &l);
    g->cpu_seen = cpu;
    g->looked_ns = now_ns;
    g->events_seen += events;
    g->lost_seen += lost;
    g->stopped_seen = g->stopped.ns;
}

/* ---- hooks of the process ---- */

/* New hooks, of libraries that were loaded, get their costs; all know whether the user has named them. */
static int refresh(struct ct_recording_budget *g) {
    struct ct_recording *r = g->recording;
    int status = ct_budget_places_refresh(&g->places, r);
    if (!status)
        status = ct_budget_grow(&g->budget, g->places.count);
    for (size_t i = 0; !status && i < g->places.count; i++) {
        const struct ct_budget_place *p = &g->places.at[i];
        struct ct_budget_hook *h = &g->budget.hooks[i];
        if (!g->all)
            h->pair_ns = (float)pair_of(g, p->hook);
        h->named = p->named;
        if (!p->hook)
            h->state = CT_BUDGET_FIXED; /* its module was unloaded */
        else if (h->state == CT_BUDGET_FIXED && p->may_go)
            h->state = CT_BUDGET_IN;
    }
    return status;
}

static bool is_out(const struct ct_recording_budget *g, uint32_t number) {
    return number < g->budget.count && g->budget.hooks[number].state == CT_BUDGET_OUT;
}

static size_t count_out(const struct ct_recording_budget *g) {
    size_t count = 0;
    for (uint32_t i = 0; i < g->budget.count; i++)
        count += is_out(g, i) && g->places.at[i].hook;
    return count;
}

/* ---- switching off ---- */

static void switch_off(struct ct_recording_budget *g, uint64_t now_ns) {
    uint32_t numbers[BATCH];
    size_t count = ct_budget_choose_out(&g->budget, now_ns, numbers, BATCH);
    for (size_t i = 0; i < count; i++) {
        if (ct_recording_set_hook(g->recording, &g->places.at[numbers[i]], false))
            continue;
        ct_budget_take_out(&g->budget, numbers[i], now_ns);
        note_change(g, numbers[i], now_ns, true);
    }
}

/* ---- switching on ---- */

/* Those that are there. */
static void switch_on(struct ct_recording_budget *g, const uint32_t *numbers, size_t count, uint64_t now_ns) {
    for (size_t i = 0; i < count; i++) {
        const struct ct_budget_place *p = &g->places.at[numbers[i]];
        if (!p->patched || (p->host >= 0 && !g->places.at[p->host].patched))
            continue;
        ct_budget_bring_back(&g->budget, numbers[i], now_ns);
        note_change(g, numbers[i], now_ns, false);
        (void)ct_recording_set_hook(g->recording, p, true);
    }
}

/* Without a limit all come back. */
static size_t choose_back(const struct ct_recording_budget *g, uint64_t now_ns, uint32_t *numbers, size_t room) {
    size_t count = 0;
    if (g->budget.limit > 0) {
        count = ct_budget_choose_back(&g->budget, now_ns, numbers, room);
    } else {
        for (uint32_t i = 0; i < g->budget.count && count < room; i++)
            if (is_out(g, i) && g->places.at[i].hook)
                numbers[count++] = i;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (g->places.at[numbers[i]].hook) /* its module may have been unloaded */
            numbers[kept++] = numbers[i];
    return kept;
}

static void act(struct ct_recording_budget *g, uint64_t now_ns) {
    uint32_t numbers[CT_BUDGET_STOP_HOOKS / 2]; /* each may need its host */
    size_t count = 0;
    pthread_mutex_lock(&g->mutex);
    g->stops.out.count = g->stops.back.count = 0;
    if (!refresh(g)) {
        switch_off(g, now_ns);
        if (now_ns >= g->stops.next_ns) {
            count = choose_back(g, now_ns, numbers, CT_BUDGET_STOP_HOOKS / 2);
            ct_budget_stops_plan(&g->stops, &g->budget, &g->places, numbers, count);
        }
    }
    pthread_mutex_unlock(&g->mutex);
    const struct ct_budget_stopped stopped = ct_budget_stops_make(&g->stops, g->recording, &g->places);
    pthread_mutex_lock(&g->mutex);
    ct_budget_stopped_add(&g->stopped, &stopped);
    switch_on(g, numbers, count, now_ns);
    pthread_mutex_unlock(&g->mutex);
}

/* ---- the thread ---- */

static bool is_running(const struct ct_recording *r) {
    return r->remote && r->plan && !__atomic_load_n(&r->paused, __ATOMIC_RELAXED) && !ct_remote_is_stopped(r->remote) &&
           ct_remote_is_alive(r->remote);
}

/* Returns how long to wait. */
static unsigned pass(struct ct_recording_budget *g) {
    struct ct_recording *r = g->recording;
    double limit = limit_of(r);
    if (pthread_mutex_trylock(&r->work))
        return TRIAL_MS;
    pthread_mutex_lock(&g->mutex);
    g->budget.limit = limit;
    uint64_t now_ns = ct_clock_now();
    look(g, now_ns);
    pthread_mutex_unlock(&g->mutex);
    if ((limit > 0 || count_out(g)) && is_running(r))
        act(g, now_ns);
    pthread_mutex_unlock(&r->work);
    if (limit <= 0 && !count_out(g))
        return IDLE_MS;
    return ct_budget_tries(&g->budget) ? TRIAL_MS : CT_BUDGET_LOOK_MS;
}

static void *run(void *arg) {
    struct ct_recording_budget *g = arg;
    const struct sched_param first = {.sched_priority = 1};
    unsigned wait_ms = TRIAL_MS;
    /* The tracer inherits it: where processors are busy, a stopped process must not wait for its turn. Often not
     * allowed. A priority that the recorder was started with stays: its program has it too. */
    if (sched_getscheduler(0) == SCHED_OTHER)
        (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
    pthread_mutex_lock(&g->mutex);
    while (!g->stop) {
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_nsec += wait_ms * 1000000L;
        end.tv_sec += end.tv_nsec / 1000000000L;
        end.tv_nsec %= 1000000000L;
        (void)pthread_cond_timedwait(&g->wake, &g->mutex, &end);
        if (g->stop)
            break;
        pthread_mutex_unlock(&g->mutex);
        wait_ms = pass(g);
        pthread_mutex_lock(&g->mutex);
    }
    pthread_mutex_unlock(&g->mutex);
    return NULL;
}

static struct ct_recording_budget *create(struct ct_recording *r) {
    struct ct_recording_budget *g = calloc(1, sizeof *g);
    size_t room = r->injection.hook_room;
    struct ct_drain_counts *counts = g ? calloc(1, sizeof *counts + room * sizeof counts->hooks[0]) : NULL;
    if (!counts) {
        free(g);
        return NULL;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&g->mutex, NULL);
    counts->room = room;
    g->all = r->lane.counts ? calloc(room, sizeof *g->all) : NULL;
    g->counts = counts;
    g->recording = r;
    g->scale = 1;
    g->price = ct_budget_price_measure(&r->clock);
    return g;
}

static bool start_thread(struct ct_recording_budget *g) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = !pthread_create(&g->thread, NULL, run, g);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

void ct_recording_budget_begin(struct ct_recording *r) {
    double limit = limit_of(r);
    if (r->stalk || !r->plan || !r->times.resumed_at || (r->budget && r->budget->started) || (!r->budget && limit <= 0))
        return;
    struct ct_recording_budget *g = r->budget ? r->budget : create(r);
    if (!g)
        return;
    pthread_mutex_lock(&g->mutex);
    g->budget.limit = limit; /* for the manifest of a process that ends before the first pass */
    pthread_mutex_unlock(&g->mutex);
    if (!r->budget) {
        pthread_mutex_lock(&r->mutex);
        r->budget = g;
        pthread_mutex_unlock(&r->mutex);
    }
    __atomic_store_n(&r->drain.counts, g->counts, __ATOMIC_RELEASE);
    if (clock_getcpuclockid(r->pid, &g->cpu_clock))
        return;
    g->cpu_seen = cpu_ns(g);
    g->looked_ns = ct_clock_now();
    g->started = start_thread(g);
}

void ct_recording_budget_stop(struct ct_recording *r) {
    struct ct_recording_budget *g = r->budget;
    if (!g || !g->started)
        return;
    pthread_mutex_lock(&g->mutex);
    g->stop = true;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->mutex);
    pthread_join(g->thread, NULL);
    g->started = false;
}

/* The drain has ended. */
void ct_recording_budget_free(struct ct_recording *r) {
    struct ct_recording_budget *g = r->budget;
    if (!g)
        return;
    ct_recording_budget_stop(r);
    r->budget = NULL;
    pthread_cond_destroy(&g->wake);
    pthread_mutex_destroy(&g->mutex);
    ct_budget_free(&g->budget);
    free(g->places.at);
    free(g->counts);
    free(g->all);
    free(g->changes);
    free(g);
}

bool ct_recording_is_left_out(const struct ct_recording *r, uint32_t number) {
    return r->budget && is_out(r->budget, number);
}

/* ---- forked children ---- */

/* The parent may have changed a hook since the fork: the child's own memory decides. */
static void inherit_hook(struct ct_recording_budget *g, uint32_t number) {
    struct ct_recording *r = g->recording;
    struct ct_budget_place *p = &g->places.at[number];
    uint8_t bytes[CT_PATCH_MAX];
    uint64_t word = 0;
    if (!p->hook || !p->may_go)
        return;
    const struct ct_plan *plan = &p->hook->plan;
    const struct ct_patch *first = &plan->patches[0];
    bool patched =
        ct_remote_read(r->remote, first->at, bytes, first->size) || !memcmp(bytes, first->bytes, first->size);
    ct_budget_stops_patched(&g->places, number, patched);
    (void)ct_remote_read(r->remote, plan->stub, &word, sizeof word);
    if (patched && word == plan->word_on)
        return;
    uint64_t now_ns = ct_clock_now();
    ct_budget_take_out(&g->budget, number, now_ns);
    note_change(g, number, now_ns, true);
}

void ct_recording_budget_inherit(struct ct_recording *r, struct ct_recording *parent) {
    struct ct_recording_budget *from = parent->budget, *g = from ? create(r) : NULL;
    if (!g)
        return;
    if (refresh(g)) {
        r->budget = g;
        ct_recording_budget_free(r);
        return;
    }
    pthread_mutex_lock(&from->mutex);
    for (uint32_t i = 0; i < from->places.count && i < g->places.count; i++)
        if (from->places.at[i].changed) {
            g->budget.hooks[i].cost = from->budget.hooks[i].cost;
            inherit_hook(g, i);
        }
    pthread_mutex_unlock(&from->mutex);
    r->budget = g;
}

/* ---- reports ---- */

void ct_recording_budget_count(struct ct_recording *r, struct ct_session_statistics *out) {
    struct ct_recording_budget *g = r->budget;
    if (!g)
        return;
    pthread_mutex_lock(&g->mutex);
    out->budget = (unsigned)(g->budget.limit * 10000 + 0.5);
    out->budget_used = (unsigned)(g->budget.share * 10000 + 0.5);
    out->left_out = count_out(g);
    pthread_mutex_unlock(&g->mutex);
}

static void put_function(struct ct_json *j, const struct ct_recording_budget *g, uint32_t number) {
    const struct ct_budget_place *p = &g->places.at[number];
    const struct ct_budget_hook *h = &g->budget.hooks[number];
    bool out = is_out(g, number);
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "function", p->function_id);
    ct_json_number(j, "calls", g->counts->hooks[number].calls);
    ct_json_number(j, "first_out_ns", p->first_out_ns);
    if (out)
        ct_json_number(j, "out_ns", h->since_ns);
    ct_json_bool(j, "out", out);
    ct_json_real(j, "cost", h->cost);
    ct_json_end(j, '}');
}

static void put_change(struct ct_json *j, const struct ct_budget_change *c) {
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "ns", c->ns);
    ct_json_number(j, "function", c->function_id);
    ct_json_bool(j, "out", c->out);
    ct_json_number(j, "calls", c->calls);
    ct_json_real(j, "cost", c->cost);
    if (c->out)
        ct_json_number(j, "looks", c->looks);
    ct_json_end(j, '}');
}

static void put_budget(struct ct_json *j, const struct ct_recording_budget *g) {
    const struct ct_budget *b = &g->budget;
    ct_json_begin(j, "budget", '{');
    ct_json_real(j, "limit", b->limit);
    ct_json_real(j, "used", b->share);
    ct_json_real(j, "used_in_all", b->own_ns ? (double)b->cost_ns / (double)b->own_ns : 0);
    ct_json_real(j, "stamp_ns", g->price.stamp_ns);
    ct_json_real(j, "visible", g->price.visible);
    ct_json_number(j, "left_out", count_out(g));
    ct_json_number(j, "stops", g->stopped.stops);
    ct_json_number(j, "stopped_ns", g->stopped.ns);
    ct_json_number(j, "longest_stop_ns", g->stopped.longest_ns);
    ct_json_number(j, "changed_hooks", g->stopped.hooks);
    ct_json_number(j, "most_hooks_in_a_stop", g->stopped.most_hooks);
    ct_json_begin(j, "functions", '[');
    for (uint32_t i = 0; i < g->places.count && i < b->count; i++)
        if (g->places.at[i].changed)
            put_function(j, g, i);
    ct_json_end(j, ']');
    ct_json_begin(j, "changes", '[');
    for (size_t i = 0; i < g->change_count; i++)
        put_change(j, &g->changes[i]);
    ct_json_end(j, ']');
    ct_json_number(j, "more_changes", g->more_changes);
    ct_json_end(j, '}');
}

void ct_recording_budget_put(struct ct_recording *r, struct ct_json *j) {
    struct ct_recording_budget *g = r->budget;
    if (!g)
        return;
    pthread_mutex_lock(&g->mutex);
    put_budget(j, g);
    pthread_mutex_unlock(&g->mutex);
}
