/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of DWARF, and where stubs are, x86_64. For unwind.c. */
#ifndef CT_STALK_UNWIND_X64_H
#define CT_STALK_UNWIND_X64_H

#include "stalk/cache.h"

/* COLUMN: of the return address. STUBS_OF_CACHE: each cache has its own. */
enum { COLUMN = 16, COLUMN_SP = 7, STUB_WORD = STALK_RETURN_WORD, STUBS_OF_CACHE = 1 };

/* Returns where they begin; 0: they are registered. */
static inline uint64_t stubs_to_register(const struct stalk_cache *c) {
    return c->return_chunk->run;
}

#endif
