/* SPDX-License-Identifier: Apache-2.0 */
/* The session's policy in one recorded process: masks of function triggers in shared memory, which the agent reads at
 * each call, and the windows that marks open.
 *
 * The policy belongs to the session and has its own lock. Rules are written one by one while threads run: each is one
 * store. */
#include "session/crash_watch.h"
#include "session/recording.h"
#include "symbols/library_calls.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum ct_shm_trigger_kind kind_of(const struct ct_trigger *t) {
    switch (t->kind) {
    case CT_TRIGGER_SYMBOL:
    case CT_TRIGGER_CALL:
        return CT_SHM_ON_CALL;
    case CT_TRIGGER_RETURN:
        return CT_SHM_ON_RETURN;
    case CT_TRIGGER_SLOW:
        return CT_SHM_ON_SLOW;
    default:
        return CT_SHM_ON_NOTHING;
    }
}

static void put_trigger(struct ct_recording *r, unsigned bit, const struct ct_trigger *t) {
    struct ct_shm_trigger *out = &r->lane.control->triggers[bit];
    out->kind = CT_SHM_ON_NOTHING;
    if (!t)
        return;
    memcpy(&r->lane.conditions[bit * CT_TRIGGER_CONDITIONS], t->conditions, sizeof t->conditions);
    out->conditions = t->condition_count;
    out->counts = (uint64_t)((double)t->slow_ns * 1e-9 * ct_clock_hz(&r->clock));
    out->id = t->id;
    __atomic_store_n(&out->kind, kind_of(t), __ATOMIC_RELEASE);
}

static bool looks_at_errno(const struct ct_policy *policy, uint32_t mask) {
    for (; mask; mask &= mask - 1) {
        const struct ct_trigger *t = ct_policy_function(policy, (unsigned)__builtin_ctz(mask));
        for (uint32_t i = 0; t && i < t->condition_count; i++)
            if (t->conditions[i].value == CT_TRIGGER_ERRNO)
                return true;
    }
    return false;
}

/* How the function reports errors, if a trigger must know. */
static uint32_t failure_rule(const struct ct_policy *policy, uint32_t mask, const char *name, const char *module) {
    const struct ct_library_call *call =
        looks_at_errno(policy, mask) && ct_library_is_c(module) ? ct_library_call(name) : NULL;
    if (!call || call->failure == CT_FAILS_OTHERWISE)
        return 0;
    return call->failure == CT_FAILS_NULL ? CT_RULE_FAILS_NULL : CT_RULE_FAILS_MINUS_ONE;
}

/* Which arguments may point to texts: those of known functions, or whatever looks like one. Structures look like
 * nothing: for them the bytes at every address are captured. */
static uint32_t texts_rule(const char *name, const char *module, bool structs) {
    const struct ct_library_call *call = ct_library_is_c(module) ? ct_library_call(name) : NULL;
    if (call)
        return (uint32_t)call->texts << CT_RULE_TEXTS;
    return 0x3fu << CT_RULE_TEXTS | (structs ? CT_RULE_WHOLE : CT_RULE_IF_PRINTABLE);
}

static void put_rules(void *arg, const struct ct_target_module *m) {
    struct ct_recording *r = arg;
    const struct ct_policy *policy = r->session->policy;
    for (size_t i = 0; i < m->function_count; i++) {
        const struct ct_target_function *f = &m->functions[i];
        if (f->hook < 0 || (uint32_t)f->hook >= r->lane.hook_room)
            continue;
        uint32_t rule = policy->used_bits ? ct_policy_mask(policy, f->name, m->path) : 0;
        if (!f->skip && !m->gone)
            r->fitting |= (uint16_t)rule;
        if (rule)
            rule |= failure_rule(policy, rule, f->name, m->path);
        if (r->lane.strings)
            rule |= texts_rule(f->name, m->path, r->session->options.structs);
        if (r->lane.reals && f->reals)
            rule |= CT_RULE_REALS;
        if (r->lane.rules[f->hook] != rule)
            __atomic_store_n(&r->lane.rules[f->hook], rule, __ATOMIC_RELAXED);
    }
}

/* Notes triggers that fit no function, for the user. They stay: a library that is loaded later may have one. */
void ct_recording_note_triggers(struct ct_recording *r) {
    const struct ct_policy *policy = r->session->policy;
    if (!r->lane.segment_count)
        return;
    pthread_rwlock_rdlock(&r->session->policy_lock);
    unsigned idle = policy->used_bits & ~(unsigned)r->fitting, others = (unsigned)__builtin_popcount(idle);
    const struct ct_trigger *t = idle ? ct_policy_function(policy, (unsigned)__builtin_ctz(idle)) : NULL;
    char more[32] = "";
    if (others > 1)
        snprintf(more, sizeof more, " and %u other%s", others - 1, others == 2 ? "" : "s");
    if (t)
        snprintf(r->session->idle, sizeof r->session->idle,
                 "the trigger \"%s\"%s %s no function that is recorded so far; it stays for libraries to come", t->text,
                 more, others > 1 ? "fit" : "fits");
    pthread_rwlock_unlock(&r->session->policy_lock);
}

void ct_recording_apply_policy(struct ct_recording *r) {
    if (!r->lane.segment_count)
        return;
    pthread_rwlock_rdlock(&r->session->policy_lock);
    for (unsigned bit = 0; bit < CT_TRIGGER_BITS; bit++)
        put_trigger(r, bit, ct_policy_function(r->session->policy, bit));
    r->fitting = 0;
    ct_recording_each_module(r, put_rules, r);
    pthread_rwlock_unlock(&r->session->policy_lock);
}

void ct_recording_bring_policy(struct ct_recording *r) {
    ct_recording_budget_begin(r);
    if (ct_recording_is_switched(r))
        return;
    ct_recording_apply_policy(r);
    (void)ct_recording_switch(r);
    (void)ct_crash_watch_apply(r); /* signals that are required now, or no longer */
}

void ct_recording_trigger_text(void *arg, uint32_t id, char *text, size_t size) {
    struct ct_recording *r = arg;
    pthread_rwlock_rdlock(&r->session->policy_lock);
    const char *known = ct_policy_text(r->session->policy, id);
    snprintf(text, size, "%s", *known ? known : "removed trigger");
    pthread_rwlock_unlock(&r->session->policy_lock);
}

/* Checked once a second: the policy is not read in every pass. */
static void look_at_clock(struct ct_recording *r, time_t now) {
    struct tm local;
    const struct ct_trigger *t = NULL;
    r->time_trigger.second = now;
    pthread_rwlock_rdlock(&r->session->policy_lock);
    if (localtime_r(&now, &local))
        t = ct_policy_time(r->session->policy, local.tm_hour * 60 + local.tm_min);
    snprintf(r->time_trigger.lasts, sizeof r->time_trigger.lasts, "%s", t ? t->text : "");
    pthread_rwlock_unlock(&r->session->policy_lock);
}

void ct_recording_on_pass(void *arg, uint64_t now_ns) {
    struct ct_recording *r = arg;
    time_t now = time(NULL);
    if (now != r->time_trigger.second)
        look_at_clock(r, now);
    if (r->time_trigger.lasts[0])
        ct_windows_hold(&r->windows, now_ns, r->time_trigger.lasts);
}
