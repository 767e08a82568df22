/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions call which: counted from all calls of a trace, on all processors. */
#ifndef CT_QUERY_EDGES_H
#define CT_QUERY_EDGES_H

#include "query/source.h"

struct ct_edge {
    size_t process;          /* index */
    uint64_t caller, callee; /* functions; caller 0: not recorded */
    uint64_t calls, timed;   /* timed: calls whose end is known */
    uint64_t total_ns, self_ns, max_ns;
};

/* `workers`: 0: one per processor; `part_events`: in a part of a busy thread, 0: as usual. Both 0 but for tests. */
int ct_edges_make(struct ct_edges *out, struct ct_source *source, unsigned workers, uint64_t part_events);
void ct_edges_free(struct ct_edges *edges);

#endif
