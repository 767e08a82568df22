/* SPDX-License-Identifier: Apache-2.0 */
/* Removes hooks and agent from a target, using only what is in the target itself. So a recorder can clean up after
 * another one that was killed. The order is the reverse of inject.h's; if we die in the middle, what is left can be
 * cleaned up again.
 *
 * Anybody may have written that memory, also in a process that was never recorded. None of it is called (but by threads
 * without a seccomp filter, to end a script's Stalker), every table has a limit of ours, no list is followed beyond it,
 * and the caller limits the time of a stop (ct_remote_limit). */
#ifndef CT_INJECT_EJECT_H
#define CT_INJECT_EJECT_H

#include "abi/boot_abi.h"
#include "remote/remote.h"

/* A thread at `pc` continues at `to` when the patch there is removed. */
struct ct_eject_forward {
    uint64_t pc, to;
};

struct ct_ejection {
    struct ct_remote *remote;
    uint64_t address; /* where boot is in the target */
    struct ct_boot boot;
    /* for all codes of boot */
    struct ct_boot_patch *patches;
    struct ct_boot_region *regions;    /* by address; none touches another */
    struct ct_boot_region *maps;       /* mappings with the tables of libraries loaded later */
    struct ct_eject_forward *forwards; /* for the patches, by pc */
    /* memory of thread blocks and parked frames, as of the last ct_eject_settle; like regions */
    struct ct_boot_region *blocks;
    uint64_t patch_count, region_count, map_count, forward_count, block_count;
    size_t map_room;
    bool own; /* the caller has put it there: its agent may be called without the process's seccomp filters */
};

/* Looks for an agent in the stopped target. CT_ERR_NOT_FOUND: there is none. CT_ERR_UNSUPPORTED: it has another
 * version. CT_ERR_BAD_FILE: a recorder does not write such tables. *recorded: a living recorder uses it. Release with
 * ct_eject_close. */
int ct_eject_open(struct ct_ejection *e, struct ct_remote *remote, bool *recorded);
/* Opens an agent whose boot is at a known address, before any thread has got its block. */
int ct_eject_open_at(struct ct_ejection *e, struct ct_remote *remote, uint64_t boot, bool *recorded);
void ct_eject_close(struct ct_ejection *e);

/* Restores entry bytes, except those of services (unwinders, longjmp, clone). Here and below the target is stopped. */
int ct_eject_hooks(struct ct_ejection *e);
/* Call this after ct_eject_hooks: restores real return addresses on all stacks, and then the entry bytes of services.
 * *settled false: a thread is inside our code; let it run and try again. CT_ERR_BAD_FILE: lists are endless, or longer
 * than any of ours. */
int ct_eject_settle(struct ct_ejection *e, bool *settled);
/* Call this when no thread is in our code, or will return to it: unmaps all our memory; threads lose their blocks. */
int ct_eject_memory(struct ct_ejection *e);

/* How the caller stops the target, and lets it go on. */
struct ct_eject_turns {
    int (*stop)(void *arg);
    void (*go_on)(void *arg);
    void *arg;
};
/* All of the above, and before it the end of a script's Stalker. Threads inside stubs run on for a moment, until there
 * are none, or the time is over. The target is stopped, and is again afterwards. *clean: nothing of ours is left; else
 * stubs with open calls stay, with what unwinders need for them. */
int ct_eject_all(struct ct_ejection *e, const struct ct_eject_turns *turns, uint64_t limit_ns, bool *clean);
/* Removes what recorders have left that were killed, also while they injected. CT_ERR_BUSY: one lives, or a thread is
 * still inside; CT_ERR_UNSUPPORTED, CT_ERR_BAD_FILE: it cannot be removed. */
int ct_eject_others(struct ct_remote *remote, const struct ct_eject_turns *turns, uint64_t limit_ns);

#endif
