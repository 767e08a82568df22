/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the agent and the hooks into a stopped target.
 *
 * All of it happens between ct_remote_stop and ct_remote_resume (or in a process that was spawned and is stopped). If
 * we die in the middle, the target runs on. The order is: memory, every thread's GS, threads are moved out of the way,
 * patches; of those the services (clone, longjmp, unwinders) come first. Everything that is needed to undo this is in
 * the target (abi/boot_abi.h): see eject.h. */
#ifndef CT_INJECT_INJECT_H
#define CT_INJECT_INJECT_H

#include "drain/lane.h"
#include "plan/target_plan.h"

struct ct_injection {
    struct ct_remote *remote;
    const struct ct_target_plan *plan;
    struct ct_lane *lane;
    /* What was mapped in the target; 0: not yet. */
    uint64_t image, image_size; /* agent, its stack, tables */
    uint64_t image_at;          /* where there is room for it, after the shared memory; 0: anywhere */
    uint64_t entry, stack, tables;
    uint64_t shm, shm_size; /* as reserved */
    size_t regions_mapped, listed;
    uint64_t boot, early_thread_pointer;
    uint64_t table, stray; /* as the agent reported */
    size_t own_blocks;     /* this many threads get blocks of their own from us */
    bool by_table;         /* the program uses GS itself */
    bool dormant;          /* only what the engine itself needs is patched: other hooks come later (rehook.h) */
    uint32_t hook_room;
    int refusal;    /* errno of the last system call that failed in the target; 0: none */
    size_t changed; /* hooks that were not installed because the code is not as planned */
};

struct ct_injection_options {
    struct ct_lane_options lane; /* hook_room is ignored */
    const uint8_t *agent;        /* NULL: ct_agent_image */
    bool dormant;                /* as in struct ct_injection */
    size_t max_depth;
};

/* Maps agent, stubs and shared memory, and makes thread blocks. Nothing is hooked yet. CT_ERR_BUSY: something else was
 * mapped where a region belongs; plan again. On failure everything is removed again. */
int ct_inject(struct ct_injection *in, struct ct_remote *remote, const struct ct_target_plan *plan,
              struct ct_lane *lane, const struct ct_injection_options *options, struct ct_remote_error *error);
/* For the child of a recorded process, which has everything already: replaces its parent's shared memory with its
 * own. */
int ct_inject_lane(struct ct_injection *in, struct ct_remote *remote, const struct ct_injection *parent,
                   struct ct_lane *lane, const struct ct_injection_options *options, struct ct_remote_error *error);
/* Where the shared memory is in the target. */
uint64_t ct_inject_lane_at(const struct ct_injection *in);
/* Adds libraries that were loaded since, in a target that has everything else. */
int ct_inject_more(struct ct_injection *in, const struct ct_target_plan *plan, uint32_t first_hook,
                   struct ct_remote_error *error);
/* Gives threads their blocks and writes the patches. */
int ct_inject_hooks(struct ct_injection *in, struct ct_remote_error *error);

#endif
