/* SPDX-License-Identifier: Apache-2.0 */
/* A hook set: records of all hooks, the open transaction, and how it is carried out. Private to src/hook. Everything
 * here is used under the set's mutex. */
#ifndef CT_HOOK_SET_H
#define CT_HOOK_SET_H

#include "hook/module.h"
#include <pthread.h>

#define CT_HOOKS_MAX      (1u << 20)
#define CT_DEFAULT_EVENTS (1u << 14) /* per thread and buffer */

enum ct_hook_state {
    CT_HOOK_PLANNED, /* in the open transaction */
    CT_HOOK_LIVE,
    CT_HOOK_DISABLED,
    CT_HOOK_SERVICE, /* in place for the engine's own needs only */
    CT_HOOK_LODGING, /* in place for springboards in its bytes only (hosts.c) */
    CT_HOOK_GONE,
};

struct ct_hook_record {
    struct ct_plan plan;
    struct ct_plan_request request; /* as planned; request.number is the current one */
    struct ct_hook_module *module;
    const char *name;
    bool by_module; /* asked for through its module */
    bool installed; /* its patches are in place, or will be at commit */
    enum ct_hook_state state;
    /* Of hosts.c, during a commit: it will be removed; hooks that stay and have a springboard in its bytes. */
    bool leaving;
    uint32_t guests;
};

struct ct_skip_record {
    uint64_t function;
    const char *name;
    const char *module;
    enum ct_hook_skip_reason reason;
};

enum ct_change_kind {
    CT_CHANGE_INSTALL, /* new patches */
    CT_CHANGE_ADOPT,   /* a service hook becomes the user's */
    CT_CHANGE_REVERT,
    CT_CHANGE_LODGE, /* a hook is removed whose bytes hold springboards: only its stub changes */
};

struct ct_change {
    enum ct_change_kind kind;
    struct ct_hook_record *record;
    uint32_t old_number; /* of an adopted service hook */
    struct ct_plan_request old_request;
};

struct ct_hooks {
    pthread_mutex_t mutex;
    struct ct_runtime *runtime;
    struct ct_hook_code_map code;
    struct ct_hook_record **records; /* by number */
    uint32_t first_number, next_number, next_service;
    struct ct_skip_record *skips;
    size_t skip_count, skip_capacity;
    struct ct_change *changes;
    size_t change_count, change_capacity;
    size_t skips_before; /* of the open transaction */
    /* Function address to record; open addressing. */
    struct ct_hook_record **table;
    size_t table_size, table_used;
    bool in_transaction, services_done;
    bool has_hosts;            /* some hook has, or had, its springboard in the bytes of another function */
    int failure;               /* of a change in the open transaction: its commit will fail */
    bool closing, code_in_use; /* the set is going away; a thread is in its stubs, or will return to them */
    uint64_t plan_ns, stop_ns;
    char reason[512]; /* of the last hook that could not be planned */
};

/* ---- transaction.c ---- */

/* What an API call has to undo when it leaves. `status` is negative when the call may not go on: no set, or called from
 * a listener or sink. */
struct ct_set_guard {
    struct ct_block *block;
    uint64_t guarded_calls;
    int status;
};
struct ct_set_guard ct_set_lock(struct ct_hooks *set);
/* Returns `result`, for convenience. */
int ct_set_unlock(struct ct_hooks *set, struct ct_set_guard guard, int result);
/* Opens a transaction unless one is open; true when it did. */
bool ct_set_begin_single(struct ct_hooks *set);
int ct_set_finish_single(struct ct_hooks *set, bool single, int result);
/* The user's hook with this number, or NULL. */
struct ct_hook_record *ct_set_record(struct ct_hooks *set, int hook);

/* ---- hooks_names.c ---- */

/* Keeps for ct_hooks_reason why a function has no hook. `m` may be NULL; `skip` may be CT_HOOK_SKIP_NONE. */
void ct_set_note_failure(struct ct_hooks *set, uint64_t function, const struct ct_hook_module *m, int status,
                         enum ct_hook_skip_reason skip);

/* ---- hosts.c ---- */

bool ct_set_is_lodging(const struct ct_hook_record *record);
/* Adapts the changes of the open transaction: hosts stay as long as they have guests, and not longer. */
int ct_set_settle_hosts(struct ct_hooks *set);
/* Like ct_set_plan. If the function finds no room for a springboard, a neighbour without a hook becomes its host. */
int ct_set_plan_short(struct ct_hooks *set, struct ct_hook_module *module, size_t index, uint64_t function,
                      uint64_t end, enum ct_hook_action action, uint64_t detour, enum ct_hook_skip_reason *skip);
/* Makes the plan of a function that is hooked already, from its original bytes. */
enum ct_hook_skip_reason ct_set_plan_over(const struct ct_hooks *set, struct ct_hook_record *record,
                                          struct ct_code_buf *out);

/* ---- set.c, apply.c ---- */

struct ct_hook_record *ct_set_find(const struct ct_hooks *set, uint64_t function);
/* Plans a hook and adds it to the open transaction. Returns its number, or a negative status; *skip says why not. */
int ct_set_plan(struct ct_hooks *set, struct ct_hook_module *module, size_t index, uint64_t function, uint64_t end,
                enum ct_hook_action action, uint64_t detour, bool service, enum ct_hook_skip_reason *skip);
int ct_set_add_change(struct ct_hooks *set, struct ct_change change);
/* Carries out the open transaction with the other threads stopped. If it fails, nothing has changed. */
int ct_set_apply(struct ct_hooks *set);
/* Forgets everything planned since begin. */
void ct_set_forget(struct ct_hooks *set);
/* Hooks that the engine itself needs: thread creation, longjmp, unwinders. */
int ct_set_plan_services(struct ct_hooks *set);
/* Fills the runtime's view of a record, before its patch makes it reachable. */
void ct_set_publish(struct ct_hooks *set, const struct ct_hook_record *record, const struct ct_hook_listener *listener,
                    void *user);
/* Makes the stub's number and first word follow the record's request. */
int ct_set_rewrite_stub(struct ct_hook_record *record);

#endif
