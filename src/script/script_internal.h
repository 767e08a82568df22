/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/script share: see script.h.
 *
 * Locks: `work` is held by whoever uses the remote or changes hooks; it may be waited for long. `slots` is held for
 * moments, by whoever takes requests. `text` protects the sentence about the last failure. */
#ifndef CT_SCRIPT_SCRIPT_INTERNAL_H
#define CT_SCRIPT_SCRIPT_INTERNAL_H

#include "abi/script_abi.h"
#include "drain/clock.h"
#include "inject/inject.h"
#include "script/script.h"
#include <pthread.h>

#define CT_SCRIPT_STILL_MS 2000u /* the longest stop of the target */

#define CT_SCRIPT_PROBES   1024u

/* Modules that were planned in one step: at the start, and when libraries were loaded later. */
struct ct_script_plan {
    struct ct_target_plan *plan;
    uint32_t first_hook;
};

/* A hook, by its number. */
struct ct_script_hooked {
    const struct ct_target_hook *hook;
    bool wanted;     /* a script wants it */
    bool in_place;   /* its bytes are in the target */
    uint32_t guests; /* hooks in place whose springboards are in its bytes */
};

struct ct_script_memory {
    uint64_t address, size;
    uint32_t listed; /* index of the entry of struct ct_script_join that has it; 0: none */
};

struct ct_script {
    struct ct_remote *remote;
    int pid;
    bool spawned, resumed;
    bool borrowed;        /* `remote` is the recorder's, and stays as it is: ct_script_join */
    bool other_namespace; /* numbers of threads differ there */
    struct ct_script_options options;
    struct ct_injection injection;
    struct ct_script_guest *guest; /* the recording beside which the script runs; NULL: none (script_guest.h) */
    struct ct_lane lane;
    struct ct_clock clock;
    uint64_t spin_counts; /* of the CPU counter: as the agent has it, but the target cannot change it */
    struct ct_script_shared *shared;
    struct ct_script_plan *plans;
    size_t plan_count, plan_room;
    uint32_t next_module, next_hook;
    struct ct_script_hooked *hooked; /* by number */
    size_t hooked_room;
    uint64_t hooked_count;
    uint64_t hook_table; /* struct ct_hook_entry [], in the target */
    struct ct_script_memory *memory;
    size_t memory_count, memory_room;
    char *counters[CT_SCRIPT_COUNTERS]; /* names; under `work` */
    uint64_t main_base;
    struct ct_process *process; /* for lines and stacks; NULL: not needed so far. Under `work` */

    pthread_mutex_t work, slots, text;
    pthread_mutex_t worker; /* held by whoever makes the worker, or gives it work */
    uint64_t worker_stack;  /* for the call of pthread_create */
    bool worker_asked;
    bool watches_faults;
    bool watches_modules;                                 /* atomic */
    uint32_t modules_changed, modules_told, modules_seen; /* counts, atomic; modules_told is under `slots` */
    uint64_t thunks; /* memory for callbacks: how many are used, and where the last page is */
    uint32_t thunk_count;
    uint32_t taken[CT_SCRIPT_SLOTS];   /* word of the request that was taken last; under `slots` */
    uint32_t running[CT_SCRIPT_SLOTS]; /* how many ct_script_run wait for it; under `slots` */
    uint32_t shut, gone;               /* atomic: enum ct_script_life of the end, in `gone` */
    bool told_gone;                    /* under `slots` */
    int exit_status;
    /* the Stalker */
    const struct ct_target_module *looked_at; /* ct_script_has_small_stacks: the last one */
    bool small_stacks;
    int32_t trust;
    uint32_t queue_capacity, drain_interval_ms, excluded_count;
    uint64_t tail, batch_bytes, lost_told; /* of the ring of events; under `slots`, as is: */
    bool told_events;
    int32_t probes[CT_SCRIPT_PROBES]; /* the agent's number of each; -1: removed. Under `work` */
    uint32_t probe_count;
    pthread_t service;
    bool serving;
    uint32_t stop_service;
    char error[640];
};

int ct_script_fail(struct ct_script *s, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- into the target and out of it (script_enter.c); `work` is held ---- */

int ct_script_enter(struct ct_script *s);
/* *clean: nothing of ours is left. */
int ct_script_leave(struct ct_script *s, bool *clean);
/* Memory that ct_script_alloc gave. False: a thread is there. The target is stopped. */
bool ct_script_unmap_memory(struct ct_script *s);
/* Was the target stopped by somebody else, who lets it go on? */
static inline bool ct_script_stays_stopped(const struct ct_script *s) {
    return s->spawned || s->borrowed;
}
/* Has a thread that runs this function no room on its stack for a listener (3 KiB)? */
bool ct_script_has_small_stacks(struct ct_script *s, uint64_t address);
int ct_script_no_room(struct ct_script *s, uint64_t address); /* says so */
/* Plans libraries that were loaded since. */
int ct_script_update(struct ct_script *s);
/* Stops the target, unless it is stopped already; *was tells ct_script_go_on. */
int ct_script_stop(struct ct_script *s, bool *was);
void ct_script_go_on(struct ct_script *s, bool was);

/* ---- the thread that shows that we live, and serves the agent's own requests (script_service.c) ---- */

int ct_script_start_service(struct ct_script *s);
void ct_script_stop_service(struct ct_script *s);
bool ct_script_is_gone(const struct ct_script *s);
void ct_script_ring(struct ct_script *s);

/* ---- slots (script_wait.c) ---- */

struct ct_script_slot *ct_script_slot_of(struct ct_script *s, const struct ct_script_request *request, uint32_t *word);
/* Takes a request whose parent is this slot (from 1; 0: of no work that somebody waits for). */
bool ct_script_take(struct ct_script *s, uint32_t parent, struct ct_script_request *out);
/* Does this thread wait for an answer? */
bool ct_script_waits(const struct ct_script *s, int tid);
/* It is our turn, if the request still waits. */
bool ct_script_begin_answer(struct ct_script_slot *slot, uint32_t word);
/* CT_ERR_TIMEOUT: its thread has gone on. */
int ct_script_end_answer(struct ct_script_slot *slot, uint32_t word, uint32_t state);
/* Waits for news about work after `heard`, at most this long; spins first. */
void ct_script_await(struct ct_script *s, uint32_t heard, uint32_t timeout_ms);
static inline uint32_t ct_script_heard(const struct ct_script *s) {
    return __atomic_load_n(&s->shared->bell, __ATOMIC_ACQUIRE);
}

int ct_script_outer_tid(const struct ct_script *s, int tid);

/* ---- libraries that come and go (script_modules.c) ---- */

/* On the service's thread: the controller hears of it, and has looked when this returns, if it does in time. */
void ct_script_tell_modules(struct ct_script *s);
/* Is there news that nobody was told of? */
bool ct_script_take_modules(struct ct_script *s, uint64_t *ticket);

/* ---- the thread for calls outside of callbacks (script_worker.c) ---- */

/* Makes it, at the first call. The request is its slot's. */
int ct_script_worker(struct ct_script *s, struct ct_script_request *request);

/* ---- the Stalker (script_stalk.c) ---- */

/* Code was changed while the target is stopped. */
int ct_script_code_changed(struct ct_script *s, uint64_t address);
/* Are there events that nobody was told of? */
bool ct_script_has_events(struct ct_script *s);
uint64_t ct_script_lost_events(struct ct_script *s);

/* ---- what is in the target (script_lists.c) ---- */

void ct_script_free_lists(struct ct_script *s);
/* Address of a function that a module exports; 0: none does. */
uint64_t ct_script_export(struct ct_script *s, const char *name);

#endif
