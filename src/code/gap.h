/* SPDX-License-Identifier: Apache-2.0 */
/* Free address space near code. */
#ifndef CT_CODE_GAP_H
#define CT_CODE_GAP_H

#include <stddef.h>
#include <stdint.h>

struct ct_gap_request {
    uint64_t start, end; /* the range to serve */
    uint64_t reach;      /* largest distance from any byte of the range to any byte of the gap */
    size_t size;
    uint64_t room; /* distance to keep above the end of the heap and below stacks, because they grow */
};

/* Finds the address nearest to the served range that fits, aligned to 64 KiB and at least 64 KiB from its neighbours.
 * CT_ERR_OUT_OF_RANGE when there is none. Another thread may take the address first: reserve it without replacing. */
int ct_gap_find(const struct ct_gap_request *request, uint64_t *address);

#endif
