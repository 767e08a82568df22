/* SPDX-License-Identifier: Apache-2.0 */
/* Callers and callees of functions, as trees that start at each function the user asked for.
 *
 * A row of the callers is a path into the function: it has the calls and the time of the function when it is called on
 * this path. A row of the callees is a path out of it: it has the calls and the time of the callee. As in the report, a
 * row's time is the time in which such a call is open. So a recursion counts once in each row, and the rows of a
 * recursion may add up to more than the function's own time.
 *
 * Calls that were open at the end are closed there; calls whose end was lost have no time; time in gaps counts for no
 * function. Callers and callees of calls that fit need not fit themselves. Of calls that overlap the selected time,
 * only the part in it counts. Memory grows with the number of paths of at most `depth` calls, not with the number of
 * events. */
#ifndef CT_REPORT_GRAPH_H
#define CT_REPORT_GRAPH_H

#include "report/function_cache.h"
#include "trace/frames.h"
#include <contrail/trace.h>

enum { CT_GRAPH_MAX_DEPTH = 16 };

/* The only list; the names are what the user types. */
#define CT_GRAPH_SORT_LIST(X) X(TOTAL, "total") X(SELF, "self") X(CALLS, "calls") X(NAME, "name")
enum ct_graph_sort {
#define CT_GRAPH_SORT_ENUM(name, text) CT_GRAPH_BY_##name,
    CT_GRAPH_SORT_LIST(CT_GRAPH_SORT_ENUM)
#undef CT_GRAPH_SORT_ENUM
};

struct ct_graph_options {
    struct ct_select select;        /* `functions` and `modules`: where the trees start */
    uint64_t limit;                 /* functions, and rows below each row; 0: all */
    uint64_t depth;                 /* levels of callers and of callees, 1 to CT_GRAPH_MAX_DEPTH */
    enum ct_graph_sort sort;        /* of functions, and of the rows below each row */
    const char *const *directories; /* further places of debug files, for arguments in `where`; may be NULL */
};

struct ct_graph_node {
    const struct ct_cached_function *known; /* NULL: calls whose caller was not recorded */
    uint64_t calls;
    uint64_t timed; /* calls with a time */
    uint64_t total_ns;
    uint64_t self_ns; /* total without the calls that were made in it */
    struct ct_open_time open_time;
    struct ct_graph_node **children; /* sorted; ties by calls, then by name */
    size_t child_count, child_capacity;
    size_t shown;         /* children before the limit */
    uint64_t child_calls; /* of all children */
    unsigned depth;       /* nodes above it */
};

struct ct_graph_function {
    struct ct_graph_node callers, callees; /* both start with the function itself, with its calls and time */
    uint64_t exceptions, open, unpaired;
};

struct ct_graph {
    struct ct_graph_function **functions; /* sorted; ties by calls, then by name */
    size_t function_count, function_capacity;
    size_t shown; /* functions before the limit */
    uint64_t threads, gaps, lost;
    struct ct_function_cache names;
};

int ct_graph_make(struct ct_graph **out, struct ct_trace *trace, const struct ct_graph_options *options);
void ct_graph_free(struct ct_graph *graph);

struct ct_json;
void ct_graph_json(const struct ct_graph *graph, const struct ct_trace *trace, struct ct_json *json);

/* A part of ct_graph_make: sorts the trees, and counts what the limit leaves. */
void ct_graph_arrange(struct ct_graph *graph, enum ct_graph_sort sort, uint64_t limit);
/* Returns the row for `known` below `parent`; adds it when there is none. NULL: out of memory. */
struct ct_graph_node *ct_graph_child(struct ct_graph_node *parent, const struct ct_cached_function *known);
/* Sorts what is below the node, and counts what the limit leaves. */
void ct_graph_arrange_node(struct ct_graph_node *node, enum ct_graph_sort sort, uint64_t limit);
/* Frees what is below the node. */
void ct_graph_free_children(struct ct_graph_node *node);

#endif
