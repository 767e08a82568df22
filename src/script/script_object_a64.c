/* SPDX-License-Identifier: Apache-2.0 */
/* Relocations that compilers of arm64 write. */
#include "isa/a64/encode.h"
#include "script/script_object.h"
#include <contrail/status.h>
#include <elf.h>
#include <string.h>

#define PAGE_BITS 12
#define JUMP_LOAD 0x58000050u /* ldr x16, 8 bytes ahead */
#define JUMP_GO   0xd61f0200u /* br x16 */

static int put(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t value, size_t size) {
    if (f->end - f->at < size)
        return CT_ERR_OUT_OF_RANGE;
    memcpy(m->bytes + f->at, &value, size);
    return 0;
}

/* Either as a signed or as an unsigned number. */
static bool fits(uint64_t value, unsigned bits) {
    return value >> bits == 0 || (int64_t)value >> (bits - 1) == -1;
}

static int put_number(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t value, unsigned bits) {
    return bits == 64 || fits(value, bits) ? put(m, f, value, bits / 8) : CT_ERR_OUT_OF_RANGE;
}

/* `bits` of the value into the instruction, at `shift`. */
static int put_field(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t value, unsigned bits,
                     unsigned shift) {
    uint32_t word, mask = ((UINT32_C(1) << bits) - 1) << shift;
    memcpy(&word, m->bytes + f->at, sizeof word);
    return put(m, f, (word & ~mask) | ((uint32_t)value << shift & mask), sizeof word);
}

static uint64_t here(const struct ct_object_image *m, const struct ct_object_fix *f) {
    return m->address + f->at;
}

/* ---- branches and literals ---- */

static int put_branch(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t target, unsigned bits) {
    uint32_t word;
    memcpy(&word, m->bytes + f->at, sizeof word);
    word = ct_a64_redirect(word, here(m, f), target, bits);
    return word ? put(m, f, word, sizeof word) : CT_ERR_OUT_OF_RANGE;
}

/* A jump to the symbol, within reach. */
static uint64_t jump_for(struct ct_object_image *m, const struct ct_object_fix *f) {
    static const uint32_t code[] = {JUMP_LOAD, JUMP_GO};
    if (!m->jump_of[f->symbol])
        m->jump_of[f->symbol] = ++m->jump_count;
    uint64_t at = m->jumps + (m->jump_of[f->symbol] - 1) * (uint64_t)CT_OBJECT_JUMP;
    memcpy(m->bytes + at, code, sizeof code);
    memcpy(m->bytes + at + sizeof code, &f->value, sizeof f->value);
    return m->address + at;
}

static int put_call(struct ct_object_image *m, const struct ct_object_fix *f) {
    int status = put_branch(m, f, f->value + (uint64_t)f->addend, CT_A64_REACH_B);
    return status && !f->addend ? put_branch(m, f, jump_for(m, f), CT_A64_REACH_B) : status;
}

/* ---- addresses ---- */

/* A word with the symbol's address, within reach. */
static uint64_t word_for(struct ct_object_image *m, const struct ct_object_fix *f) {
    if (!m->word_of[f->symbol])
        m->word_of[f->symbol] = ++m->word_count;
    uint64_t at = m->words + (m->word_of[f->symbol] - 1) * 8ull;
    memcpy(m->bytes + at, &f->value, sizeof f->value);
    return m->address + at;
}

/* adr and adrp: the low two bits of the distance are elsewhere. */
static int put_adr(struct ct_object_image *m, const struct ct_object_fix *f, int64_t distance) {
    if (distance < -(INT64_C(1) << 20) || distance >= INT64_C(1) << 20)
        return CT_ERR_OUT_OF_RANGE;
    int status = put_field(m, f, (uint64_t)distance & 3, 2, 29);
    return status ? status : put_field(m, f, (uint64_t)distance >> 2, 19, 5);
}

static int put_adrp(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t target) {
    return put_adr(m, f, (int64_t)(target >> PAGE_BITS) - (int64_t)(here(m, f) >> PAGE_BITS));
}

/* The offset in a page, in units of the access. */
static int put_low(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t target, unsigned unit) {
    uint64_t low = target & ((1u << PAGE_BITS) - 1);
    return low & ((1u << unit) - 1) ? CT_ERR_OUT_OF_RANGE : put_field(m, f, low >> unit, PAGE_BITS, 10);
}

/* 16 of the value's bits into movz or movk; `checked`: there are no higher ones. */
static int put_part(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t value, unsigned part,
                    bool checked) {
    if (checked && part < 3 && value >> (16 * part + 16))
        return CT_ERR_OUT_OF_RANGE;
    return put_field(m, f, value >> (16 * part), 16, 5);
}

static int fix_data(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t value) {
    switch (f->type) {
    case R_AARCH64_ABS64:
        return put_number(m, f, value, 64);
    case R_AARCH64_ABS32:
        return put_number(m, f, value, 32);
    case R_AARCH64_ABS16:
        return put_number(m, f, value, 16);
    case R_AARCH64_PREL64:
        return put_number(m, f, value - here(m, f), 64);
    case R_AARCH64_PREL32:
        return put_number(m, f, value - here(m, f), 32);
    case R_AARCH64_PREL16:
        return put_number(m, f, value - here(m, f), 16);
    default:
        return CT_ERR_UNSUPPORTED;
    }
}

static int fix_address(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t value) {
    switch (f->type) {
    case R_AARCH64_ADR_PREL_LO21:
        return put_adr(m, f, (int64_t)(value - here(m, f)));
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_PREL_PG_HI21_NC:
        return put_adrp(m, f, value);
    case R_AARCH64_ADR_GOT_PAGE:
        return put_adrp(m, f, word_for(m, f));
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
        return put_low(m, f, value, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
        return put_low(m, f, value, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
        return put_low(m, f, value, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
        return put_low(m, f, value, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
        return put_low(m, f, value, 4);
    case R_AARCH64_LD64_GOT_LO12_NC:
        return put_low(m, f, word_for(m, f), 3);
    case R_AARCH64_LD64_GOTPAGE_LO15: { /* from the page where the words begin */
        uint64_t distance = word_for(m, f) - (m->address + m->words);
        return distance >> 15 ? CT_ERR_OUT_OF_RANGE : put_field(m, f, distance >> 3, PAGE_BITS, 10);
    }
    default:
        return fix_data(m, f, value);
    }
}

int ct_object_fix(struct ct_object_image *m, const struct ct_object_fix *f) {
    uint64_t value = f->value + (uint64_t)f->addend;
    uint32_t part = (f->type - R_AARCH64_MOVW_UABS_G0) / 2; /* G0, G0_NC, G1, G1_NC, G2, G2_NC, G3 */
    switch (f->type) {
    case R_AARCH64_NONE:
        return 0;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
        return put_call(m, f);
    case R_AARCH64_CONDBR19:
    case R_AARCH64_LD_PREL_LO19:
        return put_branch(m, f, value, CT_A64_REACH_COND);
    case R_AARCH64_GOT_LD_PREL19:
        return put_branch(m, f, word_for(m, f), CT_A64_REACH_COND);
    case R_AARCH64_TSTBR14:
        return put_branch(m, f, value, CT_A64_REACH_TBZ);
    default:
        return part <= 3 ? put_part(m, f, value, part, !((f->type - R_AARCH64_MOVW_UABS_G0) & 1))
                         : fix_address(m, f, value);
    }
}
