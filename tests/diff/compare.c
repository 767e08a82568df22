/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison with Zydis; see compare.h. */
#include "compare.h"

#include <stdio.h>

#include "known.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static ZydisDecoder decoder;
static int8_t general[ZYDIS_REGISTER_MAX_VALUE + 1]; /* register -> 0-15; -1: not a general register */
static uint64_t hits[COUNT(known_errors)];

const char *const diff_class_names[DIFF_COUNT] = {
#define DIFF_NAME(name, text) text,
    DIFF_CLASSES(DIFF_NAME)
#undef DIFF_NAME
};

void diff_init(void) {
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (int r = 0; r <= ZYDIS_REGISTER_MAX_VALUE; r++) {
        ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, (ZydisRegister)r);
        general[r] =
            whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15 ? (int8_t)(whole - ZYDIS_REGISTER_RAX) : -1;
    }
}

static uint8_t branch_kind(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint8_t direct,
                           uint8_t indirect) {
    if (z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
        return CT_INSN_FAR;
    return ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? direct : indirect;
}

static uint8_t zydis_kind(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops) {
    switch (z->mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
        return CT_INSN_NOP;
    case ZYDIS_MNEMONIC_ENDBR32:
    case ZYDIS_MNEMONIC_ENDBR64:
        return CT_INSN_LANDING;
    case ZYDIS_MNEMONIC_JMP:
        return branch_kind(z, ops, CT_INSN_JMP, CT_INSN_JMP_INDIRECT);
    case ZYDIS_MNEMONIC_CALL:
        return branch_kind(z, ops, CT_INSN_CALL, CT_INSN_CALL_INDIRECT);
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
        return CT_INSN_LOOP;
    case ZYDIS_MNEMONIC_RET:
        return z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ? CT_INSN_FAR : CT_INSN_RET;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_SYSRET:
    case ZYDIS_MNEMONIC_SYSEXIT:
    case ZYDIS_MNEMONIC_RSM:
    case ZYDIS_MNEMONIC_UIRET:
        return CT_INSN_FAR;
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_SYSENTER:
        return CT_INSN_SYSCALL;
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
        return CT_INSN_INT;
    case ZYDIS_MNEMONIC_INT3:
        return CT_INSN_INT3;
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
        return CT_INSN_TRAP;
    case ZYDIS_MNEMONIC_HLT:
        return CT_INSN_HALT;
    case ZYDIS_MNEMONIC_XBEGIN:
        return CT_INSN_XBEGIN;
    case ZYDIS_MNEMONIC_XEND: /* the oracle calls it a conditional branch, but it always continues below */
        return CT_INSN_OTHER;
    default:
        return z->meta.category == ZYDIS_CATEGORY_COND_BR ? CT_INSN_JCC : CT_INSN_OTHER;
    }
}

static uint16_t register_bit(ZydisRegister r) {
    return general[r] < 0 ? 0 : (uint16_t)(1u << general[r]);
}

/* Effects according to the operands of Zydis. */
static void zydis_effects(const struct compared *c, struct ct_x64_effects *e) {
    *e = (struct ct_x64_effects){0};
    for (unsigned i = 0; i < c->zydis.operand_count; i++) {
        const ZydisDecodedOperand *op = &c->operands[i];
        bool reads = op->actions & ZYDIS_OPERAND_ACTION_MASK_READ,
             writes = op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
        if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
            uint16_t bit = register_bit(op->reg.value);
            e->regs_read |= reads ? bit : 0;
            e->regs_written |= writes ? bit : 0;
        } else if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
            e->regs_read |= register_bit(op->mem.base) | register_bit(op->mem.index);
            if (op->mem.type != ZYDIS_MEMOP_TYPE_AGEN) {
                e->mem_read |= reads;
                e->mem_written |= writes;
            }
        }
    }
    const ZydisAccessedFlags *f = c->zydis.cpu_flags;
    if (f) {
        e->flags_read = f->tested & (CT_X64_ARITH_FLAGS | CT_X64_DF);
        e->flags_written = (f->modified | f->set_0 | f->set_1 | f->undefined) & (CT_X64_ARITH_FLAGS | CT_X64_DF);
    }
}

static void differ(struct compared *c, enum diff_class class, uint32_t bits) {
    c->bits[class] = c->unexplained & 1u << class ? c->bits[class] | bits : bits;
    c->unexplained |= 1u << class;
}

/* The explicit memory operand of Zydis, or NULL. */
static const ZydisDecodedOperand *zydis_memory(const struct compared *c) {
    for (unsigned i = 0; i < c->zydis.operand_count_visible; i++)
        if (c->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
            c->operands[i].visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
            return &c->operands[i];
    return NULL;
}

static uint8_t address_register(ZydisRegister r) {
    if (r == ZYDIS_REGISTER_RIP || r == ZYDIS_REGISTER_EIP)
        return CT_X64_RIP;
    return general[r] < 0 ? CT_X64_NO_REG : (uint8_t)general[r];
}

static void compare_memory(struct compared *c) {
    struct ct_x64_mem mem;
    bool ours = ct_x64_memory(&c->ours, &mem);
    const ZydisDecodedOperand *op = zydis_memory(c);
    if (ours != (op != NULL)) {
        differ(c, DIFF_MEMORY, 1);
        return;
    }
    if (c->ours.rip_relative != (op && address_register(op->mem.base) == CT_X64_RIP))
        differ(c, DIFF_RIP, 1);
    if (!op)
        return;
    uint8_t index = address_register(op->mem.index);
    bool vsib = op->mem.type == ZYDIS_MEMOP_TYPE_VSIB;
    if (mem.base != address_register(op->mem.base) || mem.index != index || mem.vsib != vsib ||
        (mem.index != CT_X64_NO_REG && mem.scale != op->mem.scale))
        differ(c, DIFF_MEMORY, 2);
    /* Zydis scales the 8-bit displacement of EVEX; the raw value is compared elsewhere. */
    if (c->ours.encoding != CT_X64_EVEX && op->mem.disp.has_displacement && op->mem.disp.value != mem.disp)
        differ(c, DIFF_MEMORY, 4);
}

static bool same_immediate(const struct compared *c, unsigned i, uint8_t offset, uint8_t size) {
    return c->zydis.raw.imm[i].offset == offset && c->zydis.raw.imm[i].size == size * 8;
}

static void compare_parts(struct compared *c, uint64_t address) {
    const struct ct_x64_insn *o = &c->ours;
    const ZydisDecodedInstruction *z = &c->zydis;
    if (z->length != o->length)
        differ(c, DIFF_LENGTH, 1);
    uint8_t kind = zydis_kind(z, c->operands);
    if (kind != o->kind)
        differ(c, DIFF_KIND, 1u << kind);
    if (z->raw.disp.offset != o->disp_offset || z->raw.disp.size != o->disp_size * 8 || z->raw.disp.value != o->disp)
        differ(c, DIFF_DISPLACEMENT, 1);
    if (!same_immediate(c, 0, o->imm_offset, o->imm_size) || !same_immediate(c, 1, o->imm2_offset, o->imm2_size))
        differ(c, DIFF_IMMEDIATE, 1);
    unsigned unused = 64 - 8 * (o->imm_size ? o->imm_size : 8);
    if ((z->raw.imm[0].value.u ^ (uint64_t)o->imm) << unused)
        differ(c, DIFF_IMMEDIATE, 2);
    if (z->raw.imm[0].is_relative) {
        ZyanU64 target = 0;
        ZydisCalcAbsoluteAddress(z, &c->operands[0], address, &target);
        if (target != ct_x64_target(o, address))
            differ(c, DIFF_TARGET, 1);
    }
    compare_memory(c);
}

/* Flags that Zydis says are always written: none if it calls the write of rflags conditional. */
static uint16_t surely_written(const struct compared *c, const struct ct_x64_effects *z) {
    for (unsigned i = c->zydis.operand_count_visible; i < c->zydis.operand_count; i++) {
        const ZydisDecodedOperand *op = &c->operands[i];
        if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->reg.value == ZYDIS_REGISTER_RFLAGS)
            return op->actions & ZYDIS_OPERAND_ACTION_WRITE ? z->flags_written : 0;
    }
    return z->flags_written;
}

static void compare_effects(struct compared *c) {
    struct ct_x64_effects z, *o = &c->effects;
    ct_x64_effects(&c->ours, o);
    zydis_effects(c, &z);
    if (o->regs_read != z.regs_read)
        differ(c, DIFF_REGS_READ, o->regs_read ^ z.regs_read);
    if (o->regs_written != z.regs_written)
        differ(c, DIFF_REGS_WRITTEN, o->regs_written ^ z.regs_written);
    if (o->flags_read != z.flags_read)
        differ(c, DIFF_FLAGS_READ, o->flags_read ^ z.flags_read);
    if (o->flags_written != z.flags_written)
        differ(c, DIFF_FLAGS_WRITTEN, o->flags_written ^ z.flags_written);
    uint16_t alive = o->flags_killed & ~surely_written(c, &z);
    if (alive)
        differ(c, DIFF_FLAGS_KILLED, alive);
    if (o->mem_read != z.mem_read)
        differ(c, DIFF_MEM_READ, 1);
    if (o->mem_written != z.mem_written)
        differ(c, DIFF_MEM_WRITTEN, 1);
}

static bool applies(const struct known *k, const struct compared *c) {
    return (!k->mnemonic || k->mnemonic == c->zydis.mnemonic) && (!k->isa_ext || k->isa_ext == c->zydis.meta.isa_ext) &&
           (!k->category || k->category == c->zydis.meta.category) && k->classes & c->unexplained;
}

/* Moves disagreements that the table of oracle errors explains from unexplained to known. */
static void explain(struct compared *c) {
    for (size_t i = 0; i < COUNT(known_errors) && c->unexplained; i++) {
        const struct known *k = &known_errors[i];
        if (!applies(k, c))
            continue;
        uint32_t mask = k->bits & (k->when ? k->when(c) : ~0u);
        for (unsigned class = 0; class < DIFF_COUNT; class ++) {
            if (!(k->classes & c->unexplained & 1u << class) || !(c->bits[class] & mask))
                continue;
            hits[i]++;
            c->bits[class] &= ~mask;
            if (c->bits[class])
                continue;
            c->unexplained &= ~(1u << class);
            c->known |= 1u << class;
        }
    }
}

size_t diff_compare(const uint8_t *bytes, size_t size, uint64_t address, struct compared *c) {
    c->unexplained = c->known = 0;
    c->status = ct_x64_decode(bytes, size, &c->ours);
    c->zydis_valid = ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, size, &c->zydis, c->operands));
    if (c->zydis_valid != (c->status == 0)) {
        differ(c, DIFF_VALIDITY, 1);
        if (!c->zydis_valid)
            return 1;
    } else if (c->zydis_valid) {
        compare_parts(c, address);
        compare_effects(c);
    }
    if (c->unexplained)
        explain(c);
    return c->zydis_valid ? c->zydis.length : 1;
}

void diff_print(const uint8_t *bytes, size_t size, const struct compared *c) {
    const char *name = c->zydis_valid ? ZydisMnemonicGetString(c->zydis.mnemonic) : "-";
    for (unsigned class = 0; class < DIFF_COUNT; class ++)
        if (c->unexplained & 1u << class)
            printf("%-22s bits %04x ", diff_class_names[class], c->bits[class]);
    printf("%s: status %d, length %u, oracle %u, bytes", name, c->status, c->status ? 0 : c->ours.length,
           c->zydis_valid ? c->zydis.length : 0);
    for (size_t i = 0; i < size && i < 15; i++)
        printf(" %02x", bytes[i]);
    printf("\n");
}

size_t diff_known_count(void) {
    return COUNT(known_errors);
}

void diff_known_hits(uint64_t *total) {
    for (size_t i = 0; i < COUNT(known_errors); i++)
        total[i] += hits[i];
}

void diff_known_print(const uint64_t *total) {
    for (size_t i = 0; i < COUNT(known_errors); i++) {
        const struct known *k = &known_errors[i];
        const char *what = k->mnemonic   ? ZydisMnemonicGetString(k->mnemonic)
                           : k->isa_ext  ? ZydisISAExtGetString((ZydisISAExt)k->isa_ext)
                           : k->category ? ZydisCategoryGetString((ZydisInstructionCategory)k->category)
                                         : "any";
        printf("  %10llu  %-12s %s\n", total ? (unsigned long long)total[i] : 0ull, what, k->why);
    }
}
