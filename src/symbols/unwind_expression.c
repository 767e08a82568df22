/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF expressions, as call frame information uses them: linkage stubs, signal frames, realigned stacks.
 *
 * It ends on any input: the number of steps is limited, and every step checks the stack. */
#include "symbols/reader.h"
#include "symbols/unwind.h"
#include <contrail/status.h>
#include <dwarf.h>

#define MAX_STEPS 1000
#define MAX_STACK 32

struct evaluation {
    struct ct_reader code;
    const uint8_t *start;
    const struct ct_unwind_regs *regs;
    const struct ct_unwind_memory *memory;
    uint64_t bias;
    uint64_t stack[MAX_STACK];
    unsigned depth;
    int status;
};

static void push(struct evaluation *e, uint64_t value) {
    if (e->depth == MAX_STACK)
        e->status = CT_ERR_BAD_FILE;
    else
        e->stack[e->depth++] = value;
}

static uint64_t pop(struct evaluation *e) {
    if (e->depth == 0) {
        e->status = CT_ERR_BAD_FILE;
        return 0;
    }
    return e->stack[--e->depth];
}

static void pick(struct evaluation *e, uint8_t index) {
    if (index >= e->depth)
        e->status = CT_ERR_BAD_FILE;
    else
        push(e, e->stack[e->depth - 1 - index]);
}

static void push_register(struct evaluation *e, uint64_t reg) {
    uint64_t offset = (uint64_t)ct_reader_sleb(&e->code);
    if (reg >= CT_UNWIND_REGISTERS || !(e->regs->known >> reg & 1))
        e->status = CT_ERR_BAD_FILE;
    else
        push(e, e->regs->value[reg] + offset);
}

static void dereference(struct evaluation *e, uint8_t size) {
    uint64_t word = 0, address = pop(e);
    if (!e->status && (size == 0 || size > 8))
        e->status = CT_ERR_BAD_FILE;
    if (!e->status)
        e->status = e->memory->read(e->memory->arg, address, &word);
    push(e, size >= 8 ? word : word & ((UINT64_C(1) << 8 * size) - 1));
}

/* Jumps are relative to the byte after their operand. */
static void jump(struct evaluation *e, bool taken) {
    int16_t distance = (int16_t)ct_reader_u16(&e->code);
    if (!taken || e->code.bad)
        return;
    if (distance < 0 ? -distance > e->code.at - e->start : distance > e->code.end - e->code.at)
        e->status = CT_ERR_BAD_FILE;
    else
        e->code.at += distance;
}

/* Runs constants; false for other operations. */
static bool run_constant(struct evaluation *e, uint8_t op) {
    struct ct_reader *r = &e->code;
    switch (op) {
    case DW_OP_addr:
        push(e, ct_reader_u64(r) + e->bias);
        return true;
    case DW_OP_const1u:
        push(e, ct_reader_u8(r));
        return true;
    case DW_OP_const1s:
        push(e, (uint64_t)(int8_t)ct_reader_u8(r));
        return true;
    case DW_OP_const2u:
        push(e, ct_reader_u16(r));
        return true;
    case DW_OP_const2s:
        push(e, (uint64_t)(int16_t)ct_reader_u16(r));
        return true;
    case DW_OP_const4u:
        push(e, ct_reader_u32(r));
        return true;
    case DW_OP_const4s:
        push(e, (uint64_t)(int32_t)ct_reader_u32(r));
        return true;
    case DW_OP_const8u:
    case DW_OP_const8s:
        push(e, ct_reader_u64(r));
        return true;
    case DW_OP_constu:
        push(e, ct_reader_uleb(r));
        return true;
    case DW_OP_consts:
        push(e, (uint64_t)ct_reader_sleb(r));
        return true;
    default:
        if (op < DW_OP_lit0 || op > DW_OP_lit31)
            return false;
        push(e, (uint64_t)(op - DW_OP_lit0));
        return true;
    }
}

/* Runs operations on the last two values; false for others. */
static bool run_binary(struct evaluation *e, uint8_t op) {
    uint64_t b = e->depth > 0 ? e->stack[e->depth - 1] : 0, a = e->depth > 1 ? e->stack[e->depth - 2] : 0, value;
    /* clang-format off */
    switch (op) {
    case DW_OP_and: value = a & b; break;
    case DW_OP_or: value = a | b; break;
    case DW_OP_xor: value = a ^ b; break;
    case DW_OP_plus: value = a + b; break;
    case DW_OP_minus: value = a - b; break;
    case DW_OP_mul: value = a * b; break;
    case DW_OP_mod: value = b ? a % b : 0; break;
    case DW_OP_div: value = b == 0 ? 0 : b + 1 == 0 ? -a : (uint64_t)((int64_t)a / (int64_t)b); break;
    case DW_OP_shl: value = b < 64 ? a << b : 0; break;
    case DW_OP_shr: value = b < 64 ? a >> b : 0; break;
    case DW_OP_shra: value = (uint64_t)((int64_t)a >> (b < 64 ? b : 63)); break;
    case DW_OP_eq: value = a == b; break;
    case DW_OP_ne: value = a != b; break;
    case DW_OP_ge: value = (int64_t)a >= (int64_t)b; break;
    case DW_OP_gt: value = (int64_t)a > (int64_t)b; break;
    case DW_OP_le: value = (int64_t)a <= (int64_t)b; break;
    case DW_OP_lt: value = (int64_t)a < (int64_t)b; break;
    default: return false;
    }
    /* clang-format on */
    pop(e);
    pop(e);
    push(e, value);
    return true;
}

/* Runs operations that move values or change one; false for others. */
static bool run_stack(struct evaluation *e, uint8_t op) {
    uint64_t a, b, c;
    switch (op) {
    case DW_OP_dup:
        pick(e, 0);
        return true;
    case DW_OP_drop:
        pop(e);
        return true;
    case DW_OP_over:
        pick(e, 1);
        return true;
    case DW_OP_pick:
        pick(e, ct_reader_u8(&e->code));
        return true;
    case DW_OP_swap:
        a = pop(e), b = pop(e);
        push(e, a), push(e, b);
        return true;
    case DW_OP_rot:
        a = pop(e), b = pop(e), c = pop(e);
        push(e, a), push(e, c), push(e, b);
        return true;
    case DW_OP_neg:
        push(e, -pop(e));
        return true;
    case DW_OP_not:
        push(e, ~pop(e));
        return true;
    case DW_OP_abs:
        a = pop(e);
        push(e, (int64_t)a < 0 ? -a : a);
        return true;
    case DW_OP_plus_uconst:
        push(e, pop(e) + ct_reader_uleb(&e->code));
        return true;
    default:
        return false;
    }
}

static void run_rest(struct evaluation *e, uint8_t op) {
    switch (op) {
    case DW_OP_nop:
        break;
    case DW_OP_deref:
        dereference(e, 8);
        break;
    case DW_OP_deref_size:
        dereference(e, ct_reader_u8(&e->code));
        break;
    case DW_OP_skip:
        jump(e, true);
        break;
    case DW_OP_bra:
        jump(e, pop(e) != 0);
        break;
    case DW_OP_bregx:
        push_register(e, ct_reader_uleb(&e->code));
        break;
    default:
        if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
            push_register(e, (uint64_t)(op - DW_OP_breg0));
        else
            e->status = CT_ERR_BAD_FILE;
    }
}

int ct_unwind_evaluate(const uint8_t *code, const uint8_t *end, const struct ct_unwind_regs *regs, uint64_t bias,
                       const uint64_t *first, const struct ct_unwind_memory *memory, uint64_t *value) {
    struct evaluation e = {
        .code = {.at = code, .end = end}, .start = code, .regs = regs, .memory = memory, .bias = bias};
    if (first)
        push(&e, *first);
    for (unsigned steps = 0; ct_reader_left(&e.code) && !e.status; steps++) {
        uint8_t op = ct_reader_u8(&e.code);
        if (steps == MAX_STEPS)
            e.status = CT_ERR_BAD_FILE;
        else if (!run_constant(&e, op) && !run_stack(&e, op) && !run_binary(&e, op))
            run_rest(&e, op);
    }
    *value = pop(&e);
    return e.code.bad && !e.status ? CT_ERR_BAD_FILE : e.status;
}
