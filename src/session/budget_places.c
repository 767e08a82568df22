/* SPDX-License-Identifier: Apache-2.0 */
/* See budget_places.h. */
#include "session/budget_places.h"
#include "inject/rehook.h"
#include "session/policy.h"
#include "session/recording.h"
#include "symbols/name_match.h"
#include <stdlib.h>
#include <string.h>

static const struct ct_target_module *module_of(const struct ct_target_plan *plan, const struct ct_target_hook *h) {
    return &plan->modules[(uint32_t)(h->function_id >> 32) - plan->modules[0].id];
}

static const struct ct_target_function *function_of(const struct ct_target_plan *plan, const struct ct_target_hook *h) {
    return &module_of(plan, h)->functions[(uint32_t)h->function_id];
}

/* The number of a plan's first hook; -1: the plan is not installed. */
static int32_t first_of(const struct ct_target_plan *plan) {
    for (size_t i = 0; plan->module_count && i < plan->hook_count; i++) {
        int32_t number = function_of(plan, &plan->hooks[i])->hook;
        if (number >= (int32_t)i)
            return number - (int32_t)i;
    }
    return -1;
}

static int make_room(struct ct_budget_places *p, size_t count) {
    if (count <= p->count)
        return 0;
    struct ct_budget_place *at = realloc(p->at, count * sizeof *at);
    if (!at)
        return CT_ERR_NO_MEMORY;
    memset(at + p->count, 0, (count - p->count) * sizeof *at);
    p->at = at;
    p->count = count;
    return 0;
}

static void add_hook(struct ct_budget_place *place, const struct ct_target_plan *plan, size_t i, int32_t first) {
    const struct ct_target_hook *h = &plan->hooks[i];
    const struct ct_target_hook *host = h->plan.host ? ct_target_plan_hook(plan, h->plan.host) : NULL;
    *place = (struct ct_budget_place){
        .hook = h,
        .plan = plan,
        .function_id = h->function_id,
        .host = host ? first + (int32_t)(host - plan->hooks) : -1,
        .may_go = h->action == CT_ACTION_RECORD && !h->special && !h->service && function_of(plan, h)->hook >= 0,
        .movable = ct_rehook_is_possible(h),
        .patched = true,
    };
}

static int add_plan(struct ct_budget_places *p, const struct ct_target_plan *plan) {
    int32_t first = first_of(plan);
    if (first < 0)
        return 0;
    int status = make_room(p, (size_t)first + plan->hook_count);
    for (size_t i = 0; !status && i < plan->hook_count; i++)
        add_hook(&p->at[(size_t)first + i], plan, i, first);
    for (size_t i = 0; !status && i < plan->hook_count; i++) {
        int32_t host = p->at[(size_t)first + i].host;
        if (host >= 0)
            p->at[host].guests++;
    }
    return status;
}

static void drop_gone(struct ct_budget_places *p, const struct ct_recording *r) {
    for (size_t i = 0; i < p->count; i++) {
        uint64_t module = p->at[i].function_id >> 32;
        if (p->at[i].hook && module && module <= r->modules.gone_count && r->modules.gone[module - 1])
            p->at[i].hook = NULL;
    }
}

static void find_named(struct ct_budget_places *p, const struct ct_recording *r) {
    const char *const *only = r->session->options.only;
    for (size_t i = 0; i < p->count; i++) {
        struct ct_budget_place *place = &p->at[i];
        if (!place->may_go || !place->hook)
            continue;
        const char *name = function_of(place->plan, place->hook)->name;
        place->named = (only && ct_name_fits(only, name)) ||
                       ct_policy_mask(r->session->policy, name, module_of(place->plan, place->hook)->path);
    }
}

static size_t count_gone(const struct ct_recording *r) {
    size_t count = 0;
    for (size_t i = 0; i < r->modules.gone_count; i++)
        count += r->modules.gone[i];
    return count;
}

int ct_budget_places_refresh(struct ct_budget_places *p, const struct ct_recording *r) {
    size_t plans = r->modules.more_count + 1, gone = count_gone(r);
    pthread_rwlock_rdlock(&r->session->policy_lock);
    bool same = p->version == r->session->policy->version && p->plans == plans;
    int status = 0;
    for (; p->plans < plans && !status; p->plans += !status)
        status = add_plan(p, p->plans ? r->modules.more[p->plans - 1]->plan : r->plan);
    if (!same && !status)
        find_named(p, r);
    p->version = r->session->policy->version;
    pthread_rwlock_unlock(&r->session->policy_lock);
    if (!same || gone != p->gone)
        drop_gone(p, r);
    p->gone = gone;
    return status;
}
