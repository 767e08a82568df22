/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that count edges share. */
#ifndef CT_QUERY_EDGES_INTERNAL_H
#define CT_QUERY_EDGES_INTERNAL_H

#include "query/edges.h"
#include "query/wanted.h"
#include "report/scan.h"

/* ---- a table of edges (edges_table.c) ---- */

struct ct_edge_table {
    struct ct_edge *edges;
    size_t count, room;
    uint32_t *slots;   /* number of an edge + 1; 0: empty */
    size_t slot_count; /* a power of two */
};

/* The number of the edge + 1; 0: out of memory. */
uint32_t ct_edge_table_find(struct ct_edge_table *table, size_t process, uint64_t caller, uint64_t callee);
/* Adds the counts of `e`. False: out of memory. */
bool ct_edge_table_add(struct ct_edge_table *table, const struct ct_edge *e);
void ct_edge_table_free(struct ct_edge_table *table);

/* ---- the calls of a part of a thread ---- */

struct ct_edge_part {
    size_t thread;
    uint64_t first, end; /* positions of ends of calls */
};

struct ct_edge_reading {
    struct ct_source *source;
    struct ct_edge_table *table;
    const struct ct_edge_part *part;
    struct ct_scan scan;
    struct ct_frames frames;
    struct ct_wanted functions; /* all of them */
    size_t process;
    bool failed; /* out of memory */
};

/* Is the function recorded on entry only? */
bool ct_edge_entry_only(struct ct_edge_reading *reading, uint64_t function);
/* Now and then: time to see whether anybody still wants the answer. Returns 0 or a status. */
int ct_edge_pass(struct ct_source *source, uint64_t events);

/* Counts the part from where the scan is, when its events are plain: each call at the depth that is reached, each end
 * one of the innermost call, no time that goes back. *done: they were. Otherwise the table has some of the counts, and
 * the part must be counted again, without them. Returns 0 or a status (edges_plain.c). */
int ct_edge_count_plain(struct ct_edge_reading *reading, bool *done);

#endif
