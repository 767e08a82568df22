/* Private to src/inject/eject*.c. */
#ifndef CT_INJECT_EJECT_INTERNAL_H
#define CT_INJECT_EJECT_INTERNAL_H

#include "inject/eject.h"

/* Sorts by address and joins what touches or overlaps. CT_ERR_BAD_FILE: one goes over the end of memory. */
int ct_eject_tidy(struct ct_boot_region *regions, uint64_t *count);

/* Puts real return addresses on all stacks (eject_stacks.c) and notes where the blocks are. *bare: that was possible; false: somebody
 * is in the middle of something. */
int ct_eject_bare_stacks(struct ct_ejection *e, bool *bare);

#endif
