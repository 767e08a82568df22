/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime of the hooks without hooks: blocks, stubs that are only bytes, stacks that are only memory, and a sink that
 * keeps all events. For tests that call what stubs would call. */
#ifndef RUNTIME_UTIL_H
#define RUNTIME_UTIL_H

#include "hook/runtime.h"

#define HOOK_COUNT  64u
#define STACK_BYTES (256u << 10)
#define STACK_WORDS (STACK_BYTES / 8)
#define MAX_EVENTS  65536u

/* Stacks in order of address, with unmapped space between them. */
enum fake_stack { LOW_STACK, HOME_STACK, HIGH_STACK, STACK_COUNT };

struct fixture {
    struct ct_runtime runtime;
    struct ct_hook_entry hooks[HOOK_COUNT];
    uint8_t stubs[HOOK_COUNT][32]; /* only the number is in them */
    uint64_t *stacks[STACK_COUNT];
    uint8_t *memory;
    struct ct_block *block; /* of this thread */
    struct ct_event events[MAX_EVENTS];
    size_t event_count, sink_calls, empty_calls;
    int last_tid;
    char text[MAX_EVENTS];
};

/* The sink; its argument is the fixture. */
ct_event_sink fixture_sink;

/* Makes everything: all hooks record. The block is installed as this thread's. */
void fixture_start(struct fixture *f, size_t max_depth, size_t buffer_events);
void fixture_end(struct fixture *f);

/* ---- stubs and stacks ---- */

/* What `call enter` of stub n pushes, and where its body returns to. */
static inline uint64_t stub_of(struct fixture *f, unsigned n) {
    return (uint64_t)f->stubs[n] + CT_STUB_AFTER_ENTER;
}
static inline uint64_t resume_of(struct fixture *f, unsigned n) {
    return (uint64_t)f->stubs[n] + CT_STUB_RESUME;
}
/* Address of a word of a stack; a larger index is an older frame. */
static inline uint64_t slot_at(struct fixture *f, enum fake_stack stack, unsigned word) {
    return (uint64_t)&f->stacks[stack][word];
}
static inline uint64_t *word_at(uint64_t slot) {
    return (uint64_t *)slot;
}
/* A return address that is different for every slot. */
static inline uint64_t real_return(uint64_t slot) {
    return 0x400000000000ull + (slot & 0xffffffff);
}

/* ---- calls and returns as the slow paths see them ---- */

/* A call of function n whose return address is at the slot: the entry, or NULL when too deep. */
struct ct_shadow *fake_call(struct fixture *f, unsigned n, uint64_t slot);
/* The same for a jump: the slot keeps what it holds. */
struct ct_shadow *fake_tail_call(struct fixture *f, unsigned n, uint64_t slot);
/* The body at the slot returns: to where? The test fails when nobody knows. */
uint64_t fake_return(struct fixture *f, uint64_t slot);
/* Returns through every stub of a chain of tail calls; the last address must be the real one. */
void fake_return_fully(struct fixture *f, uint64_t slot);

/* Would a return of function n through the slot find its way? (It has then happened, without an event.) */
bool knows_return(struct fixture *f, unsigned n, uint64_t slot);

/* ---- results ---- */

/* Everything recorded since the last time: "C1 C2 R2 X1" for calls, returns and exceptions of functions 1 and 2. */
const char *recorded(struct fixture *f);
/* Open entries, without holes. */
static inline size_t entries_in_use(const struct ct_block *b) {
    size_t n = 0;
    for (const struct ct_shadow *e = b->base + 1; e < b->top; e++)
        n += e->slot != CT_SLOT_HOLE;
    return n;
}
/* What the array has of both. */
static inline size_t entries_taken(const struct ct_block *b) {
    return (size_t)(b->top - b->base) - 1;
}
/* The invariant of the shadow stack: nothing is left in what is free. */
void check_free_entries(const struct ct_block *b);
/* Slow paths block signals: not for longer than they run. */
void check_signals(void);

#endif
