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

/* ---- check_x64.c ---- */

struct stalk_build;
/* Notes what the instruction of a compared block changes. */
void ct_check_note(struct stalk_build *b, const struct ct_x64_insn *x);
/* How much of a compared entry is not needed after the block, which has changed these registers. */
uint8_t ct_check_skips(const struct stalk_build *b, uint16_t written);

/* ---- ways_x64.c ---- */

/* Writes a comparison of rcx with the address, by cmp; it uses r11. */
void ct_stalk_emit_cmp(struct ct_code_buf *out, uint64_t address);
/* The way into an entry for indirect branches: rcx is their target; the program's rcx and r11 are in the area.
 * `spoils_flags`: it may change the flags. Returns where the way in begins. */
uint64_t ct_stalk_emit_indirect(struct ct_code_buf *out, const struct stalk_region *r, uint64_t address,
                                bool spoils_flags);
/* The way in for returns: the return address is on the stack, and only rcx is in the area. `spoils_flags`: it may
 * change the flags. Returns where the way in begins. */
uint64_t ct_stalk_emit_return(struct ct_code_buf *out, const struct stalk_region *r, uint64_t address,
                              bool spoils_flags);

#endif
