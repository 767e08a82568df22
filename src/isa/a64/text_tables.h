/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the text tables that decode_gen.py makes of decode_table.txt, and what the files that write text share;
 * private to them. */
#ifndef CT_ISA_A64_TEXT_TABLES_H
#define CT_ISA_A64_TEXT_TABLES_H

#include "isa/a64/decode_tables.h"

/* clang-format off */
/* Bytes of a text that are operands; two more bytes follow each. */
enum operand {
    T_REG = 0x80, T_RTB, T_RMX, T_OPTIONAL, T_HEX, T_DEC, T_NUMBER, T_SIGNED, T_COND, T_MEMORY, T_TO, T_AIMM, T_LIMM,
    T_MIMM, T_MOV_WIDE, T_MOV_NOT, T_SHIFT, T_BIT, T_LSL, T_WIDTH, T_BFI, T_BFI_WIDTH, T_PRFOP, T_BARRIER,
    T_BARRIER_NXS, T_PSTATE, T_SMSTART, T_SYSREG, T_SYSOP,
    T_VECTORS, /* the others are in text_vector.c */
    T_SCALAR = T_VECTORS, T_VECTOR, T_ELEMENT, T_SECOND, T_REGS, T_LANE, T_TABLE, T_ROT, T_ROT_ODD, T_FIMM, T_VFIMM,
    T_VIMM, T_SHL, T_SHR, T_FBITS,
    T_SVE, /* the others are in text_sve.c */
    T_Z = T_SVE, T_P, T_LETTER, T_SVE_NUMBER, T_SVE_MEMORY, T_SVE_ELEMENT, T_SVE_LIST, T_SVE_HALF,
    T_SLICE, T_PSEL, T_TILES, T_INDEX,
};
/* Arguments of operands. */
enum { M_BASE, M_UNSIGNED, M_SIGNED, M_REGISTER, M_PAIR, M_PAIR_TAGS, M_KEYED, M_TAGS, M_AFTER_REGS, M_AFTER_LANES };
enum { M_PLAIN, M_BEFORE, M_AFTER };
enum { S_WHOLE = 8, S_SIZE, S_SIZE_LONG, S_FTYPE, S_SZ, S_IMMH, S_IMMH_LONG, S_IMM5 };
enum { A_SIZE, A_B, A_H, A_S, A_D, A_SZ, A_SIZE_LONG, A_SIZE_PAIR, A_IMM5, A_IMMH, A_IMMH_LONG };
enum { E_IMM5, E_IMM4, E_SIZE, E_SZ, E_H, E_4B, E_2H, E_COMPLEX, E_IMM2 };
enum { L_SIZE, L_HALF, L_QUARTER, L_TSZ_P, L_TSZ_U, L_TSZ_WIDE, L_IMM, L_MASK };
enum { N_SHL_P, N_SHR_P, N_SHL_U, N_SHR_U, N_EXT, N_INDEX, N_MASK, N_SIGNED8, N_UNSIGNED8, N_FLOAT, N_PATTERN,
       N_PATTERN_ONLY, N_PREFETCH };
enum { Z_SCALARS, Z_VL4, Z_VL6, Z_VL9, Z_SCALED, Z_QUAD, Z_GATHER_S, Z_GATHER_D, Z_SCATTER_S, Z_SCATTER_D, Z_GATHER_L, Z_ARRAY,
       Z_VECTOR_S, Z_VECTOR_D, Z_VECTOR_SCALAR_S, Z_VECTOR_SCALAR_D };
enum { X_1, X_2, X_3, X_2_LOW, X_3_LOW };
/* When an alias is preferred. */
enum { IF_ALWAYS, IF_MOV_MASK, IF_MOV_WIDE, IF_MOV_NOT, IF_LESS, IF_LSL, IF_SAME, IF_COND, IF_SAME_COND, IF_SYSOP,
       IF_ZMOV, IF_ZSAME, IF_PALL, IF_PSAME, IF_PMERGE, IF_PNOT };
/* clang-format on */

struct ct_a64_alias {
    uint32_t text;
    uint8_t condition;
};

/* A named system register or operation. */
struct ct_a64_name {
    uint16_t number; /* op0:op1:CRn:CRm:op2, as in the word; op0 of operations is 1 */
    uint16_t text;   /* place in ct_a64_names_text */
};

extern const uint16_t ct_a64_alias_cells[];
extern const struct ct_a64_test ct_a64_alias_tests[];
extern const unsigned ct_a64_alias_test_count;
extern const struct ct_a64_alias ct_a64_aliases[];
extern const uint32_t ct_a64_row_texts[]; /* of each test of the decoder: place in ct_a64_texts */
extern const uint8_t ct_a64_texts[];
extern const unsigned ct_a64_name_count;
extern const struct ct_a64_name ct_a64_names[]; /* sorted by number */
extern const char ct_a64_names_text[];

/* Text that is being written; what does not fit is left out. */
struct ct_a64_writer {
    char *text;
    size_t size, length;
    uint32_t word;
    const struct ct_a64_insn *insn;
    uint64_t address;
};

void ct_a64_put_text(struct ct_a64_writer *w, const char *text);
void ct_a64_put_char(struct ct_a64_writer *w, char c);
void ct_a64_put_decimal(struct ct_a64_writer *w, int64_t value);
void ct_a64_put_hex(struct ct_a64_writer *w, uint64_t value); /* with 0x */
void ct_a64_put_vector(struct ct_a64_writer *w, unsigned operand, unsigned a, unsigned b);
void ct_a64_put_sve(struct ct_a64_writer *w, unsigned operand, unsigned a, unsigned b);
bool ct_a64_prefers_sve(uint32_t word, unsigned condition);
void ct_a64_put_float(struct ct_a64_writer *w, unsigned imm8);
void ct_a64_put_general(struct ct_a64_writer *w, unsigned number, bool wide, bool sp);
/* Bytes that a load or store of structures moves, of all its registers (`whole`) or one lane of each. */
unsigned ct_a64_structure_bytes(uint32_t word, unsigned registers, bool whole);

static inline unsigned ct_a64_bits(uint32_t word, unsigned shift, unsigned width) {
    return word >> shift & ((1u << width) - 1);
}

#endif
