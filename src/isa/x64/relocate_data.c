/* SPDX-License-Identifier: Apache-2.0 */
/* The relocator's second half: instructions with a RIP-relative operand, and those that are simply copied.
 *
 * In reach, only the displacement changes. Out of reach the operand is addressed by a register that the instruction
 * does not use, or that it overwrites without reading. The register is saved below the red zone (see the rules in
 * relocate.c). It is one of the low registers that [r] can name with neither SIB byte, displacement nor REX prefix:
 * a REX prefix would turn ah into spl, and EVEX displacements are scaled. */
#include "contrail/status.h"
#include "isa/x64/relocate_internal.h"

#define RED_ZONE 128

static const uint8_t scratch_order[] = {CT_X64_RAX, CT_X64_RCX, CT_X64_RDX, CT_X64_RBX, CT_X64_RSI, CT_X64_RDI};

/* A register of the list that is not in `used`; adds it there. */
static uint8_t take_scratch(uint16_t *used) {
    for (unsigned i = 0; i < sizeof scratch_order; i++) {
        uint8_t reg = scratch_order[i];
        if (*used & 1u << reg)
            continue;
        *used |= (uint16_t)(1u << reg);
        return reg;
    }
    return CT_X64_NO_REG;
}

void ct_x64_copy_segment(const struct ct_x64_move *m) {
    if (m->insn->prefixes & CT_X64_SEG_FS)
        ct_code_byte(m->out, 0x64);
    if (m->insn->prefixes & CT_X64_SEG_GS)
        ct_code_byte(m->out, 0x65);
}

bool ct_x64_in_reach(const struct ct_x64_move *m, size_t ahead) {
    if (m->insn->prefixes & CT_X64_ADDRSIZE)
        return true;
    uint64_t here = ct_code_here(m->out), target = ct_x64_rip_address(m->insn, m->from);
    return ct_x64_reaches(here, target) && ct_x64_reaches(here + ahead + m->insn->length, target);
}

static void copy_near(const struct ct_x64_move *m) {
    size_t at = m->out->length;
    uint64_t next = ct_code_here(m->out) + m->insn->length;
    ct_code_copy(m->out, m->bytes, m->insn->length);
    ct_x64_patch_u32(m->out, at + m->insn->disp_offset, (uint32_t)(ct_x64_rip_address(m->insn, m->from) - next));
}

/* Registers to put into an instruction: `base` for the operand, `rsp` (or NO_REG) wherever it names rsp. */
struct substitute {
    uint8_t base;
    uint8_t rsp;
};

/* The byte that holds B (inverted in vector encodings): clears it, so that the base is a low register. */
static void clear_base_extension(const struct ct_x64_insn *insn, uint8_t *bytes, unsigned escape) {
    if (insn->encoding == CT_X64_LEGACY || insn->encoding == CT_X64_3DNOW) {
        if (insn->has_rex)
            bytes[escape - 1] &= 0xfe;
    } else if (bytes[escape] != 0xc5) {
        bytes[escape + 1] |= 0x20;
    }
}

/* Replaces rsp by `reg` in the fields of an instruction that has rsp among its operands. */
static void replace_rsp(const struct ct_x64_insn *insn, uint8_t *bytes, unsigned escape, uint8_t reg) {
    bool reg_is_operand = insn->encoding == CT_X64_LEGACY || insn->opcode != 0xf3; /* f3: blsr, blsmsk, blsi */
    if (reg_is_operand && (insn->modrm >> 3 & 7) == CT_X64_RSP && !(insn->rex & 4))
        bytes[insn->modrm_offset] = (uint8_t)((bytes[insn->modrm_offset] & 0xc7) | reg << 3);
    if (insn->encoding == CT_X64_VEX && insn->vvvv == CT_X64_RSP) {
        uint8_t *payload = &bytes[escape + (bytes[escape] == 0xc5 ? 1 : 2)];
        *payload = (uint8_t)((*payload & 0x87) | (~reg & 15) << 3);
    }
}

/* Offset of the first byte after prefixes and REX: an opcode, its 0f escape, or that of a vector encoding. */
static unsigned escape_offset(const struct ct_x64_insn *insn, const uint8_t *bytes) {
    static const uint8_t legacy[] = {1, 2, 3, 3}; /* bytes from there to modrm, by map */
    switch (insn->encoding) {
    case CT_X64_LEGACY:
        return insn->modrm_offset - legacy[insn->map & 3];
    case CT_X64_3DNOW:
        return insn->modrm_offset - 2u;
    case CT_X64_EVEX:
        return insn->modrm_offset - 5u;
    default: { /* VEX comes in two lengths: look from the front, no prefix looks like an escape */
        unsigned i = 0;
        while (bytes[i] != 0xc4 && bytes[i] != 0xc5 && bytes[i] != 0x8f)
            i++;
        return i;
    }
    }
}

/* The instruction with [base] in place of its RIP-relative operand: 4 bytes shorter. */
static void emit_substituted(const struct ct_x64_move *m, struct substitute s) {
    const struct ct_x64_insn *insn = m->insn;
    uint8_t bytes[CT_X64_MAX_LENGTH];
    unsigned n = 0;
    for (unsigned i = 0; i < insn->length; i++)
        if (i < insn->disp_offset || i >= insn->disp_offset + 4u)
            bytes[n++] = m->bytes[i];
    unsigned escape = escape_offset(insn, m->bytes);
    clear_base_extension(insn, bytes, escape);
    bytes[insn->modrm_offset] = (uint8_t)((insn->modrm & 0x38) | s.base);
    if (s.rsp != CT_X64_NO_REG)
        replace_rsp(insn, bytes, escape, s.rsp);
    ct_code_copy(m->out, bytes, n);
}

/* lea of a constant is a mov of it. */
static void move_lea_far(const struct ct_x64_move *m) {
    const struct ct_x64_insn *insn = m->insn;
    uint64_t value = ct_x64_rip_address(insn, m->from);
    uint8_t reg = (uint8_t)((insn->modrm >> 3 & 7) | (insn->rex & 4) << 1);
    if (ct_x64_narrow(insn)) {
        ct_code_byte(m->out, 0x66);
        if (reg >= 8)
            ct_code_byte(m->out, 0x41);
        CT_X64_BYTES(m->out, (uint8_t)(0xb8 | (reg & 7)), (uint8_t)value, (uint8_t)(value >> 8));
    } else {
        ct_x64_emit_mov_imm(m->out, reg, insn->rex & 8 ? value : (uint32_t)value);
    }
}

/* Loads that overwrite all of a general register and read none: mov, movzx, movsx, movsxd. */
static bool is_whole_load(const struct ct_x64_insn *insn) {
    if (insn->encoding != CT_X64_LEGACY || ct_x64_narrow(insn) || insn->prefixes & CT_X64_LOCK)
        return false;
    if (insn->map == 0)
        return insn->opcode == 0x8b || insn->opcode == 0x63;
    return insn->map == 1 && (insn->opcode & 0xf6) == 0xb6 && !(insn->prefixes & (CT_X64_REP | CT_X64_REPNE));
}

/* mov r, imm64 / mov r, [r]: the register to be loaded serves as its own address. */
static void move_load_far(const struct ct_x64_move *m, uint8_t reg) {
    const struct ct_x64_insn *insn = m->insn;
    uint8_t high = reg >> 3, low = reg & 7;
    ct_x64_emit_mov_imm(m->out, reg, ct_x64_rip_address(insn, m->from));
    ct_x64_copy_segment(m);
    uint8_t rex = (uint8_t)(0x40 | (insn->rex & 8) | high << 2 | high);
    if (rex != 0x40)
        ct_code_byte(m->out, rex);
    if (insn->map == 1)
        ct_code_byte(m->out, 0x0f);
    bool needs_disp = low == CT_X64_RBP; /* mod 0 would mean RIP-relative */
    CT_X64_BYTES(m->out, insn->opcode, (uint8_t)((needs_disp ? 0x40 : 0) | low << 3 | low));
    if (low == CT_X64_RSP)
        ct_code_byte(m->out, 0x24); /* SIB: r12 alone */
    if (needs_disp)
        ct_code_byte(m->out, 0);
}

/* The general case: a saved register holds the address. */
static int move_spilled(const struct ct_x64_move *m, uint16_t used) {
    uint8_t reg = take_scratch(&used);
    if (reg == CT_X64_NO_REG)
        return CT_ERR_UNSUPPORTED;
    ct_x64_emit_add_rsp(m->out, -RED_ZONE);
    ct_x64_emit_push(m->out, reg);
    ct_x64_emit_mov_imm(m->out, reg, ct_x64_rip_address(m->insn, m->from));
    emit_substituted(m, (struct substitute){reg, CT_X64_NO_REG});
    ct_x64_emit_pop(m->out, reg);
    ct_x64_emit_add_rsp(m->out, RED_ZONE);
    return 0;
}

/* rsp is an operand: a second register replaces it, and pop rsp sets the value that the instruction left in it. */
static int move_rsp_operand(const struct ct_x64_move *m, uint16_t used) {
    struct ct_code_buf *out = m->out;
    uint8_t base = take_scratch(&used), stand_in = take_scratch(&used);
    if (stand_in == CT_X64_NO_REG || m->insn->encoding == CT_X64_XOP)
        return CT_ERR_UNSUPPORTED;
    ct_x64_emit_add_rsp(out, -RED_ZONE);
    ct_x64_emit_push(out, base);
    ct_x64_emit_push(out, stand_in);
    ct_x64_emit_mov_imm(out, base, ct_x64_rip_address(m->insn, m->from));
    CT_X64_BYTES(out, 0x48, 0x8d, (uint8_t)(0x84 | stand_in << 3), 0x24); /* lea stand_in, [rsp+144] */
    ct_code_u32(out, RED_ZONE + 16);
    emit_substituted(m, (struct substitute){base, stand_in});
    CT_X64_BYTES(out, 0x48, 0x87, (uint8_t)(0x04 | stand_in << 3), 0x24);   /* xchg [rsp], stand_in */
    CT_X64_BYTES(out, 0x48, 0x8b, (uint8_t)(0x44 | base << 3), 0x24, 0x08); /* mov base, [rsp+8] */
    ct_x64_emit_pop(out, CT_X64_RSP);
    return 0;
}

/* mov rax, [x], through rax itself, of the size that push and pop use. */
static void emit_load_rax(const struct ct_x64_move *m, bool narrow) {
    ct_x64_emit_mov_imm(m->out, CT_X64_RAX, ct_x64_rip_address(m->insn, m->from));
    ct_x64_copy_segment(m);
    CT_X64_BYTES(m->out, narrow ? 0x66 : 0x48, 0x8b, 0x00);
}

/* push [x]: rax carries the value to the place where push would have put it. */
static void move_push_far(const struct ct_x64_move *m) {
    struct ct_code_buf *out = m->out;
    bool narrow = ct_x64_narrow(m->insn);
    uint8_t size = narrow ? 2 : 8;
    ct_x64_emit_add_rsp(out, -RED_ZONE);
    ct_x64_emit_push(out, CT_X64_RAX);
    emit_load_rax(m, narrow);
    CT_X64_BYTES(out, narrow ? 0x66 : 0x48, 0x89, 0x84, 0x24); /* mov [rsp+disp32], rax */
    ct_code_u32(out, RED_ZONE + 8u - size);
    ct_x64_emit_pop(out, CT_X64_RAX);
    ct_x64_emit_add_rsp(out, RED_ZONE - size);
}

/* pop [x]: pushes the word again below the red zone and pops it from there. */
static void move_pop_far(const struct ct_x64_move *m) {
    struct ct_code_buf *out = m->out;
    bool narrow = ct_x64_narrow(m->insn);
    ct_x64_emit_add_rsp(out, -RED_ZONE);
    ct_x64_emit_push(out, CT_X64_RAX);
    ct_x64_emit_mov_imm(out, CT_X64_RAX, ct_x64_rip_address(m->insn, m->from));
    if (narrow)
        ct_code_byte(out, 0x66);
    CT_X64_BYTES(out, 0xff, 0xb4, 0x24); /* push [rsp+136] */
    ct_code_u32(out, RED_ZONE + 8);
    if (narrow)
        ct_code_byte(out, 0x66);
    ct_x64_copy_segment(m);
    CT_X64_BYTES(out, 0x8f, 0x00); /* pop [rax] */
    ct_x64_emit_pop(out, CT_X64_RAX);
    ct_x64_emit_add_rsp(out, RED_ZONE + (narrow ? 2 : 8));
}

/* jmp [x]: stores the target below the red zone; ret takes it from there and moves rsp back up. */
static void move_jmp_far(const struct ct_x64_move *m) {
    struct ct_code_buf *out = m->out;
    ct_x64_emit_add_rsp(out, -RED_ZONE - 8);
    ct_x64_emit_push(out, CT_X64_RAX);
    emit_load_rax(m, false);
    CT_X64_BYTES(out, 0x48, 0x89, 0x44, 0x24, 0x08); /* mov [rsp+8], rax */
    ct_x64_emit_pop(out, CT_X64_RAX);
    CT_X64_BYTES(out, 0xc2, RED_ZONE, 0); /* ret 128 */
}

static bool is_opcode0(const struct ct_x64_insn *insn, uint8_t opcode, uint8_t operation) {
    return insn->encoding == CT_X64_LEGACY && insn->map == 0 && insn->opcode == opcode &&
           (insn->modrm >> 3 & 7) == operation;
}

static int move_far(const struct ct_x64_move *m) {
    const struct ct_x64_insn *insn = m->insn;
    uint8_t reg = (uint8_t)((insn->modrm >> 3 & 7) | (insn->rex & 4) << 1);
    if (insn->kind == CT_INSN_NOP) {
        ct_code_copy(m->out, m->bytes, insn->length); /* contains an address and never jumps to it */
    } else if (insn->kind == CT_INSN_JMP_INDIRECT) {
        if (ct_x64_narrow(insn))
            return CT_ERR_UNSUPPORTED;
        move_jmp_far(m);
    } else if (is_opcode0(insn, 0x8d, insn->modrm >> 3 & 7)) {
        move_lea_far(m);
    } else if (is_opcode0(insn, 0xff, 6)) {
        move_push_far(m);
    } else if (is_opcode0(insn, 0x8f, 0)) {
        move_pop_far(m);
    } else if (is_whole_load(insn) && reg != CT_X64_RSP) {
        move_load_far(m, reg);
    } else {
        struct ct_x64_effects effects;
        ct_x64_effects(insn, &effects);
        uint16_t used = effects.regs_read | effects.regs_written;
        bool names_rsp = used & 1u << CT_X64_RSP;
        return names_rsp ? move_rsp_operand(m, used) : move_spilled(m, used);
    }
    return 0;
}

int ct_x64_move_plain(const struct ct_x64_move *m) {
    if (!m->insn->rip_relative)
        ct_code_copy(m->out, m->bytes, m->insn->length);
    else if (ct_x64_in_reach(m, 0))
        copy_near(m);
    else
        return move_far(m);
    return 0;
}
