/* SPDX-License-Identifier: Apache-2.0 */
/* Emitters that lowering and links share, x86_64. Private to these. */
#ifndef CT_STALK_EMIT_X64_H
#define CT_STALK_EMIT_X64_H

#include "isa/x64/encode.h"
#include "stalk/cache.h"
#include "stalk/layout.h"
#include "stalk/stalker.h"

static inline void gs_store(struct ct_code_buf *b, unsigned reg, uint32_t at) {
    CT_X64_BYTES(b, 0x65, (uint8_t)(0x48 | (reg >> 3) << 2), 0x89, (uint8_t)(0x04 | (reg & 7) << 3), 0x25);
    ct_code_u32(b, at);
}

static inline void gs_load(struct ct_code_buf *b, unsigned reg, uint32_t at) {
    CT_X64_BYTES(b, 0x65, (uint8_t)(0x48 | (reg >> 3) << 2), 0x8b, (uint8_t)(0x04 | (reg & 7) << 3), 0x25);
    ct_code_u32(b, at);
}

static inline void gs_store_imm(struct ct_code_buf *b, uint32_t at, uint32_t value) {
    CT_X64_BYTES(b, 0x65, 0x48, 0xc7, 0x04, 0x25);
    ct_code_u32(b, at);
    ct_code_u32(b, value);
}

/* The way into an entry for indirect branches: rcx is their target; the program's rcx and r11 are in the area. It uses
 * r11 and not rax, because values reloaded from the area arrive late, and rax is what most code waits for after a
 * return. `loop` falls through when the target matches, but only some processors execute it quickly. Returns where the
 * way in begins. */
static inline uint64_t emit_way_in(struct ct_code_buf *out, const struct ct_stalker *s, uint64_t address,
                                   uint64_t collide) {
    if (s->machine.quick_loop)
        ct_x64_emit_jmp(out, collide);
    uint64_t start = ct_code_here(out);
    CT_X64_BYTES(out, 0x49, 0xbb); /* mov r11, -address */
    ct_code_u64(out, 0 - address);
    if (s->machine.quick_loop) {
        CT_X64_BYTES(out, 0x4a, 0x8d, 0x4c, 0x19, 0x01, /* lea rcx, [rcx + r11 + 1] */
                     0xe2, (uint8_t)-22);               /* loop to the jump */
    } else {
        CT_X64_BYTES(out, 0x4a, 0x8d, 0x0c, 0x19, /* lea rcx, [rcx + r11] */
                     0xe3, 0x05);                 /* jrcxz over the jump */
        ct_x64_emit_jmp(out, collide);
    }
    gs_load(out, CT_X64_R11, CT_AREA_R11);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    return start;
}

/* The way in for returns: the return address is on the stack, and only rcx is in the area. `spoils_flags`: it may change
 * the flags. Returns where the way in begins. */
uint64_t ct_stalk_emit_return(struct ct_code_buf *out, const struct stalk_region *r, uint64_t address,
                              bool spoils_flags);

#endif
