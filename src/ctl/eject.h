/* Taking hooks and agent out of a target, by what lies in the target itself: so a recorder can clean up behind another one that
 * was killed. The order is the reverse of inject.h's; dying in the middle leaves something that can be cleaned up again. */
#ifndef CT_CTL_EJECT_H
#define CT_CTL_EJECT_H

#include "abi/boot_abi.h"
#include "remote/remote.h"

struct ct_ejection {
    struct ct_remote *remote;
    uint64_t address; /* of boot */
    struct ct_boot boot;
    /* of all codes of boot */
    struct ct_boot_patch *patches;
    struct ct_boot_region *regions;
    struct ct_boot_region *maps; /* that hold tables of libraries loaded later */
    uint64_t patch_count, region_count, map_count;
};

/* Looks for an agent in the stopped target. CT_ERR_NOT_FOUND: there is none. CT_ERR_UNSUPPORTED: one of another version.
 * *recorded tells whether a living recorder holds it. Ended with ct_eject_close. */
int ct_eject_open(struct ct_ejection *e, struct ct_remote *remote, bool *recorded);
/* The same where no thread has been given its block yet, but it is known where boot lies. */
int ct_eject_open_at(struct ct_ejection *e, struct ct_remote *remote, uint64_t boot, bool *recorded);
void ct_eject_close(struct ct_ejection *e);

/* Puts entry bytes back, but for those of services (unwinders, longjmp, clone). The target is stopped, here and below. */
int ct_eject_hooks(struct ct_ejection *e);
/* With the hooks gone: puts real return addresses back on all stacks, and then the entry bytes of services. False: a thread is inside
 * our code, let it run on and try again. */
bool ct_eject_settle(struct ct_ejection *e);
/* Nobody is, or will come back: everything of ours is unmapped, threads lose their blocks. */
int ct_eject_memory(struct ct_ejection *e);

#endif
