/* SPDX-License-Identifier: Apache-2.0 */
/* Tables whose rows are in memory. Part of rows.h. */
#ifndef CT_QUERY_LISTS_H
#define CT_QUERY_LISTS_H

#include "query/rows.h"

struct ct_list_pair {
    uint64_t first, second;
};

/* The rows of such a table. */
struct ct_list {
    struct ct_rows rows;
    size_t count, next;
    struct ct_list_pair *pairs; /* what each row is about, where its number does not say it; freed with the list */
    size_t room;
    void *memory; /* of the table */
    char text[512];
};

struct ct_list_class {
    int (*open)(struct ct_list *list, const struct ct_ask *ask); /* sets `count` */
    void (*cell)(struct ct_list *list, size_t row, int column, struct ct_cell *cell);
    void (*close)(struct ct_list *list); /* NULL: nothing to do */
};

/* Adds a row with this pair. False: out of memory. */
bool ct_list_add(struct ct_list *list, uint64_t first, uint64_t second);
/* The class of a table of moments.c. */
const struct ct_list_class *ct_list_of_moments(enum ct_table_id table);

#endif
