/* SPDX-License-Identifier: Apache-2.0 */
/* See decode.h. */
#include "isa/a64/decode_tables.h"

#include "contrail/status.h"

static const uint8_t fields[FIELDS] = {0, 5, 10, 16}; /* where they are in the word */

static int64_t sign_extend(uint64_t value, unsigned bits) {
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static int64_t distance(uint32_t word, unsigned imm) {
    int64_t page = sign_extend((uint64_t)(word >> 5 & 0x7ffff) << 2 | (word >> 29 & 3), 21);
    switch (imm) {
    case IMM_B26:
        return sign_extend(word, 26) * 4;
    case IMM_B19:
        return sign_extend(word >> 5, 19) * 4;
    case IMM_B14:
        return sign_extend(word >> 5, 14) * 4;
    case IMM_ADR:
        return page;
    case IMM_ADRP:
        return page * 4096;
    default:
        return 0;
    }
}

/* A mask is a run of ones in an element of 2, 4 ... 64 bits, turned right, repeated. N and the leading ones of imms say
 * how wide the element is. */
bool ct_a64_bitmask(uint32_t word, uint64_t *value) {
    unsigned n = word >> 22 & 1, immr = word >> 16 & 63, imms = word >> 10 & 63, width = 64;
    if (!n)
        for (width = 32; width > 1 && imms & width; width >>= 1)
            ;
    unsigned ones = (imms & (width - 1)) + 1, turn = immr & (width - 1);
    if (width < 2 || ones == width || (n && !(word >> 31)))
        return false;
    uint64_t element = (UINT64_C(1) << ones) - 1;
    if (turn)
        element = element >> turn | element << (width - turn);
    if (width < 64)
        element &= (UINT64_C(1) << width) - 1;
    for (; width < 64; width *= 2)
        element |= element << width;
    *value = word >> 31 ? element : (uint32_t)element;
    return true;
}

static bool are_distinct(uint32_t word, bool zero) {
    unsigned d = word & 31, n = word >> 5 & 31, s = word >> 16 & 31;
    return d != n && d != s && n != s && d != 31 && n != 31 && (zero || s != 31);
}

static bool is_valid(uint32_t word, unsigned flags) {
    uint64_t unused;
    if (flags & FORM_BITMASK)
        return ct_a64_bitmask(word, &unused);
    if (flags & FORM_ZMASK)
        return ct_a64_bitmask(ct_a64_zmask_word(word), &unused);
    if (flags & FORM_DISTINCT)
        return are_distinct(word, flags & FORM_ZERO);
    if (flags & FORM_EIGHT)
        return !(word & 1) && (word & 31) <= 22;
    return true;
}

/* The test that a word passes; 0: it passes none. */
static unsigned find_row(uint32_t word) {
    for (unsigned cell = ct_a64_decode_cells[0];;) {
        while (cell & CELL_NODE)
            cell = ct_a64_child(ct_a64_decode_cells, cell, word);
        const struct ct_a64_test *test = &ct_a64_decode_tests[cell];
        if (!cell || (word & test->mask) == test->value)
            return cell;
        cell = test->next;
    }
}

static const struct ct_a64_form *form_of(unsigned row) {
    return &ct_a64_forms[ct_a64_decode_tests[row].form];
}

int ct_a64_decode(uint32_t word, struct ct_a64_insn *insn) {
    unsigned row = find_row(word);
    const struct ct_a64_form *form = form_of(row);
    if (!ct_a64_decode_tests[row].form || !is_valid(word, form->flags))
        return CT_ERR_BAD_INSTRUCTION;
    insn->word = word;
    insn->kind = form->kind;
    insn->what = form->what;
    insn->row = (uint16_t)row;
    insn->imm = distance(word, form->imm);
    return 0;
}

/* The registers that a field names. */
static uint32_t field_mask(uint32_t word, const struct ct_a64_form *form, unsigned i) {
    unsigned reg = word >> fields[i] & 31;
    if (form->flags & FORM_EIGHT && i == 0)
        return UINT32_C(0xff) << reg;
    uint32_t mask = UINT32_C(1) << reg;
    if (form->special >> 4 >> i & 1 && reg < 31)
        mask |= mask << 1;
    return form->special >> i & 1 ? mask : mask & ~(UINT32_C(1) << CT_A64_ZR);
}

/* The register that counts slices of SME's array. */
static uint32_t index_mask(uint32_t word, unsigned flags) {
    if (!(flags & (FORM_INDEX | FORM_INDEX_16)))
        return 0;
    return UINT32_C(1) << (12 + (word >> (flags & FORM_INDEX ? 13 : 16) & 3));
}

void ct_a64_effects(const struct ct_a64_insn *insn, struct ct_a64_effects *effects) {
    const struct ct_a64_form *form = form_of(insn->row);
    uint32_t read = ct_a64_implicits[form->implicit].read, written = ct_a64_implicits[form->implicit].written;
    for (unsigned i = 0; i < FIELDS; i++) {
        if (form->access >> i & 1)
            read |= field_mask(insn->word, form, i);
        if (form->access >> 4 >> i & 1)
            written |= field_mask(insn->word, form, i);
    }
    effects->regs_read = read | index_mask(insn->word, form->flags);
    effects->regs_written = written;
    effects->flags_read = form->flags & FORM_FLAGS_READ;
    effects->flags_written = form->flags & FORM_FLAGS_WRITTEN;
    effects->mem_read = form->flags & FORM_MEM_READ;
    effects->mem_written = form->flags & FORM_MEM_WRITTEN;
}

bool ct_a64_rename(const struct ct_a64_insn *insn, unsigned from, unsigned to, uint32_t *word) {
    const struct ct_a64_form *form = form_of(insn->row);
    const struct ct_a64_implicit *implicit = &ct_a64_implicits[form->implicit];
    uint32_t bit = UINT32_C(1) << from, renamed = insn->word;
    if ((implicit->read | implicit->written | index_mask(insn->word, form->flags)) & bit)
        return false;
    for (unsigned i = 0; i < FIELDS; i++) {
        unsigned used = (form->access | form->access >> 4) >> i & 1;
        uint32_t mask = used ? field_mask(insn->word, form, i) : 0;
        if (!(mask & bit))
            continue;
        if (mask != bit)
            return false;
        renamed = (renamed & ~(UINT32_C(31) << fields[i])) | (uint32_t)to << fields[i];
    }
    *word = renamed;
    return true;
}
