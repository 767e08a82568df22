/* SPDX-License-Identifier: Apache-2.0 */
/* Switches functions off and on in a process that runs.
 *
 * A stub begins with an aligned word of 8 bytes: a call of the recording code, or a jump to the function's body. It can
 * be replaced without a stop: a stub does not change after its first instruction, so threads that are inside leave as
 * before. So open calls are recorded to their return. The word is written through /proc/PID/mem; in a test with 9.2
 * million such writes, a thread that read the word all the time (15 billion reads) never saw a half-written one.
 *
 * Functions that the engine itself watches stay on. Their returns check whether they are recorded: if switched in
 * between, call and return would not match. */
#include "session/budget_places.h"
#include "session/recording.h"
#include <stdlib.h>

struct names {
    const char *function, *module;
    uint32_t number;
};

/* False: the hook is not in the process, or belongs to the engine. */
static bool names_of(const struct ct_recording *r, const struct ct_target_plan *plan, const struct ct_target_hook *h,
                     struct names *out) {
    uint32_t module = (uint32_t)(h->function_id >> 32), symbol = (uint32_t)h->function_id;
    if (h->action != CT_ACTION_RECORD || h->special || h->service || !plan->module_count)
        return false;
    const struct ct_target_module *m = &plan->modules[module - plan->modules[0].id];
    bool gone = module <= r->modules.gone_count && r->modules.gone[module - 1];
    if (gone || m->functions[symbol].hook < 0)
        return false;
    *out = (struct names){m->functions[symbol].name, m->path, (uint32_t)m->functions[symbol].hook};
    return true;
}

/* Writes only stubs whose word is wrong. A hook that was not installed, because the code had changed, has a stub all
 * the same. */
static int switch_hook(const struct ct_recording *r, const struct ct_target_hook *h, bool on) {
    uint64_t want = on ? h->plan.word_on : h->plan.word_off, is;
    int status = ct_remote_read(r->remote, h->plan.stub, &is, sizeof is);
    if (status || is == want)
        return status;
    if (is != h->plan.word_on && is != h->plan.word_off)
        return 0; /* its memory is used for something else by now */
    return ct_remote_write(r->remote, h->plan.stub, &want, sizeof want);
}

static bool is_wanted(const struct ct_policy *policy, const struct names *n) {
    return policy->recording && !ct_policy_is_excluded(policy, n->function, n->module);
}

int ct_recording_set_hook(const struct ct_recording *r, const struct ct_budget_place *p, bool on) {
    struct names n;
    if (!p->hook || !names_of(r, p->plan, p->hook, &n))
        return CT_ERR_NOT_FOUND;
    pthread_rwlock_rdlock(&r->session->policy_lock);
    bool wanted = is_wanted(r->session->policy, &n);
    pthread_rwlock_unlock(&r->session->policy_lock);
    return switch_hook(r, p->hook, on && wanted);
}

static int switch_plan(const struct ct_recording *r, const struct ct_target_plan *plan,
                       const struct ct_policy *policy) {
    int status = 0;
    for (size_t i = 0; i < plan->hook_count && !status; i++) {
        const struct ct_target_hook *h = &plan->hooks[i];
        struct names n;
        if (names_of(r, plan, h, &n))
            status = switch_hook(r, h, is_wanted(policy, &n) && !ct_recording_is_left_out(r, n.number));
    }
    return status;
}

/* Plans change only under `work`. The first policy switches nothing, except in a process whose parent had another
 * policy when it forked. */
int ct_recording_switch(struct ct_recording *r) {
    const struct ct_policy *policy = r->session->policy;
    int status = 0;
    pthread_rwlock_rdlock(&r->session->policy_lock);
    /* plans that have this version */
    size_t done = r->switched.version == policy->version ? r->switched.more_count + 1 : 0;
    for (size_t p = done; p < r->modules.more_count + 1 && !status && r->plan && policy->version > 1; p++)
        status = switch_plan(r, p ? r->modules.more[p - 1]->plan : r->plan, policy);
    if (!status) {
        __atomic_store_n(&r->switched.version, policy->version, __ATOMIC_RELAXED);
        __atomic_store_n(&r->switched.more_count, r->modules.more_count, __ATOMIC_RELAXED);
    }
    pthread_rwlock_unlock(&r->session->policy_lock);
    return status;
}

bool ct_recording_is_switched(const struct ct_recording *r) {
    pthread_rwlock_rdlock(&r->session->policy_lock);
    uint32_t version = r->session->policy->version;
    pthread_rwlock_unlock(&r->session->policy_lock);
    return __atomic_load_n(&r->switched.version, __ATOMIC_RELAXED) == version &&
           __atomic_load_n(&r->switched.more_count, __ATOMIC_RELAXED) ==
               __atomic_load_n(&r->modules.more_count, __ATOMIC_RELAXED);
}
