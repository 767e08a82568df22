/* SPDX-License-Identifier: Apache-2.0 */
/* What is open at depths of other stacks than a thread's first one (ATF_DEPTH_OTHER): few of very many possible depths,
 * in no order. Memory grows with the number of entries, not with the depths. One owner; all zero is an empty table. */
#ifndef CT_TRACE_DEPTHS_H
#define CT_TRACE_DEPTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_depths {
    struct ct_depths_slot {
        uint64_t value;
        uint32_t depth; /* 0: free */
    } * slots;
    size_t count, capacity; /* a power of two */
};

/* Replaces an older value. False: out of memory. */
bool ct_depths_put(struct ct_depths *depths, uint32_t depth, uint64_t value);
/* False: nothing is open there. */
bool ct_depths_get(const struct ct_depths *depths, uint32_t depth, uint64_t *value);
void ct_depths_remove(struct ct_depths *depths, uint32_t depth);
void ct_depths_clear(struct ct_depths *depths);
void ct_depths_free(struct ct_depths *depths);

#endif
