/* SPDX-License-Identifier: Apache-2.0 */
/* Simulation of our own code, x86_64: the forms that lower_x64.c and entry_x64.S use. */
#include "stalk/recover.h"
#include "isa/x64/decode.h"
#include "stalk/thread.h"

#define LOW_FLAGS ((uint64_t)(CT_X64_CF | CT_X64_PF | CT_X64_AF | CT_X64_ZF | CT_X64_SF))

struct machine {
    struct stalk_thread *t;
    struct stalk_regs *r;
    const uint8_t *bytes;
    struct ct_x64_insn x;
    struct ct_x64_mem mem;
    bool has_mem;
};

static uint64_t address_of(const struct machine *m) {
    const struct ct_x64_insn *x = &m->x;
    uint64_t at = (uint64_t)m->mem.disp;
    if (m->mem.base == CT_X64_RIP)
        at += m->r->pc + x->length;
    else if (m->mem.base != CT_X64_NO_REG)
        at += m->r->gpr[m->mem.base];
    if (m->mem.index != CT_X64_NO_REG)
        at += m->r->gpr[m->mem.index] * m->mem.scale;
    if (x->prefixes & CT_X64_SEG_GS)
        at += (uint64_t)m->t->area - CT_AREA;
    return at;
}

static unsigned reg_of(const struct ct_x64_insn *x) {
    return (x->modrm >> 3 & 7) | (x->rex & 4) << 1;
}

static unsigned rm_of(const struct ct_x64_insn *x) {
    return (x->modrm & 7) | (x->rex & 1) << 3;
}

static void set_reg(struct machine *m, unsigned reg, uint64_t value) {
    m->r->gpr[reg] = m->x.rex & 8 ? value : (uint32_t)value;
}

static uint64_t load(uint64_t at, bool wide) {
    return wide ? *(const uint64_t *)at : *(const uint32_t *)at;
}

/* Words of records are not aligned. */
struct word {
    uint64_t value;
} __attribute__((packed));
struct half {
    uint32_t value;
} __attribute__((packed));

static void store(uint64_t at, uint64_t value, bool wide) {
    if (wide)
        ((struct word *)at)->value = value;
    else
        ((struct half *)at)->value = (uint32_t)value;
}

static void push(struct machine *m, uint64_t value) {
    m->r->gpr[CT_X64_RSP] -= 8;
    store(m->r->gpr[CT_X64_RSP], value, true);
}

static void read_counter(struct machine *m) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    m->r->gpr[CT_X64_RAX] = low;
    m->r->gpr[CT_X64_RDX] = high;
}

/* 0f xx, and rorx. */
static bool step_other(struct machine *m) {
    const struct ct_x64_insn *x = &m->x;
    if (x->encoding == CT_X64_VEX && x->opcode == 0xf0) {
        uint64_t value = m->has_mem ? load(address_of(m), true) : m->r->gpr[rm_of(x)];
        uint32_t low = (uint32_t)value;
        unsigned n = (unsigned)x->imm & (x->rex & 8 ? 63 : 31);
        m->r->gpr[reg_of(x)] = x->rex & 8 ? value >> n | value << (64 - n) : (uint32_t)(low >> n | low << (32 - n));
        return true;
    }
    if (x->map == 1 && (x->opcode == 0xb6 || x->opcode == 0xb7)) { /* of byte registers al to bl only */
        uint64_t at = m->has_mem ? address_of(m) : (uint64_t)&m->r->gpr[rm_of(x)];
        m->r->gpr[reg_of(x)] = x->opcode == 0xb7 ? *(const uint16_t *)at : *(const uint8_t *)at;
        return true;
    }
    if (x->map == 1 && x->kind == CT_INSN_JCC) { /* jne */
        m->r->pc = m->r->flags & CT_X64_ZF ? m->r->pc + x->length : ct_x64_target(x, m->r->pc);
        return true;
    }
    if (x->map == 1 && x->opcode == 0x90) { /* seto al */
        m->r->gpr[CT_X64_RAX] = (m->r->gpr[CT_X64_RAX] & ~0xffull) | (m->r->flags & CT_X64_OF ? 1 : 0);
        return true;
    }
    if (x->map == 1 && x->opcode == 0x31) {
        read_counter(m);
        return true;
    }
    return x->kind == CT_INSN_NOP;
}

/* Simulates one instruction; false: it is not one of ours. The new program counter is after it. */
static bool step_insn(struct machine *m) {
    const struct ct_x64_insn *x = &m->x;
    bool wide = x->rex & 8;
    if (x->kind == CT_INSN_NOP || x->encoding != CT_X64_LEGACY || x->map != 0)
        return step_other(m);
    uint64_t at = m->has_mem ? address_of(m) : 0, next = m->r->pc + x->length;
    uint64_t *sp = &m->r->gpr[CT_X64_RSP];
    switch (x->opcode) {
    case 0x89:
        if (m->has_mem)
            store(at, m->r->gpr[reg_of(x)], wide);
        else
            set_reg(m, rm_of(x), m->r->gpr[reg_of(x)]);
        break;
    case 0x39: /* cmp, where the program does not need the flags */
        m->r->flags &= ~(uint64_t)CT_X64_ZF;
        m->r->flags |= (m->has_mem ? load(at, true) : m->r->gpr[rm_of(x)]) == m->r->gpr[reg_of(x)] ? CT_X64_ZF : 0;
        break;
    case 0x75:
        if (!(m->r->flags & CT_X64_ZF))
            next = ct_x64_target(x, m->r->pc);
        break;
    case 0x04: /* add al, 0x7f: only its OF is used */
        m->r->flags = (m->r->flags & ~(uint64_t)CT_X64_OF) | (m->r->gpr[CT_X64_RAX] & 1 ? CT_X64_OF : 0);
        break;
    case 0x9e: /* sahf */
        m->r->flags = (m->r->flags & ~LOW_FLAGS) | (m->r->gpr[CT_X64_RAX] >> 8 & LOW_FLAGS);
        break;
    case 0x9f: /* lahf */
        m->r->gpr[CT_X64_RAX] = (m->r->gpr[CT_X64_RAX] & ~0xff00ull) | (m->r->flags & 0xff) << 8;
        break;
    case 0x8b:
        set_reg(m, reg_of(x), m->has_mem ? load(at, wide) : m->r->gpr[rm_of(x)]);
        break;
    case 0x8d:
        set_reg(m, reg_of(x), at);
        break;
    case 0xc7:
        store(at, (uint64_t)x->imm, wide);
        break;
    case 0xf7: /* not */
        m->r->gpr[rm_of(x)] = ~m->r->gpr[rm_of(x)];
        break;
    case 0xb9: /* mov rcx, imm; mov r11, imm */
    case 0xbb:
        m->r->gpr[(x->opcode & 7) | (x->rex & 1) << 3] = (uint64_t)x->imm;
        break;
    case 0x59:
        m->r->gpr[CT_X64_RCX] = load(*sp, true);
        *sp += 8;
        break;
    case 0x68:
        push(m, (uint64_t)x->imm);
        break;
    case 0xe9:
    case 0xeb:
        next = ct_x64_target(x, m->r->pc);
        break;
    case 0xe2:
        if (--m->r->gpr[CT_X64_RCX])
            next = ct_x64_target(x, m->r->pc);
        break;
    case 0xe3:
        if (!m->r->gpr[CT_X64_RCX])
            next = ct_x64_target(x, m->r->pc);
        break;
    case 0xff:
        if (reg_of(x) == 6)
            push(m, load(at, true));
        else
            next = load(at, true);
        break;
    default:
        return false;
    }
    m->r->pc = next;
    return true;
}

bool ct_recover_step(struct stalk_thread *t, struct stalk_regs *r) {
    struct machine m;
    m.t = t;
    m.r = r;
    m.bytes = (const uint8_t *)r->pc;
    if (ct_x64_decode(m.bytes, CT_X64_MAX_LENGTH, &m.x))
        return false;
    m.has_mem = ct_x64_memory(&m.x, &m.mem);
    uint64_t before = r->pc;
    if (!step_insn(&m))
        return false;
    if (r->pc == before)
        r->pc += m.x.length;
    return true;
}

/* The code of a branch faulted while it read its operand or the stack: restores what it had saved. */
void ct_recover_undo(struct stalk_thread *t, struct stalk_regs *r, uint64_t piece) {
    uint16_t saved = 0;
    struct ct_x64_insn x;
    for (uint64_t pc = piece; pc < r->pc; pc += x.length) {
        if (ct_x64_decode((const uint8_t *)pc, CT_X64_MAX_LENGTH, &x))
            return;
        uint16_t bit = (uint16_t)(1u << reg_of(&x));
        if (!(x.prefixes & CT_X64_SEG_GS) || x.map != 0 || (uint32_t)x.disp != CT_AREA + 8 * reg_of(&x))
            continue;
        if (x.opcode == 0x89)
            saved |= bit;
        else if (x.opcode == 0x8b)
            saved &= (uint16_t)~bit;
    }
    for (unsigned i = 0; i < 16; i++)
        if (saved & 1u << i)
            r->gpr[i] = t->area->gpr[i];
}

/* The syscall of a clone stub (link_x64.c), which the kernel may restart. Returns its original address; 0: none. */
uint64_t ct_recover_cloning_call(uint64_t pc) {
    const uint8_t *b = (const uint8_t *)pc;
    bool stub = b[0] == 0x0f && b[1] == 0x05 && b[2] == 0x48 && b[3] == 0x89 && b[4] == 0xc1 && b[5] == 0xe3;
    return stub ? *(const uint64_t *)(pc + 14) - 2 : 0;
}

void ct_recover_unit(struct stalk_thread *t, const struct stalk_fragment *f, struct stalk_regs *r) {
    (void)t, (void)f, (void)r;
}

void ct_recover_saved(const struct stalk_thread *t, struct stalk_regs *r, enum stalk_saved which) {
    uint16_t registers = which == STALK_REGISTERS_SAVED     ? 0xffff
                         : which == STALK_REGISTERS_SCRATCH ? 1u << CT_X64_RCX | 1u << CT_X64_R11
                                                            : 0;
    for (unsigned i = 0; i < 16; i++)
        if (registers & 1u << i)
            r->gpr[i] = t->area->gpr[i];
}

void ct_recover_redirected(const struct stalk_thread *t, struct stalk_regs *r) {
    (void)t, (void)r; /* it has all its registers */
}

void ct_recover_done(const struct stalk_thread *t, struct stalk_regs *r, enum stalk_place place) {
    (void)t, (void)r, (void)place;
}
