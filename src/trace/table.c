/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing, at most half full. */
#include "trace/table.h"
#include <stdlib.h>

enum { FIRST_CAPACITY = 1024 };

static struct ct_table_key **find_slot(const struct ct_table *t, size_t process, uint64_t function) {
    uint64_t key = function + (uint64_t)process * 0x2545f4914f6cdd1dull;
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (t->capacity - 1);
    while (t->slots[i] && (t->slots[i]->function != function || t->slots[i]->process != process))
        i = (i + 1) & (t->capacity - 1);
    return &t->slots[i];
}

static bool grow_table(struct ct_table *t) {
    struct ct_table bigger = {.count = t->count, .capacity = t->capacity ? 2 * t->capacity : FIRST_CAPACITY};
    bigger.slots = calloc(bigger.capacity, sizeof(struct ct_table_key *));
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slots[i])
            *find_slot(&bigger, t->slots[i]->process, t->slots[i]->function) = t->slots[i];
    free(t->slots);
    *t = bigger;
    return true;
}

void *ct_table_get(struct ct_table *t, size_t process, uint64_t function, size_t size) {
    if (t->capacity) {
        struct ct_table_key *known = *find_slot(t, process, function);
        if (known)
            return known;
    }
    if (2 * t->count >= t->capacity && !grow_table(t))
        return NULL;
    struct ct_table_key *thing = calloc(1, size);
    if (!thing)
        return NULL;
    thing->process = process;
    thing->function = function;
    t->count++;
    return *find_slot(t, process, function) = thing;
}

void ct_table_clear(struct ct_table *t, void (*release)(void *thing)) {
    for (size_t i = 0; i < t->capacity; i++) {
        if (t->slots[i] && release)
            release(t->slots[i]);
        free(t->slots[i]);
        t->slots[i] = NULL;
    }
    t->count = 0;
}

void ct_table_free(struct ct_table *t, void (*release)(void *thing)) {
    ct_table_clear(t, release);
    free(t->slots);
    *t = (struct ct_table){0};
}
