/* SPDX-License-Identifier: Apache-2.0 */
/* Finds addresses for stubs in the address space of a target.
 *
 * Any free place within reach works. The best are those that nobody else will need soon. The kernel hands out addresses
 * directly below existing mappings, the heap grows upward, the stack downward. So a place is better if it leaves more
 * room: below the next mapping above it, and above the heap. */
#include "plan/target_internal.h"
#include "isa/machine.h"
#include <stddef.h>

#define LOWEST      (1ull << 20) /* null pointers must fault */
#define STEP        (64ull << 10) /* alignment, and the minimum distance from neighbours */
#define ENOUGH      (1ull << 30)  /* more room is no better */
#define STACK_EXTRA (256ull << 20)

struct place {
    uint64_t address, room, distance;
};

static uint64_t minimum(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t maximum(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static uint64_t subtract(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

struct search {
    uint64_t start, end; /* the range to reach */
    uint64_t low, high;  /* the whole place must be inside */
    uint64_t size;
    struct place best;
};

static uint64_t distance_of(const struct search *s, uint64_t address) {
    return address >= s->end ? address - s->end : subtract(s->start, address + s->size);
}

/* Considers a free range. `grows`: the mapping below grows into it. */
static void offer_range(struct search *s, uint64_t from, uint64_t to, bool grows) {
    uint64_t low = maximum(from + STEP, s->low), high = minimum(subtract(to, STEP), s->high);
    low = (low + STEP - 1) & ~(STEP - 1);
    if (high < s->size || low > high - s->size)
        return;
    uint64_t last = (high - s->size) & ~(STEP - 1); /* the highest possible address */
    if (last < low)
        return;
    /* As high as possible with enough room above. If something grows from below and there is less room, in the
     * middle. */
    uint64_t address = minimum(last, maximum(low, subtract(to, s->size + ENOUGH) & ~(STEP - 1)));
    if (grows) {
        uint64_t middle = (from + (to - s->size - from) / 2) & ~(STEP - 1);
        address = minimum(last, maximum(low, maximum(address, middle)));
    }
    uint64_t room = minimum(ENOUGH, to - (address + s->size));
    if (grows)
        room = minimum(room, address - from);
    struct place p = {address, room, distance_of(s, address)};
    if (!s->best.address || p.room > s->best.room || (p.room == s->best.room && p.distance < s->best.distance))
        s->best = p;
}

uint64_t ct_target_gap_find(const struct ct_target_maps *maps, uint64_t program_end, uint64_t start, uint64_t end,
                            uint64_t reach, uint64_t size) {
    struct search s = {
        .start = start,
        .end = end,
        .low = maximum(LOWEST, subtract(end, reach)),
        .high = minimum(ct_machine_host()->address_limit, start + reach),
        .size = size,
    };
    uint64_t cursor = 0;
    bool grows = false;
    for (size_t i = 0; i < maps->count; i++) {
        const struct ct_os_map *m = &maps->items[i];
        if (m->start > cursor)
            offer_range(&s, cursor, m->role == CT_OS_MAP_STACK ? subtract(m->start, STACK_EXTRA) : m->start, grows);
        if (m->end < cursor)
            continue;
        cursor = m->end;
        /* A heap that does not exist yet will be after the program. */
        grows = m->role == CT_OS_MAP_HEAP || (m->start < program_end && m->end + ct_os_page_size() > program_end);
    }
    offer_range(&s, cursor, ct_machine_host()->address_limit, grows);
    return s.best.address;
}
