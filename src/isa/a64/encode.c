/* SPDX-License-Identifier: Apache-2.0 */
/* The emitters of encode.h. */
#include "isa/a64/encode.h"

void ct_a64_patch(struct ct_code_buf *b, size_t at, uint32_t word) {
    if (b->overflow)
        return;
    for (unsigned i = 0; i < 4; i++)
        b->bytes[at + i] = (uint8_t)(word >> (8 * i));
}

/* ---- branches ---- */

uint32_t ct_a64_redirect(uint32_t word, uint64_t from, uint64_t target, unsigned bits) {
    unsigned shift = bits == CT_A64_REACH_B ? 0 : 5;
    uint32_t mask = ((UINT32_C(1) << bits) - 1) << shift;
    if (!ct_a64_reaches(from, target, bits))
        return 0;
    return (word & ~mask) | ((uint32_t)((target - from) >> 2) << shift & mask);
}

static void put_branch(struct ct_code_buf *b, uint32_t word, uint64_t target, unsigned bits) {
    uint32_t redirected = ct_a64_redirect(word, ct_code_here(b), target, bits);
    if (redirected)
        ct_a64_put(b, redirected);
    else
        b->overflow = true;
}

void ct_a64_b(struct ct_code_buf *b, uint64_t target) {
    put_branch(b, 0x14000000, target, CT_A64_REACH_B);
}

void ct_a64_bl(struct ct_code_buf *b, uint64_t target) {
    put_branch(b, 0x94000000, target, CT_A64_REACH_B);
}

void ct_a64_b_cond(struct ct_code_buf *b, unsigned condition, uint64_t target) {
    put_branch(b, 0x54000000 | condition, target, CT_A64_REACH_COND);
}

void ct_a64_cbz(struct ct_code_buf *b, unsigned reg, uint64_t target) {
    put_branch(b, 0xb4000000 | reg, target, CT_A64_REACH_COND);
}

void ct_a64_cbnz(struct ct_code_buf *b, unsigned reg, uint64_t target) {
    put_branch(b, 0xb5000000 | reg, target, CT_A64_REACH_COND);
}

static uint32_t bit_number(unsigned bit) {
    return (uint32_t)(bit & 31) << 19 | (uint32_t)(bit >> 5) << 31;
}

void ct_a64_tbz(struct ct_code_buf *b, unsigned reg, unsigned bit, uint64_t target) {
    put_branch(b, 0x36000000 | bit_number(bit) | reg, target, CT_A64_REACH_TBZ);
}

void ct_a64_tbnz(struct ct_code_buf *b, unsigned reg, unsigned bit, uint64_t target) {
    put_branch(b, 0x37000000 | bit_number(bit) | reg, target, CT_A64_REACH_TBZ);
}

void ct_a64_br(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xd61f0000 | reg << 5);
}

void ct_a64_blr(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xd63f0000 | reg << 5);
}

void ct_a64_ret(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xd65f0000 | reg << 5);
}

void ct_a64_brk(struct ct_code_buf *b, unsigned number) {
    ct_a64_put(b, 0xd4200000 | (number & 0xffff) << 5);
}

void ct_a64_nop(struct ct_code_buf *b) {
    ct_a64_put(b, CT_A64_NOP);
}

void ct_a64_jump(struct ct_code_buf *b, unsigned scratch, uint64_t target) {
    if (ct_a64_reaches(ct_code_here(b), target, CT_A64_REACH_B)) {
        ct_a64_b(b, target);
        return;
    }
    ct_a64_address(b, scratch, target);
    ct_a64_ret(b, scratch);
}

/* ---- values and addresses ---- */

void ct_a64_mov(struct ct_code_buf *b, unsigned to, unsigned from) {
    ct_a64_put(b, 0xaa0003e0 | from << 16 | to);
}

void ct_a64_mov_sp(struct ct_code_buf *b, unsigned to, unsigned from) {
    ct_a64_put(b, 0x91000000 | from << 5 | to);
}

void ct_a64_mov64(struct ct_code_buf *b, unsigned reg, uint64_t value) {
    unsigned zeros = 0, ones = 0;
    for (unsigned i = 0; i < 64; i += 16) {
        zeros += (value >> i & 0xffff) == 0;
        ones += (value >> i & 0xffff) == 0xffff;
    }
    uint64_t rest = ones > zeros ? ~value : value;
    uint32_t word = ones > zeros ? 0x92800000 : 0xd2800000; /* movn, movz; the others are movk */
    for (unsigned i = 0; i < 4; i++) {
        uint64_t part = rest >> (16 * i) & 0xffff;
        if (!part && !(rest == 0 && i == 0))
            continue;
        if (word == 0xf2800000)
            part = value >> (16 * i) & 0xffff;
        ct_a64_put(b, word | i << 21 | (uint32_t)part << 5 | reg);
        word = 0xf2800000;
    }
}

static uint32_t adr_word(uint32_t word, unsigned reg, int64_t distance) {
    return word | ((uint32_t)distance & 3) << 29 | ((uint32_t)(distance >> 2) & 0x7ffff) << 5 | reg;
}

static bool fits_adr(int64_t distance) {
    return distance >= -(INT64_C(1) << 20) && distance < INT64_C(1) << 20;
}

static int64_t pages_to(const struct ct_code_buf *b, uint64_t value) {
    return (int64_t)((value & ~UINT64_C(0xfff)) - (ct_code_here(b) & ~UINT64_C(0xfff))) / 4096;
}

void ct_a64_adr(struct ct_code_buf *b, unsigned reg, uint64_t address) {
    int64_t distance = (int64_t)(address - ct_code_here(b));
    if (fits_adr(distance))
        ct_a64_put(b, adr_word(0x10000000, reg, distance));
    else
        b->overflow = true;
}

void ct_a64_adrp_add(struct ct_code_buf *b, unsigned reg, uint64_t value) {
    int64_t pages = pages_to(b, value);
    if (!fits_adr(pages)) {
        b->overflow = true;
        return;
    }
    ct_a64_put(b, adr_word(0x90000000, reg, pages));
    if (value & 0xfff)
        ct_a64_put(b, 0x91000000 | (uint32_t)(value & 0xfff) << 10 | reg << 5 | reg);
}

void ct_a64_address(struct ct_code_buf *b, unsigned reg, uint64_t value) {
    if (fits_adr((int64_t)(value - ct_code_here(b))))
        ct_a64_adr(b, reg, value);
    else if (fits_adr(pages_to(b, value)))
        ct_a64_adrp_add(b, reg, value);
    else
        ct_a64_mov64(b, reg, value);
}

void ct_a64_add(struct ct_code_buf *b, unsigned to, unsigned from, int64_t value) {
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    uint32_t word = value < 0 ? 0xd1000000 : 0x91000000;
    if (size >> 24) {
        b->overflow = true;
        return;
    }
    if (size >> 12) {
        ct_a64_put(b, word | 1u << 22 | (uint32_t)(size >> 12) << 10 | from << 5 | to);
        from = to;
    }
    if (size & 0xfff || !(size >> 12))
        ct_a64_put(b, word | (uint32_t)(size & 0xfff) << 10 | from << 5 | to);
}

void ct_a64_add_reg(struct ct_code_buf *b, unsigned to, unsigned left, unsigned right) {
    ct_a64_put(b, 0x8b000000 | right << 16 | left << 5 | to);
}

void ct_a64_sub_reg(struct ct_code_buf *b, unsigned to, unsigned left, unsigned right) {
    ct_a64_put(b, 0xcb000000 | right << 16 | left << 5 | to);
}

void ct_a64_eor_reg(struct ct_code_buf *b, unsigned to, unsigned left, unsigned right) {
    ct_a64_put(b, 0xca000000 | right << 16 | left << 5 | to);
}

/* ---- memory ---- */

static void put_access(struct ct_code_buf *b, uint32_t scaled, unsigned reg, unsigned base, int32_t offset) {
    uint32_t operands = base << 5 | reg;
    if (offset >= 0 && offset <= 32760 && !(offset & 7))
        ct_a64_put(b, scaled | (uint32_t)offset / 8 << 10 | operands);
    else if (offset >= -256 && offset < 256)
        ct_a64_put(b, (scaled & ~(UINT32_C(1) << 24)) | ((uint32_t)offset & 0x1ff) << 12 | operands);
    else
        b->overflow = true;
}

void ct_a64_ldr(struct ct_code_buf *b, unsigned reg, unsigned base, int32_t offset) {
    put_access(b, 0xf9400000, reg, base, offset);
}

void ct_a64_str(struct ct_code_buf *b, unsigned reg, unsigned base, int32_t offset) {
    put_access(b, 0xf9000000, reg, base, offset);
}

static void put_pair(struct ct_code_buf *b, uint32_t word, unsigned first, unsigned second, unsigned base,
                     int32_t offset) {
    if (offset < -512 || offset > 504 || offset & 7)
        b->overflow = true;
    else
        ct_a64_put(b, word | ((uint32_t)(offset / 8) & 0x7f) << 15 | second << 10 | base << 5 | first);
}

void ct_a64_ldp(struct ct_code_buf *b, unsigned first, unsigned second, unsigned base, int32_t offset) {
    put_pair(b, 0xa9400000, first, second, base, offset);
}

void ct_a64_stp(struct ct_code_buf *b, unsigned first, unsigned second, unsigned base, int32_t offset) {
    put_pair(b, 0xa9000000, first, second, base, offset);
}

void ct_a64_push(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xf81f0fe0 | reg);
}

void ct_a64_pop(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xf84107e0 | reg);
}

void ct_a64_push_pair(struct ct_code_buf *b, unsigned first, unsigned second) {
    put_pair(b, 0xa9800000, first, second, CT_A64_SP, -16);
}

void ct_a64_pop_pair(struct ct_code_buf *b, unsigned first, unsigned second) {
    put_pair(b, 0xa8c00000, first, second, CT_A64_SP, 16);
}

void ct_a64_mrs_nzcv(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xd53b4200 | reg);
}

void ct_a64_msr_nzcv(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xd51b4200 | reg);
}

void ct_a64_mrs_tp(struct ct_code_buf *b, unsigned reg) {
    ct_a64_put(b, 0xd53bd040 | reg);
}

size_t ct_a64_ldr_literal(struct ct_code_buf *b, unsigned reg) {
    size_t at = b->length;
    ct_a64_put(b, 0x58000000 | reg);
    return at;
}

void ct_a64_place_literal(struct ct_code_buf *b, size_t ldr_at, uint64_t value) {
    if (!b->overflow)
        ct_a64_patch(b, ldr_at, ct_a64_redirect(ct_a64_word(b->bytes + ldr_at), ldr_at, b->length, CT_A64_REACH_COND));
    ct_code_u64(b, value);
}
