/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses on arm64: in a register at the entry, of which the shared code keeps a copy in the slot while a slow
 * path runs; later where the prologue has put them, perhaps signed (exposed_a64.c). See frame.h. */
#ifndef CT_HOOK_FRAME_A64_H
#define CT_HOOK_FRAME_A64_H

#include "hook/stub_a64.h"

enum { CT_FRAME_REGISTERS = 32 }; /* general ones, and the stack pointer */
enum { CT_FRAME_HAS_LINK = 1 };   /* a function begins with its return address in a register */

static inline uint64_t ct_frame_of_call(uint64_t slot) {
    return *(const uint64_t *)slot;
}

static inline void ct_frame_set_of_call(uint64_t slot, uint64_t address) {
    *(uint64_t *)slot = address;
}

static inline uint64_t ct_frame_of_return(uint64_t slot) {
    return *(const uint64_t *)slot;
}

static inline uint64_t *ct_frame_stub_word(uint64_t slot) {
    return (uint64_t *)slot - 1;
}

static inline uint64_t ct_frame_body(uint64_t stub) {
    return stub + CT_AFTER_TO_BODY;
}

/* Of programs that do not ask for 52-bit addresses. */
static inline uint64_t ct_frame_plain(uint64_t address) {
    return address & ((UINT64_C(1) << 48) - 1);
}

/* A function may keep its return address in a register and call others without a frame of its own. If the other one
 * returns to the same place, the first has returned. */
static inline bool ct_frame_is_taken(uint64_t slot, uint64_t address) {
    return ct_frame_of_call(slot) == address;
}

static inline uint64_t *ct_frame_argument(uint64_t slot, struct ct_special_frame *frame, unsigned n) {
    struct ct_saved_registers *saved = (struct ct_saved_registers *)(slot + 8) - 1;
    if (n < 2)
        return &saved->argument0[n];
    return n < 4 ? &saved->argument2[n - 2] : &frame->argument4[n - 4];
}

/* The address may be anywhere in the frame. */
static inline uint64_t ct_frame_slot(uint64_t place, uint64_t sp) {
    (void)place;
    return sp - 8;
}

#endif
