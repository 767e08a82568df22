/* SPDX-License-Identifier: Apache-2.0 */
/* Merged stacks: a tree in which each node is a stack of calls, with the calls and times of all threads that had it.
 *
 * The tree begins at the outermost calls that the selection fits; calls below them need not fit. The time of a node is
 * its own and that of the nodes below it: in a recursion, each call is a node, and each moment counts once in a row.
 * Time of calls whose end was lost does not count, nor does time in gaps. Functions that are recorded on entry only
 * have no time and are left out. Memory grows with the number of different stacks, up to a bound: calls after that
 * count for their callers. */
#ifndef CT_REPORT_FLAME_H
#define CT_REPORT_FLAME_H

#include "report/graph.h"

/* Deeper stacks are cut: nobody can read a higher picture. */
enum { CT_FLAME_MAX_DEPTH = 256, CT_FLAME_MAX_NODES = 1 << 18 };

struct ct_flame_options {
    struct ct_select select;
    enum ct_graph_sort sort;        /* of the nodes below each node */
    const char *const *directories; /* further places of debug files, for arguments in `where`; may be NULL */
};

struct ct_flame {
    struct ct_graph_node root; /* all stacks; it has no function */
    uint64_t threads, gaps, lost;
    bool cut; /* stacks were cut, or there were too many */
    struct ct_function_cache names;
};

int ct_flame_make(struct ct_flame **out, struct ct_trace *trace, const struct ct_flame_options *options);
void ct_flame_free(struct ct_flame *flame);

#endif
