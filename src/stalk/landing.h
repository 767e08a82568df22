/* SPDX-License-Identifier: Apache-2.0 */
/* What landing.c needs of the machine (landing_<isa>.c). */
#ifndef CT_STALK_LANDING_H
#define CT_STALK_LANDING_H

#include "isa/isa.h"
#include "stalk/cache.h"

enum {
    STALK_LANDING_SLOT = 64,
    STALK_LANDING_AT = STALK_LANDING_SLOT - 8, /* the application's return address */
};

/* Writes the code of a slot. `code` ends where the slot has the application's return address, and is that long at
 * most. */
bool ct_stalk_put_landing(struct ct_code_buf *code, const struct stalk_region *r);

#endif
