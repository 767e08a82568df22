/* SPDX-License-Identifier: Apache-2.0 */
/* Stack walks by unwinders and the like: real return addresses are on the stack while one looks at it.
 *
 * Walks nest: a handler may interrupt one, and walk too. Owner: the block's thread, inside its slow paths. */
#include "hook/runtime.h"
#include "os/os.h"
#include "os/thread.h"

/* ---- the end ---- */

/* The walk is over; the walk that it interrupted goes on. */
static void pop_walk(struct ct_block *b) {
    if (b->interrupted_count) {
        b->walk = b->interrupted[--b->interrupted_count];
        ct_block_unattend(b, ~b->walk.attention & (CT_ATTENTION_UNWIND | CT_ATTENTION_WALK));
        ct_block_attend(b, b->walk.attention);
    } else {
        ct_block_unattend(b, CT_ATTENTION_UNWIND | CT_ATTENTION_WALK);
    }
}

/* The unwinder has returned, or has landed in a frame that now makes calls. */
static void end_walk(struct ct_block *b, uint64_t slot) {
    const struct ct_hook_walk *w = &b->walk;
    bool same = ct_shadow_same_stack(b, slot, w->exposed_slot);
    if (w->attention & CT_ATTENTION_WALK)
        ct_shadow_return_range(b, w->exposed_slot, same ? slot : UINT64_MAX);
    if (w->land_sp)
        ct_shadow_prune(b, w->land_sp);
    else
        ct_shadow_rehook_returns(b, same ? slot : w->exposed_slot);
    pop_walk(b);
    ct_shadow_cover(b);
}

/* The frame at `slot` returns. If its function was the one that looked, the returns of its callers are hooked again. */
void ct_walk_end_look(struct ct_block *b, uint64_t slot) {
    if (!(b->attention & CT_ATTENTION_UNWIND) || !b->walk.returns || b->walk.exposed_slot != slot)
        return;
    uint64_t mask = ct_block_mask(b);
    ct_shadow_rehook_returns_below(b, slot + 8, b->walk.high);
    pop_walk(b);
    ct_shadow_cover(b);
    ct_block_unmask(b, mask);
}

/* Does the function that looks go on in another one, which takes its place on the stack? */
static bool is_handed_on(const struct ct_block *b, uint64_t slot) {
    const struct ct_shadow *e = b->top - 1;
    return b->walk.returns && slot == b->walk.exposed_slot && e->slot == slot &&
           ct_frame_of_call(slot) == ct_shadow_resume(e);
}

/* Does a call, jump or return to `slot` show that the walk has ended? It has if the frame of its outermost function is
 * gone. It also has if the walk was a handler's, and `slot` is on an interrupted walk's stack or the thread's own. */
static bool is_walk_over(struct ct_block *b, uint64_t slot) {
    if (!(b->attention & CT_ATTENTION_UNWIND))
        return false;
    if (ct_shadow_same_stack(b, slot, b->walk.exposed_slot))
        return slot >= b->walk.exposed_slot && !is_handed_on(b, slot);
    for (uint32_t i = 0; i < b->interrupted_count; i++)
        if (ct_shadow_same_stack(b, slot, b->interrupted[i].exposed_slot))
            return true;
    uint64_t low, high; /* what we take for the thread's own stack may be a handler's */
    return ct_shadow_at_home(b, slot) && !(ct_os_on_signal_stack(&low, &high) && slot >= low && slot < high);
}

void ct_walk_end(struct ct_block *b, uint64_t slot) {
    if (!is_walk_over(b, slot))
        return;
    uint64_t mask = ct_block_mask(b);
    do
        end_walk(b, slot);
    while (is_walk_over(b, slot));
    ct_block_unmask(b, mask);
}

/* ---- the beginning ---- */

/* A walk begins below another one: either a handler has interrupted that one, or it has landed and no call was seen
 * since. */
static void push_walk(struct ct_block *b) {
    if (b->interrupted_count == CT_WALKS) { /* handlers that interrupt each other: the oldest walk is dropped */
        for (uint32_t i = 1; i < CT_WALKS; i++)
            b->interrupted[i - 1] = b->interrupted[i];
        b->interrupted_count--;
    }
    b->interrupted[b->interrupted_count++] = b->walk;
}

void ct_walk_begin(struct ct_block *b, uint64_t slot, uint32_t attention) {
    uint64_t mask = ct_block_mask(b);
    /* Ends the walks of handlers that came before signals were blocked: only walks that go on are interrupted. */
    ct_walk_end(b, slot);
    ct_shadow_settle(b, slot);
    if (b->attention & CT_ATTENTION_UNWIND)
        push_walk(b);
    b->walk = (struct ct_hook_walk){.exposed_slot = slot, .reach = ct_shadow_reach(b, slot), .attention = attention};
    ct_block_unattend(b, ~attention & CT_ATTENTION_WALK);
    ct_block_attend(b, attention); /* first: a handler that walks the stack must leave the returns exposed */
    ct_shadow_expose_returns(b, slot);
    if (attention & CT_ATTENTION_WALK)
        ct_shadow_give_up(b);
    ct_block_unmask(b, mask);
}

/* A walk below `high` by a function whose return will be seen: when it is over, the stack is as before. */
void ct_walk_look(struct ct_block *b, uint64_t slot, uint64_t high) {
    uint64_t mask = ct_block_mask(b);
    if (b->attention & CT_ATTENTION_UNWIND)
        push_walk(b);
    b->walk = (struct ct_hook_walk){.exposed_slot = slot,
                                    .reach = ct_shadow_reach(b, slot),
                                    .high = high,
                                    .attention = CT_ATTENTION_UNWIND,
                                    .returns = 1};
    ct_block_unattend(b, CT_ATTENTION_WALK);
    ct_block_attend(b, CT_ATTENTION_UNWIND);
    ct_shadow_expose_returns_below(b, slot + 8, high);
    ct_block_unmask(b, mask);
}

/* Forgets walks that a handler interrupted, and whose frames it throws away. */
static void forget_passed(struct ct_block *b, uint64_t sp) {
    while (b->interrupted_count && b->interrupted[b->interrupted_count - 1].exposed_slot < sp &&
           ct_shadow_same_stack(b, b->interrupted[b->interrupted_count - 1].exposed_slot, sp))
        b->interrupted_count--;
}

void ct_walk_land(struct ct_block *b, uint64_t slot, void *context) {
    struct ct_runtime *rt = b->runtime;
    if (!(b->attention & CT_ATTENTION_UNWIND) || !rt->get_cfa)
        return;
    uint64_t mask = ct_block_mask(b);
    ct_walk_end(b, slot);
    b->guard_sp = ~0ull;
    ct_block_attend(b, CT_ATTENTION_GUARD); /* get_cfa may be hooked itself */
    b->walk.land_sp = rt->get_cfa(context);
    ct_block_unattend(b, CT_ATTENTION_GUARD);
    forget_passed(b, b->walk.land_sp);
    ct_shadow_rehook_newest(b, b->walk.land_sp);
    ct_block_unmask(b, mask);
}

/* The end of the stack that UnwindFast(this, pc, frame, top ...) is on; 0 if it is not certain. The function may be
 * another one that begins alike: top is trusted if `this` is what it must be, the head of a buffer that begins 16 bytes
 * after it. */
static uint64_t stack_end(struct ct_block *b, uint64_t slot, uint64_t object, uint64_t top) {
    uint64_t buffer;
    if (ct_shadow_at_home(b, slot))
        return b->home_high;
    bool is_trace = !ct_os_peek(object, &buffer, sizeof buffer) && buffer == object + 16;
    return is_trace && top > slot + 16 ? top : 0;
}

/* How far the function will look: UnwindFast follows a given number of frame pointers. One more
 * may be its own frame. */
uint64_t ct_walk_look_end(struct ct_block *b, enum ct_special special, uint64_t slot, struct ct_special_frame *frame) {
    if (special != CT_SPECIAL_TRACE)
        return 0;
    uint64_t top = stack_end(b, slot, *ct_frame_argument(slot, frame, 0), *ct_frame_argument(slot, frame, 3));
    uint32_t count = (uint32_t)*ct_frame_argument(slot, frame, 5) + 1;
    return top ? ct_frame_chain_end(slot, *ct_frame_argument(slot, frame, 2), top, count) : 0;
}
