/* SPDX-License-Identifier: Apache-2.0 */
/* See scan_reals_x64.h. No state. */
#include "hook/scan_reals_x64.h"

static bool is_vex(const struct ct_x64_insn *insn) {
    return insn->encoding == CT_X64_VEX || insn->encoding == CT_X64_EVEX;
}

/* f3 or f2: one number of 4 or 8 bytes. */
static bool is_scalar(const struct ct_x64_insn *insn) {
    return is_vex(insn) ? (insn->vector & 3) >= 2 : (insn->prefixes & (CT_X64_REP | CT_X64_REPNE)) != 0;
}

/* xorps %xmm0, %xmm0 is how compilers clear any memory. */
static bool has_one_source(const struct ct_x64_insn *insn) {
    unsigned reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1, rm = (insn->modrm & 7) | (insn->rex & 1) << 3;
    return insn->modrm >> 6 == 3 && (is_vex(insn) ? insn->vvvv : reg) == rm;
}

static bool is_real_0f(const struct ct_x64_insn *insn) {
    uint8_t op = insn->opcode;
    switch (op) {
    case 0x10: /* movss, movsd */
    case 0x11:
    case 0x2a: /* cvtsi2sd and the like */
    case 0x2c:
    case 0x2d:
        return is_scalar(insn);
    case 0x14: /* unpcklps */
    case 0x28: /* movaps */
        return insn->modrm >> 6 == 3;
    case 0x2e: /* ucomisd */
    case 0x2f:
    case 0xc2: /* cmpsd */
    case 0xe6: /* cvtdq2pd */
        return true;
    case 0x54: /* andps, andnps, orps, xorps: signs */
    case 0x55:
    case 0x56:
    case 0x57:
        return !has_one_source(insn);
    default: /* movmskpd, square roots; arithmetic, conversions */
        return (op >= 0x50 && op <= 0x53) || (op >= 0x58 && op <= 0x5f);
    }
}

bool ct_scan_is_real(const struct ct_x64_insn *insn) {
    if (insn->encoding != CT_X64_LEGACY && !is_vex(insn))
        return false;
    if (insn->map == 1)
        return is_real_0f(insn);
    if (insn->map == 2) /* fused multiplication and addition */
        return is_vex(insn) && insn->opcode >= 0x96 && insn->opcode <= 0xbf && (insn->opcode & 0xf) >= 6;
    return insn->map == 3 && insn->opcode >= 0x08 && insn->opcode <= 0x0b; /* rounding */
}

/* xorps, xorpd, pxor %xmm0, %xmm0 */
bool ct_scan_clears_result(const struct ct_x64_insn *insn) {
    bool xors = insn->map == 1 && (insn->opcode == 0x57 || insn->opcode == 0xef);
    if (!xors || insn->modrm != 0xc0 || (insn->encoding != CT_X64_LEGACY && !is_vex(insn)))
        return false;
    bool mmx = insn->opcode == 0xef && insn->encoding == CT_X64_LEGACY && !(insn->prefixes & CT_X64_OPSIZE);
    return !mmx && !(insn->rex & 5) && (!is_vex(insn) || insn->vvvv == 0);
}
