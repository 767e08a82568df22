/* SPDX-License-Identifier: Apache-2.0 */
/* How often functions were called, where `contrail stalk` has counted that: over all callers, threads and processes.
 * From the tables in the directories of processes (docs/TRACE-FORMAT.md: calls). */
#ifndef CT_CLI_CALL_COUNTS_H
#define CT_CLI_CALL_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#define CT_CALLS_FILE "calls"

struct ct_call_count {
    char *name; /* with its module */
    uint64_t id, count;
};

struct ct_call_counts {
    struct ct_call_count *list;
    size_t count, room;
    uint64_t calls; /* in all */
};

/* Adds those of the process in a directory. 0, or an errno (ENOENT: it has none). */
int ct_call_counts_add(struct ct_call_counts *counts, const char *directory);
/* Most calls first. */
void ct_call_counts_sort(struct ct_call_counts *counts);
void ct_call_counts_free(struct ct_call_counts *counts);

#endif
