/* SPDX-License-Identifier: Apache-2.0 */
/* Simulation of our own code, arm64: the forms that emit_a64.h, lower_a64.c and entry_a64.S use.
 *
 * While our code is simulated r->gpr[18] is the address of the area; ct_recover_done gives the program its own. */
#include "stalk/recover.h"
#include "isa/a64/decode.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/emit_a64.h"
#include "stalk/memory.h"
#include "stalk/thread.h"

struct machine {
    struct stalk_regs *r;
    uint32_t word;
    unsigned rd, rn, rm;
};

static uint32_t word_at(uint64_t pc) {
    return ct_a64_word((const uint8_t *)pc);
}

/* Register 31 is the zero register. */
static uint64_t get(const struct machine *m, unsigned reg) {
    return reg == CT_A64_ZR ? 0 : m->r->gpr[reg];
}

static void set(struct machine *m, unsigned reg, uint64_t value) {
    if (reg != CT_A64_ZR)
        m->r->gpr[reg] = value;
}

static void access(struct machine *m, bool load, unsigned reg, uint64_t at, unsigned size) {
    uint64_t value = get(m, reg);
    if (!load) {
        ct_stalk_copy((void *)at, &value, size);
        return;
    }
    value = 0;
    ct_stalk_copy(&value, (const void *)at, size);
    set(m, reg, value);
}

/* Our code has the area in x18, and addresses of its own in x16 and x17. */
static bool step_access(struct machine *m) {
    uint32_t w = m->word;
    uint64_t base = m->r->gpr[m->rn];
    if (m->rn < X16 || m->rn > X18)
        return false;
    if ((w & 0xbf800000) == 0xb9000000) { /* ldr, str: scaled */
        unsigned size = w & 1 << 30 ? 8 : 4;
        access(m, w & 1 << 22, m->rd, base + (w >> 10 & 0xfff) * size, size);
        return true;
    }
    if ((w & 0xffa00c00) == 0xf8000000) { /* ldur, stur */
        access(m, w & 1 << 22, m->rd, base + (uint64_t)((int64_t)((uint64_t)w << 43) >> 55), 8);
        return true;
    }
    if ((w & 0xff800000) == 0xa9000000) { /* ldp, stp */
        uint64_t at = base + (uint64_t)(((int64_t)((uint64_t)w << 42) >> 57) * 8);
        access(m, w & 1 << 22, m->rd, at, 8);
        access(m, w & 1 << 22, w >> 10 & 31, at + 8, 8);
        return true;
    }
    return false;
}

/* movn, movz, movk */
static void step_move(struct machine *m) {
    uint32_t w = m->word;
    unsigned shift = (w >> 21 & 3) * 16, opcode = w >> 29 & 3;
    uint64_t value = (uint64_t)(w >> 5 & 0xffff) << shift;
    if (opcode == 0)
        value = ~value;
    if (opcode == 3)
        value |= get(m, m->rd) & ~(UINT64_C(0xffff) << shift);
    set(m, m->rd, w & 1u << 31 ? value : (uint32_t)value);
}

static uint64_t authenticate(uint64_t value, uint64_t modifier, bool b_key) {
    register uint64_t x17 __asm__("x17") = value;
    register uint64_t x16 __asm__("x16") = modifier;
    if (b_key)
        __asm__ volatile("hint #14" : "+r"(x17) : "r"(x16)); /* autib1716 */
    else
        __asm__ volatile("hint #12" : "+r"(x17) : "r"(x16)); /* autia1716 */
    return x17;
}

static bool step_value(struct machine *m) {
    uint32_t w = m->word;
    uint64_t rn = get(m, m->rn), rm = get(m, m->rm);
    if ((w & 0x1f800000) == 0x12800000)
        step_move(m);
    else if ((w & 0xbf800000) == 0x91000000 && !(w & 1 << 23)) /* add, sub of a constant: 31 is sp */
        m->r->gpr[m->rd] = m->r->gpr[m->rn] + (UINT64_C(0) + (w >> 10 & 0xfff)) * (w & 1 << 22 ? 4096u : 1u) *
                                                  (w & 1 << 30 ? UINT64_MAX : 1u);
    else if ((w & 0xffe0fc00) == 0xaa000000)
        set(m, m->rd, rn | rm);
    else if ((w & 0xffe0fc00) == 0x2a000000)
        set(m, m->rd, (uint32_t)(rn | rm));
    else if ((w & 0xffe0fc00) == 0xca000000)
        set(m, m->rd, rn ^ rm);
    else if ((w & 0xffe0fc00) == 0x8b000000)
        set(m, m->rd, rn + rm);
    else if ((w & 0xfffffc00) == 0xb37f4400) /* bfi #1, #18 */
        set(m, m->rd, (get(m, m->rd) & ~UINT64_C(0x7fffe)) | (rn & 0x3ffff) << 1);
    else if ((w & 0xfffffc00) == 0x12003c00)
        set(m, m->rd, rn & 0xffff);
    else if ((w & 0xfffffc00) == 0x12001c00)
        set(m, m->rd, rn & 0xff);
    else if ((w & 0xffffffe0) == 0xd53be040)
        set(m, m->rd, ct_os_timestamp());
    else if ((w & 0xffffffe0) == 0xd53bd040)
        set(m, m->rd, ct_os_thread_pointer());
    else if ((w & 0xfffff800) == 0xdac11000) /* 31 is sp */
        set(m, m->rd, authenticate(get(m, m->rd), m->r->gpr[m->rn], w & 1 << 10));
    else if ((w & 0xfffffbe0) == 0xdac133e0)
        set(m, m->rd, authenticate(get(m, m->rd), 0, w & 1 << 10));
    else
        return w == CT_A64_NOP;
    return true;
}

/* Branches, and constants that are addresses. */
static bool step_place(struct machine *m) {
    struct ct_a64_insn x;
    uint64_t value = get(m, m->rd), pc = m->r->pc;
    if (ct_a64_decode(m->word, &x))
        return false;
    uint64_t target = ct_a64_target(&x, pc);
    bool wide = m->word & 1u << 31, inverse = m->word & 1 << 24, zero;
    switch (x.kind) {
    case CT_INSN_JMP:
        m->r->pc = target;
        return true;
    case CT_INSN_JMP_INDIRECT:
    case CT_INSN_RET:
        if (ct_a64_authenticates(m->word))
            return false;
        m->r->pc = get(m, m->rn);
        return true;
    case CT_INSN_LOOP:
        if ((m->word & 0x7e000000) == 0x34000000) /* cbz, cbnz */
            zero = !(wide ? value : (uint32_t)value);
        else
            zero = !(value >> ((m->word >> 19 & 31) | (wide ? 32 : 0)) & 1);
        m->r->pc = zero != inverse ? target : pc + 4;
        return true;
    default:
        if (x.what != CT_A64_ADR && x.what != CT_A64_ADRP)
            return false;
        set(m, m->rd, target);
        m->r->pc = pc + 4;
        return true;
    }
}

bool ct_recover_step(struct stalk_thread *t, struct stalk_regs *r) {
    uint32_t w = word_at(r->pc);
    struct machine m = {r, w, w & 31, w >> 5 & 31, w >> 16 & 31};
    (void)t;
    if (step_access(&m) || step_value(&m)) {
        r->pc += 4;
        return true;
    }
    return step_place(&m);
}

/* Code that needs a register of the program for one instruction begins by saving it. */
void ct_recover_undo(struct stalk_thread *t, struct stalk_regs *r, uint64_t piece) {
    uint32_t w = word_at(piece);
    unsigned reg = w & 31;
    if (r->pc == piece)
        return;
    if ((w & 0xffc003e0) == (0xf9000000 | X18 << 5) && (w >> 10 & 0xfff) == reg)
        r->gpr[reg] = t->area->gpr[reg];
    if ((w & 0xffc003e0) == (0xa9000000 | X18 << 5)) { /* x16 and x17 of a branch */
        r->gpr[X16] = t->area->gpr[X16];
        r->gpr[X17] = t->area->gpr[X17];
    }
}

/* In a unit another register may have x18 (unit_a64.h). That its registers are given back costs nothing: the signal
 * makes its store fail anyway. */
void ct_recover_unit(struct stalk_thread *t, const struct stalk_fragment *f, struct stalk_regs *r) {
    unsigned reg = f->unit_register;
    if (reg == STALK_NO_UNIT_REGISTER || r->pc - f->code < f->unit_from || r->pc - f->code >= f->unit_to)
        return;
    t->area->gpr[X18] = r->gpr[reg];
    r->gpr[reg] = t->area->gpr[reg];
}

void ct_recover_saved(const struct stalk_thread *t, struct stalk_regs *r, enum stalk_saved which) {
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        if (i != X18 && (which == STALK_REGISTERS_SAVED || i == X16 || i == X17))
            r->gpr[i] = t->area->gpr[i];
}

uint64_t ct_recover_cloning_call(uint64_t pc) {
    enum { LOAD_X18 = 0xf9400000 | X18 << 10 | X18 << 5 | X18 };
    uint64_t next;
    if (word_at(pc) != STALK_SVC || word_at(pc - 4) != (uint32_t)LOAD_X18)
        return 0;
    ct_stalk_copy(&next, (const void *)(pc + 8), sizeof next);
    return next - 4;
}

/* Its x18 is in the area, wherever it was: the program's where native code begins or ends. */
void ct_recover_redirected(const struct stalk_thread *t, struct stalk_regs *r) {
    r->gpr[X18] = t->area->gpr[X18];
}

void ct_recover_done(const struct stalk_thread *t, struct stalk_regs *r, enum stalk_place place) {
    if (place == STALK_CLEAN && r->gpr[X18] == (uint64_t)t->area)
        r->gpr[X18] = t->area->gpr[X18];
    if (place == STALK_ELSEWHERE && t->fault_pc && r->pc == t->fault_pc)
        r->gpr[X17] = t->area->gpr[X17]; /* ct_stalk_away */
}
