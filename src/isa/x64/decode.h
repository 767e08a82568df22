/* SPDX-License-Identifier: Apache-2.0 */
/* x86_64 decoder: bytes in, what a code mover needs out.
 *
 * Two steps, because most callers need only the first: ct_x64_decode finds length, kind and the offsets of the parts;
 * ct_x64_effects reports which registers, flags and memory the instruction touches. Both are table-driven,
 * freestanding, allocate nothing, keep no state, and never read a byte at or past bytes+size. */
#ifndef CT_ISA_X64_DECODE_H
#define CT_ISA_X64_DECODE_H

#include "isa/isa.h"

#define CT_X64_MAX_LENGTH 15

enum ct_x64_encoding { CT_X64_LEGACY, CT_X64_VEX, CT_X64_EVEX, CT_X64_XOP, CT_X64_3DNOW };

/* Bits of ct_x64_insn.prefixes. Of several f2 and f3, and of several fs and gs, only the last one is kept, as the
 * processor does. cs, ds, es, ss have no effect on addresses; 2e and 3e also hint branches, 3e marks notrack. */
enum ct_x64_prefix {
    CT_X64_LOCK = 1 << 0,
    CT_X64_REP = 1 << 1,   /* f3 */
    CT_X64_REPNE = 1 << 2, /* f2 */
    CT_X64_OPSIZE = 1 << 3,
    CT_X64_ADDRSIZE = 1 << 4,
    CT_X64_SEG_FS = 1 << 5,
    CT_X64_SEG_GS = 1 << 6,
    CT_X64_SEG_OTHER = 1 << 7,
};

/* Registers in hardware numbering; 16 is the instruction pointer. */
/* clang-format off */
enum ct_x64_reg {
    CT_X64_RAX, CT_X64_RCX, CT_X64_RDX, CT_X64_RBX, CT_X64_RSP, CT_X64_RBP, CT_X64_RSI, CT_X64_RDI,
    CT_X64_R8, CT_X64_R9, CT_X64_R10, CT_X64_R11, CT_X64_R12, CT_X64_R13, CT_X64_R14, CT_X64_R15,
    CT_X64_RIP,
    CT_X64_NO_REG = 0xff,
};
/* clang-format on */

struct ct_x64_insn {
    uint8_t length;
    uint8_t kind;     /* enum ct_insn_kind */
    uint8_t encoding; /* enum ct_x64_encoding */
    uint8_t map;      /* 0 one byte, 1 0f, 2 0f38, 3 0f3a, 5 and 6 EVEX maps, 8 9 10 XOP; 3DNow! is encoding 3DNOW */
    uint8_t opcode;
    uint8_t prefixes; /* enum ct_x64_prefix bits */
    uint8_t rex;      /* W=8 R=4 X=2 B=1, also from VEX/EVEX/XOP (already un-inverted) */
    uint8_t vector;   /* low 2 bits: mandatory prefix of VEX/EVEX/XOP (0 none, 1 66, 2 f3, 3 f2); bits 2-3: L'L */
    uint8_t vvvv;     /* extra register of VEX/EVEX/XOP, un-inverted, 0-31 */
    uint8_t modrm;    /* valid when modrm_offset != 0; where the processor ignores mod (mov cr, dr), mod reads 3 */
    uint8_t sib;      /* valid when has_sib */
    bool has_sib;
    bool has_rex;          /* a REX byte counts: also 40, which makes spl, bpl, sil, dil of ah, ch, dh, bh */
    bool rip_relative;     /* memory operand is disp32 + address of the next instruction */
    uint8_t opcode_offset; /* of the last opcode byte */
    uint8_t modrm_offset;  /* 0: no modrm */
    uint8_t disp_offset;   /* 0: no displacement */
    uint8_t disp_size;     /* 0 1 4, 8 for moffs */
    uint8_t imm_offset;    /* 0: no immediate; branch displacements count as immediates */
    uint8_t imm_size;      /* 0 1 2 4 8 */
    uint8_t imm2_offset;   /* second immediate: enter, extrq/insertq */
    uint8_t imm2_size;
    uint16_t table_index; /* private to the decoder: key for ct_x64_effects */
    int64_t disp;         /* sign-extended; EVEX disp8 is not scaled here */
    int64_t imm;          /* sign-extended */
};

/* 0, CT_ERR_TRUNCATED when the bytes end inside the instruction, or CT_ERR_BAD_INSTRUCTION. */
int ct_x64_decode(const uint8_t *bytes, size_t size, struct ct_x64_insn *insn);

/* Target of a direct branch (jmp, jcc, loop, call, xbegin) at `address`. A 66 prefix does not make the displacement
 * shorter (as on Intel; AMD reads 16 bits and cuts the target to them. Compilers emit the prefix only with REX.W, where
 * both agree). */
static inline uint64_t ct_x64_target(const struct ct_x64_insn *insn, uint64_t address) {
    return address + insn->length + (uint64_t)insn->imm;
}

/* Address that a RIP-relative operand names (with CT_X64_ADDRSIZE the processor cuts it to 32 bits). */
static inline uint64_t ct_x64_rip_address(const struct ct_x64_insn *insn, uint64_t address) {
    return address + insn->length + (uint64_t)insn->disp;
}

/* Bits of the flag masks, as in RFLAGS. */
enum ct_x64_flag {
    CT_X64_CF = 1 << 0,
    CT_X64_PF = 1 << 2,
    CT_X64_AF = 1 << 4,
    CT_X64_ZF = 1 << 6,
    CT_X64_SF = 1 << 7,
    CT_X64_DF = 1 << 10,
    CT_X64_OF = 1 << 11,
    CT_X64_ARITH_FLAGS = CT_X64_CF | CT_X64_PF | CT_X64_AF | CT_X64_ZF | CT_X64_SF | CT_X64_OF,
};

/* All operands, implicit ones included. Register masks: bit n is register n of enum ct_x64_reg (0-15). */
struct ct_x64_effects {
    /* a conditional write (cmov, bsf) counts as a read too; an 8- or 16-bit write alone does not */
    uint16_t regs_read;
    uint16_t regs_written; /* may be written */
    uint16_t flags_read;
    uint16_t flags_written; /* may be changed or left undefined */
    uint16_t flags_killed;  /* always overwritten or undefined afterwards, for all operands: safe for liveness */
    bool mem_read;
    bool mem_written;
};

void ct_x64_effects(const struct ct_x64_insn *insn, struct ct_x64_effects *effects);

/* The explicit memory operand, if there is one (modrm memory forms and moffs). Segment and address size are in
 * ct_x64_insn.prefixes; an 8-bit displacement of EVEX is not scaled. */
struct ct_x64_mem {
    uint8_t base;  /* enum ct_x64_reg, CT_X64_RIP, or CT_X64_NO_REG */
    uint8_t index; /* or CT_X64_NO_REG; vector index of gathers is CT_X64_NO_REG with vsib set */
    uint8_t scale; /* 1 2 4 8 */
    bool vsib;
    int64_t disp;
};
bool ct_x64_memory(const struct ct_x64_insn *insn, struct ct_x64_mem *mem);

#endif
