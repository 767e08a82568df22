/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses on x86_64: in the slot, from the call to the return. See frame.h. */
#ifndef CT_HOOK_FRAME_X64_H
#define CT_HOOK_FRAME_X64_H

#include "hook/stub_x64.h"
#include "os/os.h"

enum { CT_FRAME_REGISTERS = 16 }; /* general ones */
enum { CT_FRAME_HAS_LINK = 0 };

static inline uint64_t ct_frame_of_call(uint64_t slot) {
    return *(const uint64_t *)slot;
}

static inline void ct_frame_set_of_call(uint64_t slot, uint64_t address) {
    *(uint64_t *)slot = address;
}

/* The body's return has just read it from there. */
static inline uint64_t ct_frame_of_return(uint64_t slot) {
    return *(const uint64_t *)slot;
}

static inline uint64_t ct_frame_plain(uint64_t address) {
    return address;
}

/* Its return address is overwritten. */
static inline bool ct_frame_is_taken(uint64_t slot, uint64_t address) {
    (void)slot, (void)address;
    return true;
}

static inline uint64_t *ct_frame_argument(uint64_t slot, struct ct_special_frame *frame, unsigned n) {
    struct ct_saved_registers *saved = (struct ct_saved_registers *)slot - 1;
    switch (n) {
    case 0:
        return &frame->argument0;
    case 1:
        return &frame->argument1;
    case 2:
        return &saved->argument2;
    case 3:
        return &saved->argument3;
    case 4:
        return &frame->argument4;
    default:
        return &frame->argument5;
    }
}

/* Of a call with a listener: the word that says where the stub goes on when the call is observed. */
static inline uint64_t *ct_frame_stub_word(uint64_t slot) {
    return (uint64_t *)slot - 1;
}

/* Where the body is that the stub calls. */
static inline uint64_t ct_frame_body(uint64_t stub) {
    return stub + CT_AFTER_TO_RESUME + (uint64_t)(int64_t) * (const int32_t *)(stub + CT_AFTER_TO_BODY_REL);
}

static inline uint64_t ct_frame_slot(uint64_t place, uint64_t sp) {
    (void)sp;
    return place;
}

#endif
