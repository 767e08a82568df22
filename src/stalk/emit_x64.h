/* SPDX-License-Identifier: Apache-2.0 */
/* Emitters that lowering and links share, x86_64. Private to these. */
#ifndef CT_STALK_EMIT_X64_H
#define CT_STALK_EMIT_X64_H

#include "isa/x64/encode.h"
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

/* The way in for returns: the return address is on the stack, and only rcx is in the area. The difference to the
 * address is zero exactly if that of the lower half is zero, and then that of the upper half. */
static inline uint64_t emit_return_way(struct ct_code_buf *out, const struct ct_stalker *s, uint64_t address,
                                       uint64_t collide) {
    if (s->machine.quick_loop)
        ct_x64_emit_jmp(out, collide);
    uint64_t start = ct_code_here(out), low = (uint64_t)(int64_t)(int32_t)(0 - (uint32_t)address);
    uint64_t high = 0 - ((address + low) >> 32) + s->machine.quick_loop;
    ct_code_byte(out, 0x59); /* pop rcx */
    if (s->machine.has_rorx && (uint64_t)(int64_t)(int32_t)high == high) {
        CT_X64_BYTES(out, 0x48, 0x8d, 0x89); /* lea rcx, [rcx - lower half] */
        ct_code_u32(out, (uint32_t)low);
        CT_X64_BYTES(out, 0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 32, /* rorx rcx, rcx, 32 */
                     0x48, 0x8d, 0x89);                     /* lea rcx, [rcx - upper half] */
        ct_code_u32(out, (uint32_t)high);
    } else {
        gs_store(out, CT_X64_R11, CT_AREA_R11);
        CT_X64_BYTES(out, 0x49, 0xbb); /* mov r11, -address */
        ct_code_u64(out, 0 - address);
        CT_X64_BYTES(out, 0x4a, 0x8d, 0x4c, 0x19, s->machine.quick_loop); /* lea rcx, [rcx + r11] */
        gs_load(out, CT_X64_R11, CT_AREA_R11);
    }
    if (s->machine.quick_loop) {
        CT_X64_BYTES(out, 0xe2, (uint8_t)(start - 5 - (ct_code_here(out) + 2))); /* loop to the jump */
    } else {
        CT_X64_BYTES(out, 0xe3, 0x05); /* jrcxz over the jump */
        ct_x64_emit_jmp(out, collide);
    }
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    return start;
}

#endif
