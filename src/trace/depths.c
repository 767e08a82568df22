/* SPDX-License-Identifier: Apache-2.0 */
/* Depths: a table with open addressing, at most half full. */
#include "trace/depths.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

static size_t home_of(const struct ct_depths *d, uint32_t depth) {
    return (size_t)(depth * 0x9e3779b97f4a7c15ull >> 32) & (d->capacity - 1);
}

/* The slot of a depth, or the free one where it would be. */
static struct ct_depths_slot *find_slot(const struct ct_depths *d, uint32_t depth) {
    size_t i = home_of(d, depth);
    while (d->slots[i].depth && d->slots[i].depth != depth)
        i = (i + 1) & (d->capacity - 1);
    return &d->slots[i];
}

static bool grow_table(struct ct_depths *d) {
    struct ct_depths grown = {.capacity = d->capacity ? 2 * d->capacity : FIRST_CAPACITY, .count = d->count};
    if (!(grown.slots = calloc(grown.capacity, sizeof *grown.slots)))
        return false;
    for (size_t i = 0; i < d->capacity; i++)
        if (d->slots[i].depth)
            *find_slot(&grown, d->slots[i].depth) = d->slots[i];
    free(d->slots);
    *d = grown;
    return true;
}

bool ct_depths_put(struct ct_depths *d, uint32_t depth, uint64_t value) {
    if (2 * (d->count + 1) > d->capacity && !grow_table(d))
        return false;
    struct ct_depths_slot *slot = find_slot(d, depth);
    d->count += !slot->depth;
    *slot = (struct ct_depths_slot){value, depth};
    return true;
}

bool ct_depths_get(const struct ct_depths *d, uint32_t depth, uint64_t *value) {
    const struct ct_depths_slot *slot = d->count ? find_slot(d, depth) : NULL;
    if (!slot || !slot->depth)
        return false;
    *value = slot->value;
    return true;
}

/* The entries after it move up, unless that would put them before their own slot. */
void ct_depths_remove(struct ct_depths *d, uint32_t depth) {
    struct ct_depths_slot *slot = d->count ? find_slot(d, depth) : NULL;
    if (!slot || !slot->depth)
        return;
    size_t hole = (size_t)(slot - d->slots), mask = d->capacity - 1;
    for (size_t i = (hole + 1) & mask; d->slots[i].depth; i = (i + 1) & mask) {
        size_t from_home = (i - home_of(d, d->slots[i].depth)) & mask;
        if (from_home < ((i - hole) & mask))
            continue;
        d->slots[hole] = d->slots[i];
        hole = i;
    }
    d->slots[hole].depth = 0;
    d->count--;
}

void ct_depths_clear(struct ct_depths *d) {
    if (d->count)
        memset(d->slots, 0, d->capacity * sizeof *d->slots);
    d->count = 0;
}

void ct_depths_free(struct ct_depths *d) {
    free(d->slots);
    *d = (struct ct_depths){0};
}
