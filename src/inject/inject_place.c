/* SPDX-License-Identifier: Apache-2.0 */
/* Finds where the memory that we share with a target goes: into the largest free range, some way below its upper end,
 * so that stubs for libraries that are loaded later find room near them. */
#include "inject/inject_memory.h"

#define LOWEST (1ull << 20)
#define AWAY   (4ull << 30)

struct gap {
    uint64_t end, best, best_size; /* `end`: of the previous mapping */
};

static void look_at_gap(struct gap *g, uint64_t start, uint64_t end) {
    if (end > start && end - start > g->best_size) {
        g->best = start;
        g->best_size = end - start;
    }
}

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct gap *g = arg;
    if (map->start >= ct_os_address_limit()) /* vsyscall */
        return 0;
    look_at_gap(g, g->end, map->start);
    if (map->end > g->end)
        g->end = map->end;
    return 0;
}

static uint64_t lower(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Planned places are not mapped yet. */
static bool is_planned(const struct ct_target_plan *plan, uint64_t at, uint64_t size) {
    for (size_t i = 0; i < plan->region_count; i++)
        if (plan->regions[i].address < at + size && at < plan->regions[i].address + plan->regions[i].size)
            return true;
    return false;
}

uint64_t ct_inject_find_place(struct ct_injection *in, uint64_t size, uint64_t unit) {
    struct gap g = {.end = LOWEST};
    if (ct_remote_each_map(in->remote, look_at_map, &g) < 0 || g.best_size < size + unit)
        return 0;
    uint64_t away = lower(AWAY, (g.best_size - size - unit) / 2);
    uint64_t at = (g.best + g.best_size - away - size) / unit * unit;
    return at >= g.best && !is_planned(in->plan, at, size) ? at : 0;
}
