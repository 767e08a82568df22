/* SPDX-License-Identifier: Apache-2.0 */
/* The index by name: all names of all functions, also those that ct_functions_name does not return (stat64 is stat). */
#include "symbols/table.h"
#include <contrail/status.h>
#include <stdlib.h>

#define MAX_PROBES 1024u

static uint32_t hash_of(const char *name, size_t length) {
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)name[i]) * 1099511628211u;
    return (uint32_t)(hash ^ hash >> 32);
}

/* The slot of the name, or the free one where it belongs. NULL: more slots in a row are taken than happens by
 * chance. */
static struct ct_name_slot *slot_of(const struct ct_functions *table, const char *name, uint32_t *hash) {
    size_t length = ct_symbol_name_length(name), mask = table->index_size - 1;
    *hash = hash_of(name, length);
    for (size_t i = 0; i < MAX_PROBES; i++) {
        struct ct_name_slot *slot = &table->index[(*hash + i) & mask];
        const char *other = table->names + slot->name;
        if (!slot->name)
            return slot;
        if (slot->hash == *hash && strncmp(other, name, length) == 0 && ct_symbol_name_length(other) == length)
            return slot;
    }
    return NULL;
}

int ct_names_create(struct ct_functions *table, size_t count) {
    size_t size = 2;
    while (size < 2 * count)
        size *= 2;
    table->index = calloc(size, sizeof *table->index);
    table->index_size = size;
    return table->index ? 0 : CT_ERR_NO_MEMORY;
}

void ct_names_add(struct ct_functions *table, uint32_t name, size_t func) {
    uint32_t hash;
    struct ct_name_slot *slot = slot_of(table, table->names + name, &hash);
    if (slot && !slot->name)
        *slot = (struct ct_name_slot){.name = name, .func = (uint32_t)func, .hash = hash};
}

const struct ct_func *ct_functions_by_name(const struct ct_functions *table, const char *name) {
    if (!*name || !table->index)
        return NULL;
    uint32_t hash;
    const struct ct_name_slot *slot = slot_of(table, name, &hash);
    return slot && slot->name ? &table->funcs[slot->func] : NULL;
}
