/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorder has left in a stopped target if it was killed while it injected, before threads and tables led to its
 * memory. The shared memory is found by its name, and lists the rest (abi/shm_abi.h: reserved, boot, struct
 * ct_shm_regions).
 *
 * The lists come from the target: what they name is unmapped, and not used otherwise. A region is unmapped only if it
 * is still mapped as ours was: the program may have something else there by now. */
#ifndef CT_INJECT_EJECT_LEFT_H
#define CT_INJECT_EJECT_LEFT_H

#include "abi/boot_abi.h"
#include "abi/shm_abi.h"
#include <stdbool.h>
#include <stddef.h>

struct ct_remote;

struct ct_left {
    struct ct_remote *remote;
    struct ct_shm_control control;
    uint64_t lane; /* where the shared memory is; 0: there is none */
    struct ct_boot_region list[CT_SHM_REGIONS + 1];
    size_t count;
};

/* CT_ERR_NOT_FOUND: nothing is left. */
int ct_left_find(struct ct_left *left, struct ct_remote *remote);
/* Is a thread there, or will it return there? Also true if there is no time to check. */
bool ct_left_is_entered(struct ct_left *left);
int ct_left_unmap(struct ct_left *left);

#endif
