/* SPDX-License-Identifier: Apache-2.0 */
/* Emitters that lowering and links share, arm64. recover_a64.c simulates what they write. Private to these. */
#ifndef CT_STALK_EMIT_A64_H
#define CT_STALK_EMIT_A64_H

#include "isa/a64/encode.h"
#include "stalk/layout.h"
#include "stalk/machine_a64.h"

enum { X16 = CT_A64_X16, X17 = CT_A64_X17, X18 = CT_A64_X18, X30 = CT_A64_LR, SP = CT_A64_SP };
#define AREA(field) ((field)-CT_AREA) /* what x18 is added to */

/* The program's registers are in the area. A pair is r and r + 1. */
static inline void save_reg(struct ct_code_buf *b, unsigned r) {
    ct_a64_str(b, r, X18, 8 * (int32_t)r);
}
static inline void load_reg(struct ct_code_buf *b, unsigned r) {
    ct_a64_ldr(b, r, X18, 8 * (int32_t)r);
}
static inline void save_pair(struct ct_code_buf *b, unsigned r) {
    ct_a64_stp(b, r, r + 1, X18, 8 * (int32_t)r);
}
static inline void load_pair(struct ct_code_buf *b, unsigned r) {
    ct_a64_ldp(b, r, r + 1, X18, 8 * (int32_t)r);
}
/* The word before every place where the engine lets a thread continue. */
static inline void put_reload(struct ct_code_buf *b) {
    load_reg(b, X17);
}
/* Two words, always: movz, movk of 32 bits. */
static inline void put_reason(struct ct_code_buf *b, unsigned reg, uint32_t reason) {
    ct_a64_put(b, 0x52800000 | (reason & 0xffff) << 5 | reg);
    ct_a64_put(b, 0x72a00000 | reason >> 16 << 5 | reg);
}

static inline uint32_t word_of_b(uint64_t from, uint64_t to) {
    return ct_a64_redirect(0x14000000, from, to, CT_A64_REACH_B);
}

/* x16 becomes the table's word for the address in `rn`. STALK_TABLE_ALIGN makes one instruction of the index. */
static inline void put_lookup(struct ct_code_buf *b, const uint64_t *table, unsigned rn) {
    uint64_t at = (uint64_t)table;
    ct_a64_put(b, 0xd2a00000 | ((uint32_t)(at >> 16) & 0xffff) << 5 | X16); /* movz x16, #, lsl #16 */
    ct_a64_put(b, 0xf2c00000 | ((uint32_t)(at >> 32) & 0xffff) << 5 | X16); /* movk x16, #, lsl #32 */
    ct_a64_put(b, 0xb37f4400 | rn << 5 | X16);                              /* bfi x16, rn, #1, #18 */
    ct_a64_ldr(b, X16, X16, 0);
}

/* The way into an entry, for indirect branches with their target in `rn`: x17, or x30 of returns. x16 and x17 of the
 * program are in the area. Ends with the reload: the entry's code follows. Returns where the way in begins. */
static inline uint64_t put_way_in(struct ct_code_buf *b, uint64_t address, unsigned rn, uint64_t collide) {
    uint64_t start = ct_code_here(b);
    ct_a64_address(b, X16, address);
    ct_a64_eor_reg(b, X16, X16, rn);
    ct_a64_cbz(b, X16, ct_code_here(b) + 8);
    ct_a64_b(b, collide);
    load_reg(b, X16);
    put_reload(b);
    return start;
}

#endif
