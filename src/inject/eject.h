/* Taking hooks and agent out of a target, by what lies in the target itself: so a recorder can clean up after another one that
 * was killed. The order is the reverse of inject.h's; dying in the middle leaves something that can be cleaned up again.
 *
 * What lies there may be anybody's work, also in a process that was never recorded. Nothing of it is called, every table has a
 * bound of ours, no list is followed further than that, and the time of a stop is limited by the caller (ct_remote_limit). */
#ifndef CT_INJECT_EJECT_H
#define CT_INJECT_EJECT_H

#include "abi/boot_abi.h"
#include "remote/remote.h"

/* A thread at `pc` goes to `to` when the patch there is taken back. */
struct ct_eject_forward {
    uint64_t pc, to;
};

struct ct_ejection {
    struct ct_remote *remote;
    uint64_t address; /* of boot */
    struct ct_boot boot;
    /* of all codes of boot */
    struct ct_boot_patch *patches;
    struct ct_boot_region *regions;    /* by address, none touches another */
    struct ct_boot_region *maps;       /* that hold tables of libraries loaded later */
    struct ct_eject_forward *forwards; /* of the patches, by pc */
    struct ct_boot_region
        *blocks; /* memory of thread blocks and parked frames, as of the last settling; like regions */
    uint64_t patch_count, region_count, map_count, forward_count, block_count;
};

/* Looks for an agent in the stopped target. CT_ERR_NOT_FOUND: there is none. CT_ERR_UNSUPPORTED: one of another version.
 * CT_ERR_BAD_FILE: its tables are not what a recorder writes. *recorded: a living recorder holds it. Ended with ct_eject_close. */
int ct_eject_open(struct ct_ejection *e, struct ct_remote *remote, bool *recorded);
/* The same where no thread has been given its block yet, but it is known where boot lies. */
int ct_eject_open_at(struct ct_ejection *e, struct ct_remote *remote, uint64_t boot, bool *recorded);
void ct_eject_close(struct ct_ejection *e);

/* Puts entry bytes back, but for those of services (unwinders, longjmp, clone). The target is stopped, here and below. */
int ct_eject_hooks(struct ct_ejection *e);
/* With the hooks gone: puts real return addresses back on all stacks, and then the entry bytes of services. *settled false: a thread
 * is inside our code, let it run on and try again. CT_ERR_BAD_FILE: lists have no end, or are longer than any of ours. */
int ct_eject_settle(struct ct_ejection *e, bool *settled);
/* Nobody is, or will come back: everything of ours is unmapped, threads lose their blocks. */
int ct_eject_memory(struct ct_ejection *e);

#endif
