/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the tables that decode_gen.py makes of decode_table.txt; private to the decoder. */
#ifndef CT_ISA_A64_DECODE_TABLES_H
#define CT_ISA_A64_DECODE_TABLES_H

#include "isa/a64/decode.h"

/* A cell is 0 (no such instruction), CELL_NODE | place of a node's header, or a place in the tests. A header is
 * shift | width << 8 of the field that selects the cell among those that follow. The root is cell 0. */
#define CELL_NODE 0x8000u

struct ct_a64_test {
    uint32_t mask, value;
    uint16_t form; /* of words that match; 0: there is no such instruction */
    uint16_t next; /* cell for the others */
};

enum imm { IMM_NONE, IMM_B26, IMM_B19, IMM_B14, IMM_ADR, IMM_ADRP };

enum {
    FORM_FLAGS_READ = 0x01,
    FORM_FLAGS_WRITTEN = 0x02,
    FORM_MEM_READ = 0x04,
    FORM_MEM_WRITTEN = 0x08,
    FORM_BITMASK = 0x10,   /* N:imms must describe a mask */
    FORM_EIGHT = 0x20,     /* Rt is the first of eight registers: even, 22 at most */
    FORM_DISTINCT = 0x40,  /* Rd, Rn and Rs must differ, and not be 31 ... */
    FORM_ZERO = 0x80,      /* ... but Rs may */
    FORM_ZMASK = 0x100,    /* the mask of an SVE immediate, at 17:5 */
    FORM_INDEX = 0x200,    /* reads w12 to w15, by 14:13 ... */
    FORM_INDEX_16 = 0x400, /* ... by 17:16 */
};

/* Fields that can name a general register: bits 0 to 3 of a mask are those at 0, 5, 10 and 16 of the word. */
enum { FIELDS = 4 };

struct ct_a64_form {
    uint8_t kind, what, imm;
    uint8_t access;   /* mask of fields that are read, << 4 those that are written */
    uint8_t special;  /* mask of fields whose 31 is sp, << 4 those that name two registers */
    uint16_t flags;   /* FORM_* */
    uint8_t implicit; /* in ct_a64_implicits */
};

struct ct_a64_implicit {
    uint32_t read, written;
};

extern const uint16_t ct_a64_decode_cells[];
extern const struct ct_a64_test ct_a64_decode_tests[];
extern const unsigned ct_a64_decode_test_count; /* tests of the decoder go through them */
extern const struct ct_a64_form ct_a64_forms[];
extern const struct ct_a64_implicit ct_a64_implicits[];

/* The cell that a node selects by the word. */
static inline unsigned ct_a64_child(const uint16_t *cells, unsigned node, uint32_t word) {
    unsigned at = node & ~CELL_NODE, header = cells[at];
    return cells[at + 1 + (word >> (header & 0xff) & ((1u << (header >> 8)) - 1))];
}

/* A word with the mask of an SVE immediate where ct_a64_bitmask expects it, for 64 bits. */
static inline uint32_t ct_a64_zmask_word(uint32_t word) {
    return UINT32_C(1) << 31 | (word >> 5 & 0x1fff) << 10;
}

/* The value of a bitmask immediate with N:immr:imms at bits 22:10 of the word; false when there is none. */
bool ct_a64_bitmask(uint32_t word, uint64_t *value);

#endif
