/* SPDX-License-Identifier: Apache-2.0 */
/* A table of things by process and function id. Each thing begins with its key. One owner. */
#ifndef CT_TRACE_TABLE_H
#define CT_TRACE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_table_key {
    size_t process; /* index */
    uint64_t function;
};

struct ct_table {
    struct ct_table_key **slots; /* NULL: empty */
    size_t count, capacity;
};

/* Returns the thing with the key, or a new one of `size` bytes, zeroed but for its key. NULL: out of memory. The
 * pointer is valid until the table is cleared. */
void *ct_table_get(struct ct_table *table, size_t process, uint64_t function, size_t size);
/* `release` may be NULL. */
void ct_table_clear(struct ct_table *table, void (*release)(void *thing));
void ct_table_free(struct ct_table *table, void (*release)(void *thing));

#endif
