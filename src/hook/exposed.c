/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses of observed frames, on the stack itself: the real ones while an unwinder walks, those of stubs
 * otherwise. Owner: the block's thread, with signals blocked. */
#include "hook/exposed.h"

/* ---- exposing and hooking again ---- */

/* A walk that has found where it lands looks at nothing any more. But the frames that it leaves are dead, and new ones
 * without hooks may have taken their places. */
static bool walks_over(struct ct_block *b, const struct ct_hook_walk *w, uint64_t slot) {
    return slot >= w->exposed_slot && (!w->high || slot < w->high) && (!w->land_sp || slot < w->land_sp) &&
           ct_shadow_same_stack(b, slot, w->exposed_slot);
}

bool ct_exposed_is_walked(struct ct_block *b, uint64_t slot, const struct ct_hook_walk *present) {
    for (uint32_t i = 0; i < b->interrupted_count; i++)
        if (walks_over(b, &b->interrupted[i], slot))
            return true;
    return present && walks_over(b, present, slot);
}

struct ct_shadow *ct_exposed_first(const struct ct_block *b) {
    return b->bare ? b->bare : b->base + 1;
}

void ct_shadow_expose_returns_below(struct ct_block *b, uint64_t sp, uint64_t high) {
    uint64_t mask = ct_block_mask(b);
    ct_exposed_put(b, sp, high);
    ct_block_unmask(b, mask);
}

void ct_shadow_expose_returns(struct ct_block *b, uint64_t sp) {
    ct_shadow_expose_returns_below(b, sp, 0);
}

/* `present`: a walk that also needs the real addresses, or NULL. */
static void rehook_returns_beside(struct ct_block *b, uint64_t sp, uint64_t high, const struct ct_hook_walk *present) {
    uint64_t mask = ct_block_mask(b);
    ct_exposed_take(b, sp, high, present);
    ct_block_unmask(b, mask);
}

void ct_shadow_rehook_returns(struct ct_block *b, uint64_t sp) {
    rehook_returns_beside(b, sp, 0, NULL);
}

void ct_shadow_rehook_returns_below(struct ct_block *b, uint64_t sp, uint64_t high) {
    rehook_returns_beside(b, sp, high, NULL);
}

void ct_shadow_rehook_other_returns(struct ct_block *b, uint64_t sp) {
    rehook_returns_beside(b, sp, 0, b->attention & CT_ATTENTION_UNWIND ? &b->walk : NULL);
}

/* ---- bare frames ----
 *
 * An exception lands in each frame that has something to clean up. If each landing hooked all frames again, only for
 * the next step to expose them again, a throw would take time by the square of its frames. So frames below `bare` keep
 * their real return addresses until they are about to be innermost.
 *
 * Invariants: `bare` is NULL or top >= bare > base + 1. Entries at and above it are hooked, unless a walk goes on;
 * those below it are exposed. When no walk goes on, the innermost frame is hooked: all that lowers `top` calls
 * ct_shadow_cover, and stubs do when they find top at bare. The array then has frames of the thread's own
 * stack only. */

#define COVER_FIRST 8u /* frames; then twice as many each time */
#define COVER_MOST  4096u

/* May frames be hooked again now, and from where on? A walk that goes on needs the real addresses. Bare frames are on
 * the thread's own stack, which is mapped: the kernel need not be asked for each, nor may it be under a filter. */
static bool may_cover(const struct ct_block *b, uint64_t *sp) {
    bool walking = b->attention & CT_ATTENTION_UNWIND;
    *sp = walking ? b->walk.land_sp : b->home_low;
    return !walking || (b->walk.land_sp && !b->interrupted_count);
}

/* Hooks `count` of the frames below `end` again; the rest is bare. */
static void cover_below(struct ct_block *b, struct ct_shadow *end, uint32_t count, uint64_t sp) {
    b->bare = ct_exposed_take_some(b, end, count, sp);
}

void ct_shadow_rehook_newest(struct ct_block *b, uint64_t sp) {
    const struct ct_stacks *s = b->stacks;
    if (b->interrupted_count || s->settled != 1 || s->running != s->home || !ct_shadow_at_home(b, sp) || b->walk.high) {
        b->bare = NULL;
        ct_shadow_rehook_returns(b, sp);
        return;
    }
    b->cover = COVER_FIRST;
    cover_below(b, b->top, b->cover, sp);
}

void ct_shadow_cover(struct ct_block *b) {
    uint64_t sp;
    if (!b->bare || b->top > b->bare)
        return;
    uint64_t mask = ct_block_mask(b);
    if (b->bare > b->top)
        b->bare = b->top;
    if (may_cover(b, &sp)) {
        b->cover = b->cover < COVER_MOST ? 2 * b->cover : COVER_MOST;
        cover_below(b, b->bare, b->cover, sp);
    }
    ct_block_unmask(b, mask);
}

/* If a walk goes on, its end hooks all frames again, since none is bare then. */
void ct_shadow_cover_all(struct ct_block *b) {
    struct ct_shadow *bare = b->bare;
    uint64_t sp;
    if (!bare)
        return;
    uint64_t mask = ct_block_mask(b);
    b->bare = NULL;
    if (may_cover(b, &sp))
        cover_below(b, bare < b->top ? bare : b->top, UINT32_MAX, sp);
    ct_block_unmask(b, mask);
}
