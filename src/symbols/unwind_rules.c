/* Interpreter of call frame instructions that keeps the rules of all registers, for unwinding. (cfa.c is a smaller one,
 * which runs once for every function of a file.) It ends on any input: each step consumes a byte. */
#include "symbols/cfa.h"
#include "symbols/eh_frame.h"
#include "symbols/unwind.h"
#include <dwarf.h>

#define MAX_STEPS      65536
#define MAX_REMEMBERED 8

struct machine {
    const struct ct_cfa_rules *rules;
    struct ct_reader code;
    struct ct_unwind_row row, initial;
    struct ct_unwind_row remembered[MAX_REMEMBERED];
    unsigned remembered_count;
    uint64_t pc_offset;
    bool unknown;
};

static void set(struct machine *m, uint64_t reg, struct ct_unwind_rule rule) {
    if (reg < CT_UNWIND_REGISTERS) /* vector registers and such do not matter */
        m->row.registers[reg] = rule;
}

static void set_offset(struct machine *m, uint64_t reg, enum ct_unwind_kind kind, uint64_t offset) {
    set(m, reg, (struct ct_unwind_rule){.kind = kind, .offset = offset});
}

static uint64_t factored(struct machine *m) {
    return ct_reader_uleb(&m->code) * m->rules->data_align;
}

static uint64_t factored_signed(struct machine *m) {
    return (uint64_t)ct_reader_sleb(&m->code) * m->rules->data_align;
}

static struct ct_unwind_rule expression(struct machine *m, enum ct_unwind_kind kind) {
    uint64_t size = ct_reader_uleb(&m->code);
    const uint8_t *code = m->code.at;
    ct_reader_skip(&m->code, size);
    return (struct ct_unwind_rule){.kind = kind, .code = code, .code_end = m->code.at};
}

static void restore(struct machine *m, uint64_t reg) {
    if (reg < CT_UNWIND_REGISTERS)
        m->row.registers[reg] = m->initial.registers[reg];
}

static void set_cfa(struct machine *m, uint64_t reg, uint64_t offset) {
    m->row.cfa = (struct ct_unwind_rule){.kind = CT_UNWIND_REGISTER, .offset = reg};
    m->row.cfa_offset = offset;
}

/* Runs instructions about the CFA; false for others. */
static bool run_cfa(struct machine *m, uint8_t op) {
    uint64_t reg = m->row.cfa.offset;
    switch (op) {
    case DW_CFA_def_cfa:
        reg = ct_reader_uleb(&m->code);
        set_cfa(m, reg, ct_reader_uleb(&m->code));
        return true;
    case DW_CFA_def_cfa_sf:
        reg = ct_reader_uleb(&m->code);
        set_cfa(m, reg, factored_signed(m));
        return true;
    case DW_CFA_def_cfa_register:
        set_cfa(m, ct_reader_uleb(&m->code), m->row.cfa_offset);
        return true;
    case DW_CFA_def_cfa_offset:
        set_cfa(m, reg, ct_reader_uleb(&m->code));
        return true;
    case DW_CFA_def_cfa_offset_sf:
        set_cfa(m, reg, factored_signed(m));
        return true;
    case DW_CFA_def_cfa_expression:
        m->row.cfa = expression(m, CT_UNWIND_EXPRESSION);
        m->row.cfa_offset = 0;
        return true;
    default:
        return false;
    }
}

/* Runs instructions whose first operand is a register; false for others. */
static bool run_register(struct machine *m, uint8_t op) {
    struct ct_reader before = m->code;
    uint64_t reg = ct_reader_uleb(&m->code);
    switch (op) {
    case DW_CFA_offset_extended:
        set_offset(m, reg, CT_UNWIND_AT_CFA, factored(m));
        return true;
    case DW_CFA_offset_extended_sf:
        set_offset(m, reg, CT_UNWIND_AT_CFA, factored_signed(m));
        return true;
    case DW_CFA_GNU_negative_offset_extended:
        set_offset(m, reg, CT_UNWIND_AT_CFA, -factored(m));
        return true;
    case DW_CFA_val_offset:
        set_offset(m, reg, CT_UNWIND_CFA, factored(m));
        return true;
    case DW_CFA_val_offset_sf:
        set_offset(m, reg, CT_UNWIND_CFA, factored_signed(m));
        return true;
    case DW_CFA_register:
        set_offset(m, reg, CT_UNWIND_REGISTER, ct_reader_uleb(&m->code));
        return true;
    case DW_CFA_undefined:
        set_offset(m, reg, CT_UNWIND_UNDEFINED, 0);
        return true;
    case DW_CFA_same_value:
        set_offset(m, reg, CT_UNWIND_SAME, 0);
        return true;
    case DW_CFA_restore_extended:
        restore(m, reg);
        return true;
    case DW_CFA_expression:
        set(m, reg, expression(m, CT_UNWIND_AT));
        return true;
    case DW_CFA_val_expression:
        set(m, reg, expression(m, CT_UNWIND_EXPRESSION));
        return true;
    default:
        m->code = before;
        return false;
    }
}

static void run_rest(struct machine *m, uint8_t op) {
    switch (op) {
    case DW_CFA_nop:
        break;
    case DW_CFA_remember_state:
        if (m->remembered_count == MAX_REMEMBERED)
            m->unknown = true;
        else
            m->remembered[m->remembered_count++] = m->row;
        break;
    case DW_CFA_restore_state:
        if (m->remembered_count == 0)
            m->unknown = true;
        else
            m->row = m->remembered[--m->remembered_count];
        break;
    case DW_CFA_GNU_args_size:
        ct_reader_uleb(&m->code);
        break;
    default:
        m->unknown = true;
    }
}

static void step(struct machine *m, uint8_t op) {
    switch (op & 0xc0) {
    case DW_CFA_offset:
        set_offset(m, op & 0x3f, CT_UNWIND_AT_CFA, factored(m));
        break;
    case DW_CFA_restore:
        restore(m, op & 0x3f);
        break;
    default:
        if (!run_cfa(m, op) && !run_register(m, op))
            run_rest(m, op);
    }
}

static void run(struct machine *m, struct ct_reader code, uint64_t pc_offset) {
    uint64_t delta;
    m->code = code;
    for (unsigned steps = 0; ct_reader_left(&m->code) && !m->unknown; steps++) {
        if (steps == MAX_STEPS)
            m->unknown = true;
        uint8_t op = ct_reader_u8(&m->code);
        if (!ct_cfa_advance(m->rules, &m->code, op, &delta))
            step(m, op);
        else if (delta > pc_offset - m->pc_offset)
            break;
        else
            m->pc_offset += delta;
    }
    m->unknown |= m->code.bad;
}

bool ct_unwind_row_at(const struct ct_fde_code *fde, uint64_t pc_offset, struct ct_unwind_row *row) {
    struct machine m; /* large: not cleared as a whole */
    m.rules = fde->rules;
    m.row = (struct ct_unwind_row){.cfa = {.kind = CT_UNWIND_UNDEFINED}};
    m.initial = m.row;
    m.remembered_count = 0;
    m.unknown = false;
    m.pc_offset = 0;
    run(&m, fde->initial, UINT64_MAX);
    m.initial = m.row;
    m.pc_offset = 0;
    if (!m.unknown)
        run(&m, fde->code, pc_offset);
    *row = m.row;
    return !m.unknown && m.row.cfa.kind != CT_UNWIND_UNDEFINED;
}
