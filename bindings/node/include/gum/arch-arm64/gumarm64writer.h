/* SPDX-License-Identifier: Apache-2.0 */
/* For CModules: gum's writer of arm64 instructions, as far as inserted code needs it. What is written is inserted
 * before the next instruction of the block; it must leave registers and flags that the program needs as they are, and
 * not use x18, which is the Stalker's there. Branches lead forward, to a label of the same block. */
#ifndef CT_SCRIPT_GUM_ARM64_WRITER_H
#define CT_SCRIPT_GUM_ARM64_WRITER_H

#include <gum/gum.h>

/* Their numbers: the low five bits are the machine's; bit 5: all 64 bits of it; bit 6: 31 is the stack pointer. */
/* clang-format off */
#define CT_ARM64_REGISTERS(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) \
    X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30)
/* clang-format on */
typedef enum {
#define CT_ARM64_W(n) ARM64_REG_W##n = n,
#define CT_ARM64_X(n) ARM64_REG_X##n = 32 + n,
    CT_ARM64_REGISTERS(CT_ARM64_W) ARM64_REG_WZR = 31,
    CT_ARM64_REGISTERS(CT_ARM64_X) ARM64_REG_XZR = 63,
    ARM64_REG_WSP = 64 + 31,
    ARM64_REG_SP = 64 + 63,
    ARM64_REG_IP0 = ARM64_REG_X16,
    ARM64_REG_IP1 = ARM64_REG_X17,
    ARM64_REG_FP = ARM64_REG_X29,
    ARM64_REG_LR = ARM64_REG_X30
#undef CT_ARM64_W
#undef CT_ARM64_X
} arm64_reg;
typedef arm64_reg GumCpuReg;

/* The conditions of branches, by the machine's number. */
typedef enum {
    ARM64_CC_EQ,
    ARM64_CC_NE,
    ARM64_CC_HS,
    ARM64_CC_LO,
    ARM64_CC_MI,
    ARM64_CC_PL,
    ARM64_CC_VS,
    ARM64_CC_VC,
    ARM64_CC_HI,
    ARM64_CC_LS,
    ARM64_CC_GE,
    ARM64_CC_LT,
    ARM64_CC_GT,
    ARM64_CC_LE,
    ARM64_CC_AL,
    ARM64_CC_NV
} arm64_cc;
typedef enum { GUM_INDEX_POST_ADJUST = 1, GUM_INDEX_SIGNED_OFFSET, GUM_INDEX_PRE_ADJUST } GumArm64IndexMode;

/* ---- what instructions are made of ---- */

static inline guint32 ct_arm64_wide(arm64_reg reg) {
    return (reg & 32) << 26;
}
static inline gboolean ct_arm64_put(GumArm64Writer *self, guint32 word) {
    ct_gum_put_bytes(self, &word, sizeof word);
    return TRUE;
}
static inline gboolean ct_arm64_three(GumArm64Writer *self, guint32 opcode, arm64_reg to, arm64_reg left,
                                      arm64_reg right) {
    return ct_arm64_put(self, ct_arm64_wide(to) | opcode | (right & 31) << 16 | (left & 31) << 5 | (to & 31));
}
/* 12 bits, or 12 bits and 12 zeroes. */
static inline gboolean ct_arm64_immediate(GumArm64Writer *self, guint32 opcode, arm64_reg to, arm64_reg left,
                                          gsize value) {
    guint32 shifted = value > 4095;
    if (value > 0xffffff || (shifted && value & 4095))
        return FALSE;
    return ct_arm64_put(self, ct_arm64_wide(left) | opcode | shifted << 22 |
                                  (guint32)(shifted ? value >> 12 : value) << 10 | (left & 31) << 5 | (to & 31));
}
/* The opposite branch over the next instruction, which is the branch to the label. */
static inline void ct_arm64_skip(GumArm64Writer *self, guint32 word, gconstpointer id) {
    ct_arm64_put(self, word | 2 << 5);
    ct_gum_put_jump(self, GPOINTER_TO_SIZE(id), CT_GUM_ALWAYS);
}

/* ---- gum's names ---- */

static inline gboolean gum_arm64_writer_put_bytes(GumArm64Writer *self, const guint8 *data, guint n) {
    ct_gum_put_bytes(self, data, n);
    return TRUE;
}
static inline void gum_arm64_writer_put_instruction(GumArm64Writer *self, guint32 insn) {
    ct_arm64_put(self, insn);
}
static inline void gum_arm64_writer_put_nop(GumArm64Writer *self) {
    ct_arm64_put(self, 0xd503201f);
}
static inline void gum_arm64_writer_put_brk_imm(GumArm64Writer *self, guint16 imm) {
    ct_arm64_put(self, 0xd4200000 | (guint32)imm << 5);
}
static inline gboolean gum_arm64_writer_put_label(GumArm64Writer *self, gconstpointer id) {
    ct_gum_put_label(self, GPOINTER_TO_SIZE(id));
    return TRUE;
}
static inline void gum_arm64_writer_put_b_label(GumArm64Writer *self, gconstpointer id) {
    ct_gum_put_jump(self, GPOINTER_TO_SIZE(id), CT_GUM_ALWAYS);
}
static inline void gum_arm64_writer_put_b_cond_label(GumArm64Writer *self, arm64_cc cc, gconstpointer id) {
    ct_gum_put_jump(self, GPOINTER_TO_SIZE(id), cc);
}
static inline void gum_arm64_writer_put_cbz_reg_label(GumArm64Writer *self, arm64_reg reg, gconstpointer id) {
    ct_arm64_skip(self, ct_arm64_wide(reg) | 0x35000000 | (reg & 31), id);
}
static inline void gum_arm64_writer_put_cbnz_reg_label(GumArm64Writer *self, arm64_reg reg, gconstpointer id) {
    ct_arm64_skip(self, ct_arm64_wide(reg) | 0x34000000 | (reg & 31), id);
}
static inline void gum_arm64_writer_put_tbz_reg_imm_label(GumArm64Writer *self, arm64_reg reg, guint bit,
                                                          gconstpointer id) {
    ct_arm64_skip(self, (bit & 32) << 26 | 0x37000000 | (bit & 31) << 19 | (reg & 31), id);
}
static inline void gum_arm64_writer_put_tbnz_reg_imm_label(GumArm64Writer *self, arm64_reg reg, guint bit,
                                                           gconstpointer id) {
    ct_arm64_skip(self, (bit & 32) << 26 | 0x36000000 | (bit & 31) << 19 | (reg & 31), id);
}
static inline gboolean gum_arm64_writer_put_ldr_reg_u64(GumArm64Writer *self, arm64_reg reg, guint64 value) {
    ct_arm64_put(self, ct_arm64_wide(reg) | 0x52800000 | (guint32)(value & 0xffff) << 5 | (reg & 31));
    for (guint i = 1; i < (reg & 32 ? 4 : 2); i++)
        if (value >> 16 * i & 0xffff)
            ct_arm64_put(self, ct_arm64_wide(reg) | 0x72800000 | i << 21 | (guint32)(value >> 16 * i & 0xffff) << 5 |
                                   (reg & 31));
    return TRUE;
}
static inline gboolean gum_arm64_writer_put_ldr_reg_address(GumArm64Writer *self, arm64_reg reg, GumAddress address) {
    return gum_arm64_writer_put_ldr_reg_u64(self, reg, address);
}
static inline gboolean gum_arm64_writer_put_ldr_reg_reg_offset(GumArm64Writer *self, arm64_reg to, arm64_reg base,
                                                               gsize offset) {
    guint size = to & 32 ? 8 : 4;
    return offset % size == 0 && offset / size < 4096 &&
           ct_arm64_put(self,
                        0xb9400000 | (to & 32) << 25 | (guint32)(offset / size) << 10 | (base & 31) << 5 | (to & 31));
}
static inline gboolean gum_arm64_writer_put_ldr_reg_reg(GumArm64Writer *self, arm64_reg to, arm64_reg base) {
    return gum_arm64_writer_put_ldr_reg_reg_offset(self, to, base, 0);
}
static inline gboolean gum_arm64_writer_put_str_reg_reg_offset(GumArm64Writer *self, arm64_reg from, arm64_reg base,
                                                               gsize offset) {
    guint size = from & 32 ? 8 : 4;
    return offset % size == 0 && offset / size < 4096 &&
           ct_arm64_put(self, 0xb9000000 | (from & 32) << 25 | (guint32)(offset / size) << 10 | (base & 31) << 5 |
                                  (from & 31));
}
static inline gboolean gum_arm64_writer_put_str_reg_reg(GumArm64Writer *self, arm64_reg from, arm64_reg base) {
    return gum_arm64_writer_put_str_reg_reg_offset(self, from, base, 0);
}
static inline gboolean ct_arm64_pair(GumArm64Writer *self, guint32 load, arm64_reg first, arm64_reg second,
                                     arm64_reg base, gssize offset, GumArm64IndexMode mode) {
    gssize size = first & 32 ? 8 : 4;
    return offset % size == 0 && offset / size >= -64 && offset / size < 64 &&
           ct_arm64_put(self, 0x28000000 | ct_arm64_wide(first) | (guint32)mode << 23 | load |
                                  ((guint32)(offset / size) & 127) << 15 | (second & 31) << 10 | (base & 31) << 5 |
                                  (first & 31));
}
static inline gboolean gum_arm64_writer_put_ldp_reg_reg_reg_offset(GumArm64Writer *self, arm64_reg first,
                                                                   arm64_reg second, arm64_reg base, gssize offset,
                                                                   GumArm64IndexMode mode) {
    return ct_arm64_pair(self, 1 << 22, first, second, base, offset, mode);
}
static inline gboolean gum_arm64_writer_put_stp_reg_reg_reg_offset(GumArm64Writer *self, arm64_reg first,
                                                                   arm64_reg second, arm64_reg base, gssize offset,
                                                                   GumArm64IndexMode mode) {
    return ct_arm64_pair(self, 0, first, second, base, offset, mode);
}
static inline gboolean gum_arm64_writer_put_push_reg_reg(GumArm64Writer *self, arm64_reg first, arm64_reg second) {
    return ct_arm64_pair(self, 0, first, second, ARM64_REG_SP, -16, GUM_INDEX_PRE_ADJUST);
}
static inline gboolean gum_arm64_writer_put_pop_reg_reg(GumArm64Writer *self, arm64_reg first, arm64_reg second) {
    return ct_arm64_pair(self, 1 << 22, first, second, ARM64_REG_SP, 16, GUM_INDEX_POST_ADJUST);
}
static inline gboolean gum_arm64_writer_put_mov_reg_reg(GumArm64Writer *self, arm64_reg to, arm64_reg from) {
    if ((to | from) & 64)
        return ct_arm64_put(self, ct_arm64_wide(to) | 0x11000000 | (from & 31) << 5 | (to & 31));
    return ct_arm64_three(self, 0x2a000000, to, ARM64_REG_XZR, from);
}
static inline void gum_arm64_writer_put_mov_reg_nzcv(GumArm64Writer *self, arm64_reg reg) {
    ct_arm64_put(self, 0xd53b4200 | (reg & 31));
}
static inline void gum_arm64_writer_put_mov_nzcv_reg(GumArm64Writer *self, arm64_reg reg) {
    ct_arm64_put(self, 0xd51b4200 | (reg & 31));
}
static inline gboolean gum_arm64_writer_put_add_reg_reg_imm(GumArm64Writer *self, arm64_reg to, arm64_reg left,
                                                            gsize value) {
    return ct_arm64_immediate(self, 0x11000000, to, left, value);
}
static inline gboolean gum_arm64_writer_put_sub_reg_reg_imm(GumArm64Writer *self, arm64_reg to, arm64_reg left,
                                                            gsize value) {
    return ct_arm64_immediate(self, 0x51000000, to, left, value);
}
static inline gboolean gum_arm64_writer_put_cmp_reg_imm(GumArm64Writer *self, arm64_reg left, gsize value) {
    return ct_arm64_immediate(self, 0x71000000, ARM64_REG_XZR, left, value);
}
static inline gboolean gum_arm64_writer_put_add_reg_reg_reg(GumArm64Writer *self, arm64_reg to, arm64_reg left,
                                                            arm64_reg right) {
    return ct_arm64_three(self, 0x0b000000, to, left, right);
}
static inline gboolean gum_arm64_writer_put_sub_reg_reg_reg(GumArm64Writer *self, arm64_reg to, arm64_reg left,
                                                            arm64_reg right) {
    return ct_arm64_three(self, 0x4b000000, to, left, right);
}
static inline gboolean gum_arm64_writer_put_eor_reg_reg_reg(GumArm64Writer *self, arm64_reg to, arm64_reg left,
                                                            arm64_reg right) {
    return ct_arm64_three(self, 0x4a000000, to, left, right);
}
static inline gboolean gum_arm64_writer_put_cmp_reg_reg(GumArm64Writer *self, arm64_reg left, arm64_reg right) {
    return ct_arm64_three(self, 0x6b000000, left & 32 ? ARM64_REG_XZR : ARM64_REG_WZR, left, right);
}

#endif
