/* Free address space near code. */
#ifndef CT_CODE_GAP_H
#define CT_CODE_GAP_H

#include <stddef.h>
#include <stdint.h>

struct ct_gap_request {
    uint64_t start, end; /* what is served */
    uint64_t reach;      /* at most this far from any byte of it to any byte of the gap */
    size_t size;
    uint64_t room; /* stay this far above the heap's end and below stacks: they grow */
};

/* The fitting address that is nearest to the served range, aligned to 64 KiB and at least as far from its neighbours;
 * CT_ERR_OUT_OF_RANGE when there is none. Another thread may take it first: reserve without replacing. */
int ct_gap_find(const struct ct_gap_request *request, uint64_t *address);

#endif
