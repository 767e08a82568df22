/* SPDX-License-Identifier: Apache-2.0 */
/* For CModules: gum's writer of x86_64 instructions, as far as inserted code needs it. What is written is inserted
 * before the next instruction of the block; it must leave registers and flags that the program needs as they are.
 * Branches lead forward, to a label of the same block. */
#ifndef CT_SCRIPT_GUM_X86_WRITER_H
#define CT_SCRIPT_GUM_X86_WRITER_H

#include <gum/gum.h>

/* Their numbers: the low four bits are the machine's; bit 4: all 64 bits of it. */
typedef enum {
    GUM_X86_EAX,
    GUM_X86_ECX,
    GUM_X86_EDX,
    GUM_X86_EBX,
    GUM_X86_ESP,
    GUM_X86_EBP,
    GUM_X86_ESI,
    GUM_X86_EDI,
    GUM_X86_R8D,
    GUM_X86_R9D,
    GUM_X86_R10D,
    GUM_X86_R11D,
    GUM_X86_R12D,
    GUM_X86_R13D,
    GUM_X86_R14D,
    GUM_X86_R15D,
    GUM_X86_RAX,
    GUM_X86_RCX,
    GUM_X86_RDX,
    GUM_X86_RBX,
    GUM_X86_RSP,
    GUM_X86_RBP,
    GUM_X86_RSI,
    GUM_X86_RDI,
    GUM_X86_R8,
    GUM_X86_R9,
    GUM_X86_R10,
    GUM_X86_R11,
    GUM_X86_R12,
    GUM_X86_R13,
    GUM_X86_R14,
    GUM_X86_R15,
    GUM_X86_XAX = GUM_X86_RAX,
    GUM_X86_XCX,
    GUM_X86_XDX,
    GUM_X86_XBX,
    GUM_X86_XSP,
    GUM_X86_XBP,
    GUM_X86_XSI,
    GUM_X86_XDI
} GumX86Reg;
typedef GumX86Reg GumCpuReg;

/* The conditions of branches, by the machine's number. */
typedef enum {
    X86_INS_JO,
    X86_INS_JNO,
    X86_INS_JB,
    X86_INS_JAE,
    X86_INS_JE,
    X86_INS_JNE,
    X86_INS_JBE,
    X86_INS_JA,
    X86_INS_JS,
    X86_INS_JNS,
    X86_INS_JP,
    X86_INS_JNP,
    X86_INS_JL,
    X86_INS_JGE,
    X86_INS_JLE,
    X86_INS_JG
} x86_insn;
typedef enum { GUM_NO_HINT, GUM_LIKELY, GUM_UNLIKELY } GumBranchHint;

/* ---- what instructions are made of ---- */

static inline gboolean ct_x86_put(GumX86Writer *self, const guint8 *bytes, gsize size) {
    ct_gum_put_bytes(self, bytes, size);
    return TRUE;
}
/* opcode, for the registers `reg` and `rm` with their width. */
static inline gboolean ct_x86_registers(GumX86Writer *self, guint8 opcode, GumX86Reg reg, GumX86Reg rm) {
    const guint8 code[3] = {0x40 | (rm & 16) >> 1 | (reg & 8) >> 1 | (rm & 8) >> 3, opcode,
                            0xc0 | (reg & 7) << 3 | (rm & 7)};
    return ct_x86_put(self, code, sizeof code);
}
/* The same with memory at base + offset; `reg` has the width. */
static inline gboolean ct_x86_memory(GumX86Writer *self, guint8 opcode, GumX86Reg reg, GumX86Reg base, gssize offset) {
    guint8 code[8] = {0x40 | (reg & 16) >> 1 | (reg & 8) >> 1 | (base & 8) >> 3, opcode,
                      0x80 | (reg & 7) << 3 | (base & 7)};
    guint size = 3;
    if ((base & 7) == GUM_X86_ESP)
        code[size++] = 0x24;
    for (guint i = 0; i < 4; i++)
        code[size++] = (guint8)(offset >> 8 * i);
    return ct_x86_put(self, code, size);
}
/* One of the group 0x81 with 32 bits, which are extended. */
static inline gboolean ct_x86_immediate(GumX86Writer *self, guint which, GumX86Reg reg, gssize value) {
    guint8 code[7] = {0x40 | (reg & 16) >> 1 | (reg & 8) >> 3, 0x81, 0xc0 | which << 3 | (reg & 7)};
    for (guint i = 0; i < 4; i++)
        code[3 + i] = (guint8)(value >> 8 * i);
    return value == (gint32)value && ct_x86_put(self, code, sizeof code);
}

/* ---- gum's names ---- */

static inline void gum_x86_writer_put_bytes(GumX86Writer *self, const guint8 *data, guint n) {
    ct_gum_put_bytes(self, data, n);
}
static inline void gum_x86_writer_put_u8(GumX86Writer *self, guint8 value) {
    ct_gum_put_bytes(self, &value, 1);
}
static inline void gum_x86_writer_put_nop(GumX86Writer *self) {
    gum_x86_writer_put_u8(self, 0x90);
}
static inline void gum_x86_writer_put_nop_padding(GumX86Writer *self, guint n) {
    while (n--)
        gum_x86_writer_put_nop(self);
}
static inline void gum_x86_writer_put_breakpoint(GumX86Writer *self) {
    gum_x86_writer_put_u8(self, 0xcc);
}
static inline void gum_x86_writer_put_pushfx(GumX86Writer *self) {
    gum_x86_writer_put_u8(self, 0x9c);
}
static inline void gum_x86_writer_put_popfx(GumX86Writer *self) {
    gum_x86_writer_put_u8(self, 0x9d);
}
static inline gboolean gum_x86_writer_put_push_reg(GumX86Writer *self, GumX86Reg reg) {
    const guint8 code[2] = {0x40 | (reg & 8) >> 3, 0x50 | (reg & 7)};
    return ct_x86_put(self, code, sizeof code);
}
static inline gboolean gum_x86_writer_put_pop_reg(GumX86Writer *self, GumX86Reg reg) {
    const guint8 code[2] = {0x40 | (reg & 8) >> 3, 0x58 | (reg & 7)};
    return ct_x86_put(self, code, sizeof code);
}
static inline gboolean gum_x86_writer_put_mov_reg_u64(GumX86Writer *self, GumX86Reg reg, guint64 value) {
    guint8 code[10] = {0x48 | (reg & 8) >> 3, 0xb8 | (reg & 7)};
    for (guint i = 0; i < 8; i++)
        code[2 + i] = (guint8)(value >> 8 * i);
    return ct_x86_put(self, code, sizeof code);
}
static inline gboolean gum_x86_writer_put_mov_reg_address(GumX86Writer *self, GumX86Reg reg, GumAddress address) {
    return gum_x86_writer_put_mov_reg_u64(self, reg, address);
}
static inline gboolean gum_x86_writer_put_mov_reg_u32(GumX86Writer *self, GumX86Reg reg, guint32 value) {
    return gum_x86_writer_put_mov_reg_u64(self, reg, value);
}
static inline gboolean gum_x86_writer_put_mov_reg_reg(GumX86Writer *self, GumX86Reg to, GumX86Reg from) {
    return ct_x86_registers(self, 0x89, from, to);
}
static inline gboolean gum_x86_writer_put_mov_reg_reg_offset_ptr(GumX86Writer *self, GumX86Reg to, GumX86Reg base,
                                                                 gssize offset) {
    return ct_x86_memory(self, 0x8b, to, base, offset);
}
static inline gboolean gum_x86_writer_put_mov_reg_reg_ptr(GumX86Writer *self, GumX86Reg to, GumX86Reg base) {
    return ct_x86_memory(self, 0x8b, to, base, 0);
}
static inline gboolean gum_x86_writer_put_mov_reg_offset_ptr_reg(GumX86Writer *self, GumX86Reg base, gssize offset,
                                                                 GumX86Reg from) {
    return ct_x86_memory(self, 0x89, from, base, offset);
}
static inline gboolean gum_x86_writer_put_mov_reg_ptr_reg(GumX86Writer *self, GumX86Reg base, GumX86Reg from) {
    return ct_x86_memory(self, 0x89, from, base, 0);
}
static inline gboolean gum_x86_writer_put_lea_reg_reg_offset(GumX86Writer *self, GumX86Reg to, GumX86Reg base,
                                                             gssize offset) {
    return ct_x86_memory(self, 0x8d, to, base, offset);
}
static inline gboolean gum_x86_writer_put_add_reg_reg(GumX86Writer *self, GumX86Reg to, GumX86Reg from) {
    return ct_x86_registers(self, 0x01, from, to);
}
static inline gboolean gum_x86_writer_put_sub_reg_reg(GumX86Writer *self, GumX86Reg to, GumX86Reg from) {
    return ct_x86_registers(self, 0x29, from, to);
}
static inline gboolean gum_x86_writer_put_and_reg_reg(GumX86Writer *self, GumX86Reg to, GumX86Reg from) {
    return ct_x86_registers(self, 0x21, from, to);
}
static inline gboolean gum_x86_writer_put_xor_reg_reg(GumX86Writer *self, GumX86Reg to, GumX86Reg from) {
    return ct_x86_registers(self, 0x31, from, to);
}
static inline gboolean gum_x86_writer_put_cmp_reg_reg(GumX86Writer *self, GumX86Reg one, GumX86Reg other) {
    return ct_x86_registers(self, 0x39, other, one);
}
static inline gboolean gum_x86_writer_put_test_reg_reg(GumX86Writer *self, GumX86Reg one, GumX86Reg other) {
    return ct_x86_registers(self, 0x85, other, one);
}
static inline gboolean gum_x86_writer_put_add_reg_imm(GumX86Writer *self, GumX86Reg reg, gssize value) {
    return ct_x86_immediate(self, 0, reg, value);
}
static inline gboolean gum_x86_writer_put_sub_reg_imm(GumX86Writer *self, GumX86Reg reg, gssize value) {
    return ct_x86_immediate(self, 5, reg, value);
}
static inline gboolean gum_x86_writer_put_and_reg_u32(GumX86Writer *self, GumX86Reg reg, guint32 value) {
    return ct_x86_immediate(self, 4, reg, (gint32)value);
}
static inline gboolean gum_x86_writer_put_cmp_reg_i32(GumX86Writer *self, GumX86Reg reg, gint32 value) {
    return ct_x86_immediate(self, 7, reg, value);
}
static inline gboolean gum_x86_writer_put_inc_reg(GumX86Writer *self, GumX86Reg reg) {
    return ct_x86_registers(self, 0xff, GUM_X86_EAX, reg);
}
static inline gboolean gum_x86_writer_put_dec_reg(GumX86Writer *self, GumX86Reg reg) {
    return ct_x86_registers(self, 0xff, GUM_X86_ECX, reg);
}
static inline gboolean gum_x86_writer_put_label(GumX86Writer *self, gconstpointer id) {
    ct_gum_put_label(self, GPOINTER_TO_SIZE(id));
    return TRUE;
}
static inline void gum_x86_writer_put_jmp_short_label(GumX86Writer *self, gconstpointer id) {
    ct_gum_put_jump(self, GPOINTER_TO_SIZE(id), CT_GUM_ALWAYS);
}
static inline void gum_x86_writer_put_jmp_near_label(GumX86Writer *self, gconstpointer id) {
    ct_gum_put_jump(self, GPOINTER_TO_SIZE(id), CT_GUM_ALWAYS);
}
static inline void gum_x86_writer_put_jcc_short_label(GumX86Writer *self, x86_insn condition, gconstpointer id,
                                                      GumBranchHint hint) {
    (void)hint;
    ct_gum_put_jump(self, GPOINTER_TO_SIZE(id), condition);
}
static inline void gum_x86_writer_put_jcc_near_label(GumX86Writer *self, x86_insn condition, gconstpointer id,
                                                     GumBranchHint hint) {
    gum_x86_writer_put_jcc_short_label(self, condition, id, hint);
}

#endif
