/* SPDX-License-Identifier: Apache-2.0 */
/* Small A64 emitters: one function per form that stubs, springboards and the relocator need.
 *
 * All write into a ct_code_buf and rely on its `overflow`; a distance that an instruction cannot hold sets it too. None
 * of the emitted instructions changes a flag. Registers are numbers 0-31. */
#ifndef CT_ISA_A64_ENCODE_H
#define CT_ISA_A64_ENCODE_H

#include "isa/a64/decode.h"

#define CT_A64_NOP 0xd503201fu

/* Bits of the distance that branches hold, counted in words. */
enum { CT_A64_REACH_B = 26, CT_A64_REACH_COND = 19, CT_A64_REACH_TBZ = 14 };

/* True when a branch at `from` whose distance has this many bits reaches `target`. */
static inline bool ct_a64_reaches(uint64_t from, uint64_t target, unsigned bits) {
    int64_t distance = (int64_t)(target - from);
    return !(distance & 3) && distance >= -(INT64_C(2) << bits) && distance < INT64_C(2) << bits;
}

/* The word with its 26, 19 or 14 bits of distance replaced; 0 when it does not reach. */
uint32_t ct_a64_redirect(uint32_t word, uint64_t from, uint64_t target, unsigned bits);

static inline void ct_a64_put(struct ct_code_buf *b, uint32_t word) {
    ct_code_u32(b, word);
}

void ct_a64_b(struct ct_code_buf *b, uint64_t target);
void ct_a64_bl(struct ct_code_buf *b, uint64_t target);
void ct_a64_b_cond(struct ct_code_buf *b, unsigned condition, uint64_t target);
void ct_a64_cbz(struct ct_code_buf *b, unsigned reg, uint64_t target);
void ct_a64_cbnz(struct ct_code_buf *b, unsigned reg, uint64_t target);
void ct_a64_tbz(struct ct_code_buf *b, unsigned reg, unsigned bit, uint64_t target);
void ct_a64_tbnz(struct ct_code_buf *b, unsigned reg, unsigned bit, uint64_t target);
void ct_a64_br(struct ct_code_buf *b, unsigned reg);
void ct_a64_blr(struct ct_code_buf *b, unsigned reg);
void ct_a64_ret(struct ct_code_buf *b, unsigned reg);
void ct_a64_brk(struct ct_code_buf *b, unsigned number);
void ct_a64_nop(struct ct_code_buf *b);
/* b, or when it is out of reach the address in `scratch` and `ret scratch`: unlike br it leads into guarded text at any
 * place. 6 words at most. */
void ct_a64_jump(struct ct_code_buf *b, unsigned scratch, uint64_t target);

void ct_a64_mov(struct ct_code_buf *b, unsigned to, unsigned from);        /* 31 is the zero register */
void ct_a64_mov_sp(struct ct_code_buf *b, unsigned to, unsigned from);     /* 31 is sp */
void ct_a64_mov64(struct ct_code_buf *b, unsigned reg, uint64_t value);    /* in the fewest movz, movn, movk: 1 to 4 */
void ct_a64_adr(struct ct_code_buf *b, unsigned reg, uint64_t address);    /* ±1 MiB */
void ct_a64_adrp_add(struct ct_code_buf *b, unsigned reg, uint64_t value); /* ±4 GiB; no add for the start of a page */
void ct_a64_address(struct ct_code_buf *b, unsigned reg, uint64_t value);  /* the shortest of the three above */
void ct_a64_add(struct ct_code_buf *b, unsigned to, unsigned from, int64_t value); /* 31 is sp; ±16 MiB, 1 or 2 words */
void ct_a64_add_reg(struct ct_code_buf *b, unsigned to, unsigned left, unsigned right);
void ct_a64_sub_reg(struct ct_code_buf *b, unsigned to, unsigned left, unsigned right);
void ct_a64_eor_reg(struct ct_code_buf *b, unsigned to, unsigned left, unsigned right);

/* 64 bits at [base + offset]; base 31 is sp. Offsets -256 to 255, or multiples of 8 up to 32760. */
void ct_a64_ldr(struct ct_code_buf *b, unsigned reg, unsigned base, int32_t offset);
void ct_a64_str(struct ct_code_buf *b, unsigned reg, unsigned base, int32_t offset);
/* Two of them; multiples of 8 from -512 to 504. */
void ct_a64_ldp(struct ct_code_buf *b, unsigned first, unsigned second, unsigned base, int32_t offset);
void ct_a64_stp(struct ct_code_buf *b, unsigned first, unsigned second, unsigned base, int32_t offset);
void ct_a64_push(struct ct_code_buf *b, unsigned reg); /* 16 bytes of stack */
void ct_a64_pop(struct ct_code_buf *b, unsigned reg);
void ct_a64_push_pair(struct ct_code_buf *b, unsigned first, unsigned second);
void ct_a64_pop_pair(struct ct_code_buf *b, unsigned first, unsigned second);
void ct_a64_mrs_nzcv(struct ct_code_buf *b, unsigned reg);
void ct_a64_msr_nzcv(struct ct_code_buf *b, unsigned reg);
void ct_a64_mrs_tp(struct ct_code_buf *b, unsigned reg); /* tpidr_el0 */

/* A literal that is placed later: ldr_literal emits `ldr reg, ?` and returns its offset; place_literal emits the 8
 * bytes and fills in the distance. */
size_t ct_a64_ldr_literal(struct ct_code_buf *b, unsigned reg);
void ct_a64_place_literal(struct ct_code_buf *b, size_t ldr_at, uint64_t value);

/* Overwrites the word that was emitted at offset `at`. Does nothing after an overflow. */
void ct_a64_patch(struct ct_code_buf *b, size_t at, uint32_t word);

#endif
