/* SPDX-License-Identifier: Apache-2.0 */
/* A table of edges: see edges_internal.h. */
#include "base/grow.h"
#include "query/edges_internal.h"
#include <stdlib.h>

enum { FIRST_ROOM = 1024 };

static size_t hash_of(const struct ct_edge *e) {
    uint64_t h = (e->caller * 0x9e3779b97f4a7c15u ^ e->callee) * 0xff51afd7ed558ccdu ^ e->process;
    return (size_t)((h ^ h >> 29) * 0xc4ceb9fe1a85ec53u >> 20);
}

static bool is_same(const struct ct_edge *a, const struct ct_edge *b) {
    return a->callee == b->callee && a->caller == b->caller && a->process == b->process;
}

static uint32_t *slot_of(const struct ct_edge_table *t, const struct ct_edge *key) {
    size_t at = hash_of(key) & (t->slot_count - 1);
    while (t->slots[at] && !is_same(&t->edges[t->slots[at] - 1], key))
        at = (at + 1) & (t->slot_count - 1);
    return &t->slots[at];
}

static bool grow_slots(struct ct_edge_table *t) {
    size_t count = t->slot_count ? 2 * t->slot_count : FIRST_ROOM;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots || count > UINT32_MAX) {
        free(slots);
        return false;
    }
    free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    for (size_t i = 0; i < t->count; i++)
        *slot_of(t, &t->edges[i]) = (uint32_t)i + 1;
    return true;
}

uint32_t ct_edge_table_find(struct ct_edge_table *t, size_t process, uint64_t caller, uint64_t callee) {
    const struct ct_edge key = {.process = process, .caller = caller, .callee = callee};
    if (2 * t->count >= t->slot_count && !grow_slots(t))
        return 0;
    uint32_t *slot = slot_of(t, &key);
    if (!*slot && ct_grow(&t->edges, &t->room, t->count, sizeof *t->edges, FIRST_ROOM)) {
        t->edges[t->count] = key;
        *slot = (uint32_t)++t->count;
    }
    return *slot;
}

bool ct_edge_table_add(struct ct_edge_table *t, const struct ct_edge *e) {
    uint32_t number = ct_edge_table_find(t, e->process, e->caller, e->callee);
    if (!number)
        return false;
    struct ct_edge *to = &t->edges[number - 1];
    to->calls += e->calls;
    to->timed += e->timed;
    to->total_ns += e->total_ns;
    to->self_ns += e->self_ns;
    to->max_ns = e->max_ns > to->max_ns ? e->max_ns : to->max_ns;
    return true;
}

void ct_edge_table_free(struct ct_edge_table *t) {
    free(t->edges);
    free(t->slots);
}
