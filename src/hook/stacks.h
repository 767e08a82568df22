/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a thread's stacks a shadow entry belongs to: coroutines take turns, handlers have stacks of their own.
 *
 * The shadow stack stays one array. Its upper part, from `settled` on, is the region: frames of the running stack,
 * where stubs push and pop without checks. Below it are the frames of all suspended stacks, in one chain for each
 * stack. Between the two is a hole, the bar, which no stub takes for a frame: so entries below it change in slow paths
 * only.
 *
 * Invariants: an entry of the region is on the running stack, or belongs to a handler that has interrupted a stub
 * there. A frame below `settled` is in the chain of its stack, newest first; chains lead to lower indices, and to
 * higher slots. No index at or above `settled` is in a chain. The entry before `settled` is a hole, or the sentinel.
 * Owner: the block's thread, with signals blocked. Another thread may make a hole of an entry (a coroutine that has
 * moved). */
#ifndef CT_HOOK_STACKS_H
#define CT_HOOK_STACKS_H

#include "hook/runtime.h"

#define CT_NO_STACK UINT32_MAX

struct ct_stack {
    uint64_t high;   /* first (stack_order.h): slot of its outermost frame that was seen */
    uint32_t id;     /* its number in events */
    uint32_t newest; /* entry of its chain; 0: none */
    uint32_t next;   /* in the list of free ones */
    uint16_t listed; /* it is in `order` */
    uint16_t known;  /* 0: it is free. Holes may still be linked to it, or to the stack that has its place now */
};

struct ct_stack_link {
    uint32_t older; /* entry of the same stack; 0: none */
    uint32_t stack;
};

struct ct_stacks {
    uint32_t running; /* a stack is identified by its index in the pool */
    uint32_t settled;
    uint32_t home;  /* the thread's own; CT_NO_STACK: not seen yet */
    uint32_t known; /* home has been looked for */
    uint32_t count; /* of stacks in `order` */
    uint32_t used, free;
    uint32_t next_id;
    uint32_t frames;     /* below `settled`, except those that other threads have taken */
    uint32_t compact_at; /* entries */
    uint64_t steps;      /* of searches and moves: the cost of switches, for tests */
    struct ct_stack *pool;
    uint32_t *order; /* stacks other than home, by `high` */
    struct ct_stack_link *links;
    uint32_t *moved; /* while the array is made dense: where entries go */
};

static inline bool ct_shadow_is_frame(const struct ct_shadow *e) {
    return e->slot > CT_SLOT_LAST;
}
/* The slot's address, in flight or not. */
static inline uint64_t ct_shadow_place(const struct ct_shadow *e) {
    return (e->slot + 7) & ~7ull;
}
static inline bool ct_shadow_in_flight(const struct ct_shadow *e) {
    return ct_shadow_is_frame(e) && (e->slot & 7);
}
static inline uint32_t ct_stacks_index(const struct ct_block *b, const struct ct_shadow *e) {
    return (uint32_t)(e - b->base);
}
static inline struct ct_shadow *ct_stacks_region(const struct ct_block *b) {
    return b->base + b->stacks->settled;
}

/* For a block whose shadow stack has this many entries. */
size_t ct_stacks_bytes(size_t entries);
void ct_stacks_place(struct ct_block *b, void *memory, size_t entries);
/* Called for a new thread. */
void ct_stacks_begin(struct ct_block *b);

/* The stack of an entry. */
uint32_t ct_stacks_of(const struct ct_block *b, const struct ct_shadow *e);
/* The stack that a frame at `slot` is on, as far as open frames show; CT_NO_STACK: a stack without open frames. */
uint32_t ct_stacks_find(struct ct_block *b, uint64_t slot);
/* The innermost settled frame of the stack; NULL: none. */
struct ct_shadow *ct_stacks_newest(struct ct_block *b, uint32_t stack);
struct ct_shadow *ct_stacks_older(const struct ct_block *b, const struct ct_shadow *e);
/* The settled frame that returns through `slot` to `resume` (0: to any address). */
struct ct_shadow *ct_stacks_settled(struct ct_block *b, uint64_t slot, uint64_t resume);

/* The thread is now on the stack of `slot`. False: a handler has interrupted a stub, whose entry must stay innermost:
 * the handler counts as on the stack that it interrupted. */
bool ct_stacks_run(struct ct_block *b, uint64_t slot);
/* A frame begins at `slot`, on the running stack. */
void ct_stacks_extend(struct ct_block *b, uint64_t slot);
/* Releases holes at the top, and puts the bar where it belongs. */
void ct_stacks_trim(struct ct_block *b);
/* Makes the array dense when half of it is holes, or when it is full. */
void ct_stacks_compact(struct ct_block *b);
/* Reports to the reader of events which stack the following events are on: the running one, or another. */
void ct_stacks_tell(struct ct_block *b, uint32_t stack);

#endif
