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

/* A return of the frame with this slot (hook/frame.h) to the stub's `resume` really goes to `ret`. */
struct ct_eject_return {
    uint64_t slot, resume, ret;
    uint64_t order; /* greater for entries that were pushed later, within a block */
};
/* Those with one slot. */
struct ct_eject_group {
    const struct ct_eject_return *at;
    size_t count;
};

/* `at` is sorted by slot, resume and order. */
struct ct_eject_group ct_eject_group_at(const struct ct_eject_return *at, size_t count, size_t first);
bool ct_eject_is_resume(const struct ct_eject_group *group, uint64_t value);
/* Where a return to `value`, an address of a stub, really goes. */
int ct_eject_real_return(const struct ct_remote *remote, const struct ct_eject_group *group, uint64_t value,
                         uint64_t *real);

/* Puts real addresses in the place of stubs', wherever the machine's frames have them (eject_frames_<isa>.c). `hooks`:
 * struct ct_hook_entry of the target, by hook number. */
int ct_eject_put_right(struct ct_ejection *e, const struct ct_eject_return *at, size_t count, uint64_t hooks);

/* Lets threads go that the agent of a script follows, and ends its Stalker (eject_followed.c). The target is stopped,
 * and is again afterwards. CT_ERR_BUSY: not all of them in time. */
int ct_eject_followed(struct ct_ejection *e, const struct ct_eject_turns *turns, uint64_t until);

#endif
