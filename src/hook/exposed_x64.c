/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses on x86_64: in the slot, so the shadow stack shows where they are. See exposed.h. No state. */
#include "hook/exposed.h"
#include "os/os.h"

/* `mapped`: the stack is there for sure, else the kernel is asked. False: it cannot be read. */
static bool read_slot(uint64_t slot, bool mapped, uint64_t *address) {
    if (!mapped)
        return !ct_os_peek(slot, address, sizeof *address);
    *address = *(const uint64_t *)slot;
    return true;
}

size_t ct_exposed_bytes(size_t entries) {
    (void)entries;
    return 0;
}

void ct_exposed_place(struct ct_block *b, void *memory, size_t entries) {
    (void)b, (void)memory, (void)entries;
}

/* The frame has its stub's address in the slot, or, during a walk, the real one. */
enum ct_frame_look ct_exposed_look(struct ct_block *b, const struct ct_shadow *e, uint64_t low) {
    uint64_t now;
    if (!read_slot(e->slot, low != 0, &now))
        return CT_FRAME_UNREADABLE;
    bool exposed = (b->attention & CT_ATTENTION_UNWIND) && now == ct_shadow_real_return(e);
    return now == ct_shadow_resume(e) || exposed ? CT_FRAME_THERE : CT_FRAME_GONE;
}

/* Is it one of our frames in [sp, high), with a slot that may be read? A caller that gives `high` knows that it can be
 * read; on the thread's own stack it is certainly mapped; elsewhere the kernel is asked. */
static bool readable_slot(struct ct_block *b, const struct ct_shadow *e, uint64_t sp, uint64_t high, uint64_t *value) {
    if (!ct_shadow_is_frame(e) || ct_shadow_in_flight(e) || e->slot < sp || (high && e->slot >= high))
        return false;
    return read_slot(e->slot, high || (ct_shadow_at_home(b, sp) && ct_shadow_at_home(b, e->slot)), value);
}

static bool is_chain_inner(const struct ct_block *b, const struct ct_shadow *e) {
    return e + 1 < b->top && e[1].slot == e->slot && e[1].ret == ct_shadow_resume(e);
}

static void expose_return(struct ct_shadow *e, uint64_t now) {
    if (now == ct_shadow_resume(e))
        *(uint64_t *)e->slot = ct_shadow_real_return(e);
}

static void rehook_return(struct ct_shadow *e, uint64_t now) {
    if (now == ct_shadow_real_return(e))
        *(uint64_t *)e->slot = ct_shadow_resume(e);
}

void ct_exposed_put(struct ct_block *b, uint64_t sp, uint64_t high) {
    uint64_t now;
    for (struct ct_shadow *e = b->top - 1; e >= ct_exposed_first(b) && !ct_shadow_is_above(b, e, high); e--) {
        b->stacks->steps++;
        if (!is_chain_inner(b, e) && readable_slot(b, e, sp, high, &now))
            expose_return(e, now);
    }
}

void ct_exposed_take(struct ct_block *b, uint64_t sp, uint64_t high, const struct ct_hook_walk *present) {
    uint64_t now;
    for (struct ct_shadow *e = b->top - 1; e >= ct_exposed_first(b) && !ct_shadow_is_above(b, e, high); e--) {
        b->stacks->steps++;
        if (!is_chain_inner(b, e) && readable_slot(b, e, sp, high, &now) && !ct_exposed_is_walked(b, e->slot, present))
            rehook_return(e, now);
    }
}

struct ct_shadow *ct_exposed_take_some(struct ct_block *b, struct ct_shadow *end, uint32_t count, uint64_t sp) {
    struct ct_shadow *e = end - 1;
    uint64_t now;
    for (; e > b->base && count; e--, b->stacks->steps++) {
        if (is_chain_inner(b, e) || !readable_slot(b, e, sp, 0, &now))
            continue;
        rehook_return(e, now);
        count--;
    }
    return e > b->base ? e + 1 : NULL;
}
