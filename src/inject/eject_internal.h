/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/inject/eject*.c. */
#ifndef CT_INJECT_EJECT_INTERNAL_H
#define CT_INJECT_EJECT_INTERNAL_H

#include "inject/eject.h"

/* Sorts by address and joins ranges that touch or overlap. CT_ERR_BAD_FILE: a range goes beyond the end of memory. */
int ct_eject_tidy(struct ct_boot_region *regions, uint64_t *count);

/* Restores real return addresses on all stacks (eject_stacks.c) and notes where the blocks are. *bare false: not
 * possible now, because some thread is in the middle of something. */
int ct_eject_bare_stacks(struct ct_ejection *e, bool *bare);

/* Lets threads go that the agent of a script follows, and ends its Stalker (eject_followed.c). The target is stopped,
 * and is again afterwards. CT_ERR_BUSY: not all of them in time. */
int ct_eject_followed(struct ct_ejection *e, const struct ct_eject_turns *turns, uint64_t until);

#endif
