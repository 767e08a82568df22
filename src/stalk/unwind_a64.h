/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of DWARF, and where stubs are, arm64. See unwind_x64.h. */
#ifndef CT_STALK_UNWIND_A64_H
#define CT_STALK_UNWIND_A64_H

#include "stalk/cache.h"
#include "stalk/machine_a64.h"
#include "stalk/unwind.h"

enum { COLUMN = 30, COLUMN_SP = 31, STUB_WORD = STALK_LANDING_WORD + 4, STUBS_OF_CACHE = 0 };

/* Landing slots belong to no Stalker, and stay. */
static inline uint64_t stubs_to_register(const struct stalk_cache *c) {
    static uint32_t registered;
    (void)ct_stalk_landing(c->stalker, 0); /* a slot for no address: makes the room for all */
    return ct_stalk_landings() && !__atomic_exchange_n(&registered, 1, __ATOMIC_ACQ_REL) ? ct_stalk_landings() : 0;
}

#endif
