/* SPDX-License-Identifier: Apache-2.0 */
/* See budget.h. */
#include "session/budget.h"
#include "drain/drain_count.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHT_NEW    0.4  /* of the last look, in what is smoothed */
#define CLEARLY       1.2  /* this many times the limit must be answered in CT_BUDGET_LOOKS */
#define SUDDEN        2.0  /* this many times the limit in one look: what is smoothed does not matter */
#define LEAST_OWN     0.1  /* of its CPU time: costs are estimates, and must not make its own time vanish */
#define AIM           0.80 /* of the limit: what is left after hooks were taken out */
#define ROOM          0.90 /* of the limit: as far as hooks come back */
#define LEAST_ROOM    0.15 /* of the limit: with less, none comes back */
#define BY_MEMORY     0.7  /* of the room: for hooks that fit by what they cost before */
#define LEAF_WEIGHT   3.0f
#define LEAF_NS       2000.0
#define QUIET_NS      300000000ull /* after a hook was taken out */
#define TRIAL_NS      60000000ull  /* then it is an ordinary hook */
#define SETTLED_NS    10000000000ull
#define BACK_OFF_NS   1000000000ull
#define BACK_OFF_MOST 6   /* doublings */
#define TRIAL_PART    0.1 /* of the budget */
#define MOST_DEBT_NS  1e9

/* ---- life ---- */

int ct_budget_grow(struct ct_budget *b, size_t count) {
    if (count <= b->count)
        return 0;
    struct ct_budget_hook *hooks = realloc(b->hooks, count * sizeof *hooks);
    if (!hooks)
        return CT_ERR_NO_MEMORY;
    memset(hooks + b->count, 0, (count - b->count) * sizeof *hooks);
    b->hooks = hooks;
    b->count = count;
    return 0;
}

void ct_budget_free(struct ct_budget *b) {
    free(b->hooks);
    *b = (struct ct_budget){0};
}

/* ---- looking ---- */

static double largest(double a, double b) {
    return a > b ? a : b;
}

/* What the calls since the last look have cost. `now` has nanoseconds until all are known. */
static double sum_costs(struct ct_budget *b, const struct ct_budget_look *l) {
    double sum = 0;
    for (size_t i = 0; i < b->count && i < l->count; i++) {
        struct ct_budget_hook *h = &b->hooks[i];
        uint64_t calls = __atomic_load_n(&l->counts[i].calls, __ATOMIC_RELAXED), more = calls - h->seen;
        h->now = 0;
        if (!more)
            continue;
        uint64_t leaves = __atomic_load_n(&l->counts[i].leaves, __ATOMIC_RELAXED), new_leaves = leaves - h->leaves;
        double leaf_ns = leaves ? (double)l->counts[i].leaf_counts / (double)leaves * l->ns_per_count : 0;
        h->leaf = leaf_ns < LEAF_NS ? (float)new_leaves / (float)more : 0;
        h->seen = calls;
        h->leaves = leaves;
        h->now = (double)more * l->scale * (double)h->pair_ns;
        sum += h->now;
    }
    return sum;
}

static void smooth(struct ct_budget_hook *h, double own_ns) {
    h->now /= own_ns;
    if (h->state == CT_BUDGET_OUT) /* the last of its events */
        h->now = 0;
    else if (h->since_ns || h->cost)
        h->cost += (h->now - h->cost) * WEIGHT_NEW;
    else
        h->cost = h->now;
}

void ct_budget_look(struct ct_budget *b, const struct ct_budget_look *l) {
    double cost_ns = sum_costs(b, l) + (double)l->stopped_ns, cpu_ns = (double)l->cpu_ns + (double)l->stopped_ns;
    double own_ns = largest(largest(cpu_ns - cost_ns, cpu_ns * LEAST_OWN), 1);
    b->own_ns += (uint64_t)own_ns;
    b->cost_ns += (uint64_t)cost_ns;
    b->share = b->share_now = (double)l->stopped_ns / own_ns;
    double trials = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct ct_budget_hook *h = &b->hooks[i];
        if (!h->now && (!h->cost || h->state == CT_BUDGET_OUT))
            continue;
        trials += h->trial ? h->now : 0;
        smooth(h, own_ns);
        b->share_now += h->now;
        b->share += h->state == CT_BUDGET_OUT ? 0 : h->cost;
        if (h->trial && l->now_ns - h->since_ns > TRIAL_NS)
            h->trial = false;
        if (h->tries && h->state == CT_BUDGET_IN && l->now_ns - h->since_ns > SETTLED_NS)
            h->tries = 0;
    }
    b->over = b->limit > 0 && b->share_now > b->limit * CLEARLY ? b->over + 1 : 0;
    b->debt_ns += trials - own_ns * b->limit * TRIAL_PART;
    b->debt_ns = b->debt_ns < 0 ? 0 : b->debt_ns > MOST_DEBT_NS ? MOST_DEBT_NS : b->debt_ns;
}

bool ct_budget_tries(const struct ct_budget *b) {
    for (size_t i = 0; i < b->count; i++)
        if (b->hooks[i].trial && b->hooks[i].state == CT_BUDGET_IN)
            return true;
    return false;
}

/* ---- taking out ---- */

struct candidate {
    uint32_t number;
    bool named;
    double cost, weight;
};

static int dearest_first(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->named != y->named)
        return x->named ? 1 : -1;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int cheapest_first(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->named != y->named)
        return x->named ? -1 : 1;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* A trial is judged by the last look: it has no past. */
static double cost_of(const struct ct_budget_hook *h, bool sudden) {
    return h->trial || (sudden && h->now > h->cost) ? h->now : h->cost;
}

size_t ct_budget_choose_out(const struct ct_budget *b, uint64_t now_ns, uint32_t *numbers, size_t room) {
    bool sudden = b->share_now > b->limit * SUDDEN;
    double share = 0;
    (void)now_ns;
    for (size_t i = 0; i < b->count; i++)
        share += b->hooks[i].state == CT_BUDGET_OUT ? 0 : cost_of(&b->hooks[i], sudden);
    if (!b->limit || share <= b->limit)
        return 0;
    struct candidate *list = malloc((b->count + 1) * sizeof *list);
    size_t count = 0, chosen = 0;
    for (size_t i = 0; list && i < b->count; i++) {
        const struct ct_budget_hook *h = &b->hooks[i];
        double cost = cost_of(h, sudden);
        if (h->state != CT_BUDGET_IN || cost <= 0)
            continue;
        /* a trial that does not fit goes first: it was out for a reason */
        double weight = cost * (double)(1 + LEAF_WEIGHT * h->leaf) * (h->trial ? 100 : 1);
        list[count++] = (struct candidate){(uint32_t)i, h->named, cost, weight};
    }
    if (list)
        qsort(list, count, sizeof *list, dearest_first);
    for (; chosen < count && chosen < room && share > b->limit * AIM; chosen++) {
        numbers[chosen] = list[chosen].number;
        share -= list[chosen].cost;
    }
    free(list);
    return chosen;
}

void ct_budget_take_out(struct ct_budget *b, uint32_t number, uint64_t now_ns) {
    struct ct_budget_hook *h = &b->hooks[number];
    bool soon = h->since_ns && now_ns - h->since_ns < SETTLED_NS;
    h->tries = (uint8_t)(soon && h->tries < BACK_OFF_MOST ? h->tries + 1 : soon ? h->tries : 0);
    h->cost = largest(h->cost, h->now);
    h->state = CT_BUDGET_OUT;
    h->trial = false;
    h->since_ns = now_ns;
    h->again_ns = now_ns + (BACK_OFF_NS << h->tries);
    b->out_ns = now_ns;
}

/* ---- bringing back ---- */

size_t ct_budget_choose_back(const struct ct_budget *b, uint64_t now_ns, uint32_t *numbers, size_t room) {
    double left = b->limit * ROOM - largest(b->share, b->share_now);
    if (!room || left < b->limit * LEAST_ROOM || now_ns - b->out_ns < QUIET_NS || b->debt_ns > 0 || ct_budget_tries(b))
        return 0;
    struct candidate *list = malloc((b->count + 1) * sizeof *list);
    size_t count = 0, chosen = 0;
    for (size_t i = 0; list && i < b->count; i++) {
        const struct ct_budget_hook *h = &b->hooks[i];
        if (h->state == CT_BUDGET_OUT && now_ns >= h->again_ns)
            list[count++] = (struct candidate){(uint32_t)i, h->named, h->cost, 0};
    }
    if (list)
        qsort(list, count, sizeof *list, cheapest_first);
    for (double sum = 0; chosen < count && chosen < room; chosen++) {
        sum += list[chosen].cost;
        if (chosen && sum > left * BY_MEMORY) /* the first one may be tried whatever it cost */
            break;
        numbers[chosen] = list[chosen].number;
    }
    free(list);
    return chosen;
}

void ct_budget_bring_back(struct ct_budget *b, uint32_t number, uint64_t now_ns) {
    struct ct_budget_hook *h = &b->hooks[number];
    h->state = CT_BUDGET_IN;
    h->trial = true;
    h->now = h->cost = 0;
    h->since_ns = now_ns;
}
