/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of listeners that were left, and that no hooked call has found since: their on_leave comes when the set is
 * destroyed, or when the block of an ended thread gets another owner.
 *
 * A frame that will return must not be reported. So a frame counts as left only where its place on the stack shows it;
 * frames of suspended coroutines are open. Recorded frames stay as they are: readers see where a thread ends. Owner:
 * the calling thread's block, or the claimed block of an ended thread. */
#include "hook/exposed.h"
#include "os/os.h"
#include "os/thread.h"

static bool is_listened(const struct ct_block *b, const struct ct_shadow *e) {
    uint32_t number = ct_shadow_number(e);
    return number != CT_HOOK_NONE && b->runtime->hooks[number].flavor == CT_ACTION_LISTEN;
}

/* Only a process that hooks itself has listeners. */
static bool has_frames(const struct ct_block *b) {
    return b->top > b->base + 1 && !b->runtime->reports_stacks && !b->detached;
}

/* ---- slots ---- */

/* The verdict on the frame that was looked at last: frames of a chain of tail calls share a slot, and only the newest
 * one has its address there. */
struct verdict {
    uint64_t slot, ret;
    bool left;
};

static bool is_same_chain(const struct verdict *newer, const struct ct_shadow *e) {
    return newer->slot == e->slot && newer->ret == ct_shadow_resume(e);
}

/* ---- the calling thread ---- */

struct own_stack {
    uint64_t slot;    /* of the innermost frame */
    uint64_t address; /* which returns there */
    uint64_t low;   /* what is on the stack is at or above this */
    uint64_t below; /* frames below this are left */
    uint32_t stack;
    bool home; /* all of it can be read from `slot` on */
};

/* An exception may have landed above `slot`, with no hooked call since. */
static uint64_t landed_at(struct ct_block *b, uint64_t slot) {
    const struct ct_hook_walk *w = &b->walk;
    bool landed = (b->attention & CT_ATTENTION_UNWIND) && w->land_sp > slot && slot >= w->exposed_slot;
    return landed && ct_shadow_same_stack(b, slot, w->land_sp) ? w->land_sp : slot;
}

/* A handler's stack may be part of the thread's own: then nothing is known about what is below it. */
static struct own_stack find_own(struct ct_block *b, uint64_t slot, uint64_t address) {
    uint64_t low, high;
    struct own_stack own = {.slot = slot, .address = address, .stack = ct_stacks_find(b, slot)};
    if (ct_os_on_signal_stack(&low, &high) && slot >= low && slot < high) {
        own.low = low;
        own.below = slot;
        return own;
    }
    own.below = landed_at(b, slot);
    own.home = ct_shadow_at_home(b, slot);
    return own;
}

static bool is_left(struct ct_block *b, const struct own_stack *own, const struct ct_shadow *e) {
    if (e->slot < own->low || ct_stacks_of(b, e) != own->stack || !ct_shadow_same_stack(b, e->slot, own->slot))
        return false;
    if (e->slot < own->below)
        return true;
    bool exposed = (b->attention & CT_ATTENTION_UNWIND) && own->address == ct_shadow_real_return(e);
    if (e->slot == own->slot)
        return own->address != ct_shadow_resume(e) && !exposed;
    return own->home && ct_exposed_look(b, e, own->slot) == CT_FRAME_GONE;
}

void ct_left_report_own(struct ct_block *b, uint64_t slot, uint64_t address) {
    if (!has_frames(b))
        return;
    uint64_t mask = ct_block_mask(b);
    struct own_stack own = find_own(b, slot, address);
    struct verdict newer = {0};
    for (struct ct_shadow *e = b->top - 1; e > b->base; e--) {
        if (!ct_shadow_is_frame(e) || ct_shadow_in_flight(e))
            continue;
        bool left = is_same_chain(&newer, e) ? newer.left : is_left(b, &own, e);
        newer = (struct verdict){e->slot, e->ret, left};
        if (left && is_listened(b, e))
            ct_shadow_close(b, e, e->slot >= own.slot);
    }
    ct_shadow_finish(b);
    ct_block_unmask(b, mask);
}

/* ---- ended threads ---- */

/* The thread's own stack is gone with it. Another stack may go on elsewhere, if its frame is still there. */
static bool is_gone(struct ct_block *b, const struct ct_shadow *e) {
    return ct_shadow_at_home(b, e->slot) || ct_exposed_look(b, e, 0) != CT_FRAME_THERE;
}

/* Another thread that goes on with a coroutine of this one may take the entry at any time. */
static bool take_entry(struct ct_runtime *rt, struct ct_shadow *e, struct ct_shadow *taken) {
    *taken = *e;
    uint64_t expected = taken->slot;
    ct_runtime_lock(rt);
    bool ok = __atomic_compare_exchange_n(&e->slot, &expected, CT_SLOT_HOLE, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    if (ok)
        ct_shadow_park(rt, taken); /* in case it is not left after all */
    ct_runtime_unlock(rt);
    return ok;
}

void ct_left_report_ended(struct ct_block *b) {
    if (!has_frames(b))
        return;
    struct ct_block *own = ct_block_current();
    struct ct_shadow taken;
    struct verdict newer = {0};
    for (struct ct_shadow *e = b->top - 1; own && e > b->base; e--) {
        if (!ct_shadow_is_frame(e) || ct_shadow_in_flight(e))
            continue;
        bool left = is_same_chain(&newer, e) ? newer.left : is_gone(b, e);
        newer = (struct verdict){e->slot, e->ret, left};
        if (!left || !is_listened(b, e) || !take_entry(b->runtime, e, &taken))
            continue;
        b->counters->left_frames++;
        ct_shadow_notify_leave(own, &taken, ct_shadow_depth(b, e));
    }
}
