/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a gap in the maps of this process.
 *
 * Invariants: never proposes an address below 1 MiB (null pointers must fault) nor one inside the served range, even
 * when that has holes. Keeps 64 KiB from every neighbour, so that a run-away access does not hit code. */
#include "code/gap.h"

#include <contrail/status.h>
#include "os/os.h"

#define LOWEST (1ull << 20)
#define STEP   (64ull << 10)

struct search {
    const struct ct_gap_request *request;
    uint64_t low, high; /* the candidate must lie in [low, high) */
    uint64_t cursor;    /* end of the last mapping */
    uint64_t heap_end;
    uint64_t best, best_distance;
};

static uint64_t add_capped(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t subtract_capped(uint64_t a, uint64_t b) {
    return a < b ? 0 : a - b;
}

/* [start, end) is free and allowed: takes the nearest place in it that fits, if it beats the best so far. */
static void offer_range(struct search *s, uint64_t start, uint64_t end) {
    start = start > s->low ? start : s->low;
    end = end < s->high ? end : s->high;
    start = add_capped(start, STEP - 1) & ~(STEP - 1);
    end &= ~(STEP - 1);
    if (end <= start || end - start < s->request->size)
        return;
    bool above = start >= s->request->end;
    uint64_t at = above ? start : end - s->request->size;
    uint64_t distance = above ? at - s->request->end : s->request->start - end;
    if (distance < s->best_distance) {
        s->best_distance = distance;
        s->best = at;
    }
}

/* Leaves the served range out. */
static void offer_around_served(struct search *s, uint64_t start, uint64_t end) {
    uint64_t below = subtract_capped(s->request->start, STEP);
    uint64_t above = add_capped(s->request->end, STEP);
    offer_range(s, start, end < below ? end : below);
    offer_range(s, start > above ? start : above, end);
}

/* Leaves the room that the heap needs out. */
static void offer_around_heap(struct search *s, uint64_t start, uint64_t end) {
    uint64_t room_end = add_capped(s->heap_end, s->request->room);
    offer_around_served(s, start, end < s->heap_end ? end : s->heap_end);
    offer_around_served(s, start > room_end ? start : room_end, end);
}

static int visit_map(void *arg, const struct ct_os_map *map) {
    struct search *s = arg;
    uint64_t room = map->role == CT_OS_MAP_STACK ? s->request->room : STEP;
    offer_around_heap(s, add_capped(s->cursor, STEP), subtract_capped(map->start, room));
    s->cursor = map->end;
    return map->start > s->high;
}

int ct_gap_find(const struct ct_gap_request *request, uint64_t *address) {
    struct search s = {
        .request = request,
        .low = subtract_capped(request->end, request->reach),
        .high = add_capped(request->start, request->reach),
        .heap_end = ct_os_heap_end(),
        .best_distance = UINT64_MAX,
    };
    s.low = s.low > LOWEST ? s.low : LOWEST;
    s.high = s.high < ct_os_address_limit() ? s.high : ct_os_address_limit();
    int status = ct_os_each_map(visit_map, &s);
    if (status < 0)
        return status;
    offer_around_heap(&s, add_capped(s.cursor, STEP), ct_os_address_limit());
    if (s.best_distance == UINT64_MAX)
        return CT_ERR_OUT_OF_RANGE;
    *address = s.best;
    return CT_OK;
}
