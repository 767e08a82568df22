/* SPDX-License-Identifier: Apache-2.0 */
/* See budget_stops.h. */
#include "session/budget_stops.h"
#include "inject/rehook.h"
#include "session/recording.h"

#define STOP_MS        2u
#define WRITE_NS       1200000ull /* of a stop, for changes of bytes */
#define STILL_MS       20u
#define BETWEEN_STOPS  200000000ull
#define LONG_STOP      100u /* a stop that took longer than STOP_MS is followed by a pause this many times as long */
#define FAILED_STOP_NS 500000000ull

/* ---- planning ---- */

static void add(struct ct_budget_batch *b, const struct ct_budget_places *places, uint32_t number) {
    int32_t host = places->at[number].host;
    b->numbers[b->count] = number;
    b->hosts[b->count] = host >= 0 ? places->at[host].hook : NULL;
    b->hooks[b->count++] = places->at[number].hook;
}

/* Hosts of springboards come back before their guests. */
static void plan_back(struct ct_budget_batch *b, const struct ct_budget_places *places, const uint32_t *numbers,
                      size_t count) {
    for (size_t i = 0; i < count && b->count < CT_BUDGET_STOP_HOOKS; i++) {
        const struct ct_budget_place *p = &places->at[numbers[i]];
        if (p->host >= 0 && !p->patched && !places->at[p->host].patched)
            add(b, places, (uint32_t)p->host);
    }
    for (size_t i = 0; i < count && b->count < CT_BUDGET_STOP_HOOKS; i++)
        if (!places->at[numbers[i]].patched)
            add(b, places, numbers[i]);
}

void ct_budget_stops_plan(struct ct_budget_stops *s, const struct ct_budget *budget,
                          const struct ct_budget_places *places, const uint32_t *back, size_t count) {
    s->out.count = s->back.count = 0;
    plan_back(&s->back, places, back, count);
    for (uint32_t i = 0; i < budget->count && s->out.count + s->back.count < CT_BUDGET_STOP_HOOKS; i++) {
        const struct ct_budget_place *p = &places->at[i];
        /* a host goes after its guests */
        if (budget->limit > 0 && budget->hooks[i].state == CT_BUDGET_OUT && p->hook && p->patched && p->movable &&
            !p->guests)
            add(&s->out, places, i);
    }
}

/* ---- bytes ---- */

void ct_budget_stops_patched(struct ct_budget_places *places, uint32_t number, bool patched) {
    struct ct_budget_place *p = &places->at[number];
    if (p->patched == patched)
        return;
    p->patched = patched;
    if (p->host >= 0)
        places->at[p->host].guests += patched ? 1 : -1;
}

/* Some of these may have been put back, and their springboards are in the bytes of their hosts: these stay from now
 * on. */
static void keep_hosts(struct ct_budget_places *places, const struct ct_budget_batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        const struct ct_budget_place *p = &places->at[b->numbers[i]];
        if (p->host >= 0 && !p->patched)
            places->at[p->host].guests++;
    }
}

/* Returns how many of them have changed. */
static size_t note_done(struct ct_budget_places *places, const struct ct_budget_batch *b, bool patched) {
    size_t count = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->done[i]) {
            ct_budget_stops_patched(places, b->numbers[i], patched);
            count++;
        }
    return count;
}

static int change_bytes(struct ct_budget_stops *s, struct ct_remote *remote, struct ct_budget_places *places,
                        uint64_t *changed) {
    uint64_t until_ns = ct_clock_now() + WRITE_NS;
    const struct ct_rehook leaving = {remote, s->out.hooks, s->out.hosts, s->out.count, until_ns, s->out.done};
    const struct ct_rehook coming = {remote, s->back.hooks, s->back.hosts, s->back.count, until_ns, s->back.done};
    int status = s->out.count ? ct_rehook_take_out(&leaving) : 0;
    if (!status)
        *changed += note_done(places, &s->out, false);
    if (status || !s->back.count)
        return status;
    status = ct_rehook_put_back(&coming);
    if (status)
        keep_hosts(places, &s->back);
    else
        *changed += note_done(places, &s->back, true);
    return status;
}

/* ---- stops ---- */

struct ct_budget_stopped ct_budget_stops_make(struct ct_budget_stops *s, struct ct_recording *r,
                                              struct ct_budget_places *places) {
    struct ct_budget_stopped one = {0};
    struct ct_remote_error error = {""};
    if (!s->out.count && !s->back.count)
        return one;
    uint64_t begin = ct_clock_now();
    int status = ct_remote_stop(r->remote, STOP_MS, &error);
    if (!status) {
        begin = r->times.stopped_at = ct_remote_stopped_since(r->remote); /* until then all threads ran */
        ct_remote_limit(r->remote, STILL_MS, NULL, NULL);
        status = change_bytes(s, r->remote, places, &one.hooks);
        ct_remote_limit(r->remote, 0, NULL, NULL);
        (void)ct_recording_go_on(r, CT_WAIT_HOOKS);
    }
    uint64_t pause = BETWEEN_STOPS;
    one.stops = 1;
    one.ns = one.longest_ns = ct_clock_now() - begin;
    one.most_hooks = one.hooks;
    if (one.ns > STOP_MS * 1000000ull)
        pause = one.ns * LONG_STOP;
    if (status)
        pause = pause < FAILED_STOP_NS ? FAILED_STOP_NS : pause;
    s->next_ns = begin + pause;
    return one;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void ct_budget_stopped_add(struct ct_budget_stopped *all, const struct ct_budget_stopped *one) {
    all->stops += one->stops;
    all->ns += one->ns;
    all->hooks += one->hooks;
    all->longest_ns = larger(all->longest_ns, one->longest_ns);
    all->most_hooks = larger(all->most_hooks, one->most_hooks);
}
