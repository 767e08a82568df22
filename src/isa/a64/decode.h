/* SPDX-License-Identifier: Apache-2.0 */
/* A64 decoder: one word in, what a code mover needs out.
 *
 * Two steps, as on x86_64: ct_a64_decode finds the kind and where a branch or a literal leads, ct_a64_effects reports
 * which registers, flags and memory the instruction touches. Both are table-driven, freestanding, allocate nothing and
 * keep no state. The code of a function is little-endian words whatever the machine's data are. */
#ifndef CT_ISA_A64_DECODE_H
#define CT_ISA_A64_DECODE_H

#include "isa/isa.h"

#define CT_A64_LENGTH 4

/* Registers as they are numbered. 31 is sp or the zero register: what an operand means depends on its instruction. */
enum ct_a64_reg {
    CT_A64_X0 = 0,
    CT_A64_X16 = 16,
    CT_A64_X17 = 17,
    CT_A64_X18 = 18,
    CT_A64_FP = 29,
    CT_A64_LR = 30,
    CT_A64_SP = 31,
    CT_A64_ZR = 31,
};

/* Instructions that a code mover treats in their own way, beside those that have a kind of their own. */
enum ct_a64_what {
    CT_A64_PLAIN,
    CT_A64_ADR,
    CT_A64_ADRP,
    CT_A64_LITERAL,         /* ldr, ldrsw, prfm of an address near the instruction, vector registers too */
    CT_A64_LOAD_EXCLUSIVE,  /* a sequence to the matching store begins */
    CT_A64_STORE_EXCLUSIVE, /* ... and ends */
    CT_A64_CLEAR,           /* clrex */
    CT_A64_SIGN,            /* paciasp, pacibsp, paciaz, pacibz: signs x30. The first two are landing pads too */
    CT_A64_AUTH,            /* autiasp, autibsp, autiaz, autibz */
    CT_A64_READ_TP,         /* mrs Xt, tpidr_el0 */
    CT_A64_WRITE_TP,
};

struct ct_a64_insn {
    uint32_t word;
    uint8_t kind; /* enum ct_insn_kind */
    uint8_t what; /* enum ct_a64_what */
    uint16_t row; /* private to the decoder: key for ct_a64_effects and ct_a64_text */
    int64_t imm;  /* distance of a direct branch, adr or literal; of adrp from the start of its own page */
};

/* 0, or CT_ERR_BAD_INSTRUCTION. */
int ct_a64_decode(uint32_t word, struct ct_a64_insn *insn);

static inline uint32_t ct_a64_word(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Fields of the word. */
static inline unsigned ct_a64_rt(uint32_t word) { /* also Rd */
    return word & 31;
}
static inline unsigned ct_a64_rn(uint32_t word) {
    return word >> 5 & 31;
}

/* Where a direct branch at `address` goes, or what adr, adrp and literals name. */
static inline uint64_t ct_a64_target(const struct ct_a64_insn *insn, uint64_t address) {
    return (insn->what == CT_A64_ADRP ? address & ~UINT64_C(0xfff) : address) + (uint64_t)insn->imm;
}

/* True for b, bl, b.cond, bc.cond, cbz, cbnz, tbz, tbnz. */
static inline bool ct_a64_is_direct(const struct ct_a64_insn *insn) {
    return insn->kind >= CT_INSN_JMP && insn->kind <= CT_INSN_CALL;
}

/* True for branches that authenticate with key A or B: braa, blraaz, retab ... `word` is one of kind JMP_INDIRECT,
 * CALL_INDIRECT or RET. Without the authentication they are br, blr, ret. */
static inline bool ct_a64_authenticates(uint32_t word) {
    return word & 0x800;
}

/* All operands, implicit ones included. Register masks: bit n is xn, bit 31 is sp; the zero register is in none. A
 * write to wn counts as one to xn, whose upper half it clears. Vector registers are not reported. */
struct ct_a64_effects {
    uint32_t regs_read; /* a conditional write counts as a read too */
    uint32_t regs_written;
    bool flags_read; /* any of N, Z, C, V */
    bool flags_written;
    bool mem_read;
    bool mem_written;
};

void ct_a64_effects(const struct ct_a64_insn *insn, struct ct_a64_effects *effects);

/* Gives the operands that are general register `from` the register `to` instead, and leaves all else. False when this
 * cannot be said in one instruction: an implicit register, or one of a group. `word` is then unchanged. */
bool ct_a64_rename(const struct ct_a64_insn *insn, unsigned from, unsigned to, uint32_t *word);

#endif
