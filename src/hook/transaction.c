/* SPDX-License-Identifier: Apache-2.0 */
/* What all API calls share: entering and leaving the API, and transactions. */
#include "hook/set.h"
#include "hook/springboard.h"
#include "os/os.h"
#include "os/thread.h"
#include <string.h>

/* ---- entering and leaving the API ---- */

/* A listener that jumped away has left its guard set. */
static bool guard_is_stale(struct ct_block *b, uint64_t sp) {
    return sp > b->guard_sp && ct_shadow_same_stack(b, sp, b->guard_sp);
}

struct ct_set_guard ct_set_lock(struct ct_hooks *set) {
    struct ct_set_guard g = {.status = set ? 0 : CT_ERR_INVALID_ARGUMENT};
    if (g.status)
        return g;
    struct ct_block *b = set->runtime->blocks ? ct_block_current() : NULL;
    if (b && (b->attention & CT_ATTENTION_GUARD) && !guard_is_stale(b, (uint64_t)__builtin_frame_address(0))) {
        g.status = CT_ERR_BAD_STATE;
        return g;
    }
    if (b) {
        g.block = b;
        g.guarded_calls = b->counters->guarded_calls;
        b->guard_sp = ~0ull;
        ct_block_attend(b, CT_ATTENTION_GUARD);
    }
    pthread_mutex_lock(&set->mutex);
    return g;
}

int ct_set_unlock(struct ct_hooks *set, struct ct_set_guard g, int result) {
    pthread_mutex_unlock(&set->mutex);
    if (g.block) {
        g.block->counters->guarded_calls = g.guarded_calls;
        ct_block_unattend(g.block, CT_ATTENTION_GUARD);
    }
    return result;
}

/* ---- transactions ---- */

/* The file may have been loaded again at the same place: then our bytes are not there. */
static bool was_loaded_anew(const struct ct_hook_record *r) {
    const struct ct_patch *entry = &r->plan.patches[0];
    uint8_t now[CT_PATCH_MAX];
    return r->installed && r->plan.patch_count &&
           (ct_os_peek(entry->at, now, entry->size) || memcmp(now, entry->bytes, entry->size));
}

/* Hooks in a module that was unloaded are gone with it. */
static void forget_unloaded(struct ct_hooks *set) {
    if (!ct_hook_code_map_refresh(&set->code))
        return;
    for (size_t i = 0; i < set->table_size; i++) {
        struct ct_hook_record *r = set->table[i];
        if (r && !r->module->gone && was_loaded_anew(r))
            r->module->gone = true;
    }
    for (size_t i = 0; i < set->table_size; i++) {
        struct ct_hook_record *r = set->table[i];
        if (r && r->module->gone) {
            r->installed = false;
            r->state = CT_HOOK_GONE;
        }
    }
}

static void begin_transaction(struct ct_hooks *set) {
    forget_unloaded(set);
    set->in_transaction = true;
    set->skips_before = set->skip_count;
    set->change_count = 0;
    set->plan_ns = 0;
    set->failure = 0;
}

static enum ct_hook_state state_after(const struct ct_change *c) {
    if (c->kind == CT_CHANGE_LODGE || c->record->request.action == CT_ACTION_PASS)
        return CT_HOOK_LODGING;
    return c->record->request.action == CT_ACTION_NONE ? CT_HOOK_SERVICE : CT_HOOK_LIVE;
}

static void settle_states(struct ct_hooks *set) {
    for (size_t i = 0; i < set->change_count; i++) {
        struct ct_hook_record *r = set->changes[i].record;
        if (set->changes[i].kind == CT_CHANGE_REVERT) {
            ct_plan_release(&r->request, &r->plan);
            r->state = CT_HOOK_GONE;
            r->installed = false;
        } else {
            r->state = state_after(&set->changes[i]);
        }
    }
    /* A hook that was removed may have withdrawn the room of one that took its place. */
    for (size_t i = 0; i < set->change_count; i++) {
        const struct ct_hook_record *r = set->changes[i].record;
        if (r->installed)
            ct_springboards_offer(r->request.scan, r->plan.place, r->plan.place + r->plan.room);
    }
}

static int commit_transaction(struct ct_hooks *set) {
    int status = set->failure;
    if (!status && set->change_count)
        status = ct_set_settle_hosts(set);
    if (!status && set->change_count)
        status = ct_set_plan_services(set);
    if (!status && set->change_count)
        status = ct_set_apply(set);
    set->in_transaction = false;
    if (status) {
        ct_set_forget(set);
        return status;
    }
    set->services_done |= set->change_count != 0;
    settle_states(set);
    set->change_count = 0;
    return 0;
}

int ct_hooks_begin(struct ct_hooks *set) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    if (set->in_transaction)
        return ct_set_unlock(set, g, CT_ERR_BAD_STATE);
    begin_transaction(set);
    return ct_set_unlock(set, g, 0);
}

int ct_hooks_commit(struct ct_hooks *set) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    return ct_set_unlock(set, g, set->in_transaction ? commit_transaction(set) : CT_ERR_BAD_STATE);
}

void ct_hooks_abort(struct ct_hooks *set) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return;
    if (set->in_transaction)
        ct_set_forget(set);
    set->in_transaction = false;
    (void)ct_set_unlock(set, g, 0);
}

/* A change outside a transaction is a transaction of its own. Returns what the change returned, or why it did not take
 * effect. A change that fails inside a transaction makes all of it fail. */
int ct_set_finish_single(struct ct_hooks *set, bool single, int result) {
    if (!single) {
        if (result < 0 && !set->failure)
            set->failure = result;
        return result;
    }
    if (result < 0) {
        ct_set_forget(set);
        set->in_transaction = false;
        return result;
    }
    int status = commit_transaction(set);
    return status ? status : result;
}

bool ct_set_begin_single(struct ct_hooks *set) {
    bool single = !set->in_transaction;
    if (single)
        begin_transaction(set);
    return single;
}

struct ct_hook_record *ct_set_record(struct ct_hooks *set, int hook) {
    if (hook < (int)set->first_number || (uint32_t)hook >= set->next_number || !set->records[hook])
        return NULL;
    struct ct_hook_record *r = set->records[hook];
    bool users = r->state != CT_HOOK_GONE && r->state != CT_HOOK_SERVICE && !ct_set_is_lodging(r);
    return r->request.number == (uint32_t)hook && users ? r : NULL;
}
