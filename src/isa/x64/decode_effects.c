/* SPDX-License-Identifier: Apache-2.0 */
/* x86_64 decoder, step two: what an instruction touches, from the form that step one found. */
#include "isa/x64/decode_tables.h"

static bool has_memory(const struct ct_x64_insn *insn) {
    return insn->modrm_offset && insn->modrm < 0xc0;
}

bool ct_x64_memory(const struct ct_x64_insn *insn, struct ct_x64_mem *mem) {
    *mem = (struct ct_x64_mem){.base = CT_X64_NO_REG, .index = CT_X64_NO_REG, .scale = 1, .disp = insn->disp};
    if (!has_memory(insn))
        return insn->disp_size && !insn->modrm_offset; /* moffs */
    if (insn->rip_relative) {
        mem->base = CT_X64_RIP;
    } else if (insn->has_sib) {
        unsigned base = insn->sib & 7, index = (insn->sib >> 3 & 7) | (insn->rex & 2) << 2;
        unsigned special = ct_x64_forms[insn->table_index].checks >> CHECK_SPECIAL;
        if (insn->modrm >= 0x40 || base != 5)
            mem->base = (uint8_t)(base | (insn->rex & 1) << 3);
        mem->vsib = special == S_VSIB || special == S_GATHER;
        if (index != 4 && !mem->vsib)
            mem->index = (uint8_t)index;
        if (index != 4 || mem->vsib)
            mem->scale = (uint8_t)(1 << (insn->sib >> 6));
    } else {
        mem->base = (uint8_t)((insn->modrm & 7) | (insn->rex & 1) << 3);
    }
    return true;
}

static uint16_t register_bit(const struct ct_x64_insn *insn, unsigned number, unsigned access) {
    if (access & ACCESS_BYTE && !insn->has_rex && number >= 4)
        number -= 4; /* ah, ch, dh, bh */
    return (uint16_t)(1u << number);
}

static void touch_registers(struct ct_x64_effects *e, uint16_t bits, unsigned access) {
    if (access & ACCESS_READ)
        e->regs_read |= bits;
    if (access & ACCESS_WRITE)
        e->regs_written |= bits;
}

static void touch_memory(struct ct_x64_effects *e, unsigned access) {
    e->mem_read |= (access & ACCESS_READ) != 0;
    e->mem_written |= (access & ACCESS_WRITE) != 0;
}

static void add_modrm(const struct ct_x64_insn *insn, const struct ct_x64_form *form, struct ct_x64_effects *e) {
    touch_registers(e, register_bit(insn, (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1, form->reg), form->reg);
    if (!has_memory(insn)) {
        if (form->rm & ACCESS_GENERAL)
            touch_registers(e, register_bit(insn, (insn->modrm & 7) | (insn->rex & 1) << 3, form->rm), form->rm);
        return;
    }
    struct ct_x64_mem mem;
    ct_x64_memory(insn, &mem);
    if (mem.base < CT_X64_RIP)
        e->regs_read |= (uint16_t)(1u << mem.base);
    if (mem.index < CT_X64_RIP)
        e->regs_read |= (uint16_t)(1u << mem.index);
    touch_memory(e, form->rm);
}

/* Flags that are overwritten only under a condition that shows in the instruction. */
static bool kills_flags(const struct ct_x64_insn *insn, unsigned rule) {
    switch (rule) {
    case KILL_SHIFT:
        return insn->imm & (insn->rex & 8 ? 63 : 31);
    case KILL_NOREP:
        return !(insn->prefixes & (CT_X64_REP | CT_X64_REPNE));
    default:
        return true;
    }
}

void ct_x64_effects(const struct ct_x64_insn *insn, struct ct_x64_effects *effects) {
    const struct ct_x64_form *form = &ct_x64_forms[insn->table_index];
    const struct ct_x64_implicit *implicit = &ct_x64_implicits[form->implicit];
    const struct ct_x64_flag_set *flags = &ct_x64_flag_sets[form->flags];
    struct ct_x64_effects e = {
        .regs_read = implicit->read,
        .regs_written = implicit->written,
        .flags_read = flags->read,
        .flags_written = flags->written,
        .flags_killed = kills_flags(insn, flags->rule) ? flags->killed : 0,
    };
    touch_memory(&e, implicit->mem);
    if (implicit->rep && insn->prefixes & (CT_X64_REP | CT_X64_REPNE)) {
        touch_registers(&e, 1 << CT_X64_RCX, ACCESS_READ | ACCESS_WRITE);
        e.regs_read |= implicit->written; /* a count of 0 keeps the old values */
    }
    if (insn->modrm_offset)
        add_modrm(insn, form, &e);
    touch_registers(&e, (uint16_t)(1u << (insn->vvvv & 15)), form->extra);
    unsigned low = (insn->opcode & 7) | (insn->rex & 1) << 3;
    touch_registers(&e, register_bit(insn, low, form->extra >> 4), form->extra >> 4);
    *effects = e;
}
