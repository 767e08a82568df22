/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the tables that decode_gen.py makes of decode_table.txt; private to the decoder. */
#ifndef CT_ISA_X64_DECODE_TABLES_H
#define CT_ISA_X64_DECODE_TABLES_H

#include "isa/x64/decode.h"

/* Rows of ct_x64_opcodes. Legacy maps come first so that a legacy map number is its row. */
enum { ROW_LEGACY = 0, ROW_3DNOW = 4, ROW_VEX_1 = 5, ROW_EVEX_1 = 8, ROW_EVEX_5 = 11, ROW_XOP_8 = 13, ROWS = 16 };

/* Low half of an opcode's word: how its length is found. The high half is its cell. */
enum {
    ATTR_IMM = 0x0f, /* enum imm */
    ATTR_MODRM = 0x10,
    ATTR_PREFIX = 0x20,
    ATTR_ESCAPE = 0x40,
    ATTR_MODREG = 0x80, /* modrm.mod is ignored: always a register */
};

/* clang-format off */
enum imm {
    I_NONE, I_B, I_W, I_Z, I_V, I_D, I_REL, I_MOFFS, I_ENTER, I_G3B, I_G3Z, I_EXTRQ, I_3DNOW,
    I_ODD = I_MOFFS, /* from here on more than the operand size counts */
};
/* clang-format on */

/* A cell is 0 (invalid), a form, or a node: CELL_NODE | index of its header, which is shift | mask << 8 and selects the
 * child that follows by a field of the key. */
#define CELL_NODE 0x8000u

/* Layout of the key: modrm in the low byte, then these shifts. */
enum { KEY_PP = 8, KEY_W = 10, KEY_L = 11, KEY_BC = 13, KEY_MEM = 14, KEY_B = 15 };

enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_GENERAL = 4, ACCESS_BYTE = 8 };

/* Bits of ct_x64_form.checks. */
enum {
    CHECK_LOCK = 0x001,    /* lock is allowed */
    CHECK_NO_VVVV = 0x002, /* vvvv must be unused */
    CHECK_K_REG = 0x004,   /* modrm.reg, vvvv: mask register */
    CHECK_K_VVVV = 0x008,
    CHECK_GPR_REG = 0x010, /* EVEX: modrm.reg is a general register */
    CHECK_MASK = 0x020,    /* EVEX: may be masked, must be, may be zeroed */
    CHECK_MUST_MASK = 0x040,
    CHECK_ZERO = 0x080,
    CHECK_SPECIAL = 12, /* shift of enum special */
};

/* clang-format off */
enum special {
    S_NONE, S_SREG, S_SREGW, S_CR, S_DR, S_BND, S_BNDE, S_TILE, S_SIBMEM, S_TILE3, S_VSIB, S_GATHER, S_BNDMIB,
    S_DISTINCT
};
/* clang-format on */

struct ct_x64_form {
    uint8_t kind;
    uint8_t rm;       /* ACCESS bits; GENERAL: its register form is a general register */
    uint8_t reg;      /* ACCESS bits, 0 when modrm.reg is no general register */
    uint8_t extra;    /* ACCESS bits of vvvv, << 4 those of the register in the opcode */
    uint8_t implicit; /* index of ct_x64_implicits */
    uint8_t flags;    /* index of ct_x64_flag_sets */
    uint16_t checks;
};

struct ct_x64_implicit {
    uint16_t read, written; /* general registers */
    uint8_t mem;            /* ACCESS bits */
    uint8_t rep;            /* counts in rcx when repeated */
};

enum { KILL_ALWAYS, KILL_SHIFT, KILL_NOREP };
struct ct_x64_flag_set {
    uint16_t read, written, killed;
    uint8_t rule; /* when `killed` holds */
};

extern const uint32_t ct_x64_opcodes[ROWS][256];
extern const uint16_t ct_x64_cells[];
extern const struct ct_x64_form ct_x64_forms[];
extern const struct ct_x64_implicit ct_x64_implicits[];
extern const struct ct_x64_flag_set ct_x64_flag_sets[];

#endif
