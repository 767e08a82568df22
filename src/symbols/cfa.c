/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter of call frame instructions, see cfa.h. It ends on any input: each step consumes a byte and the number of
 * steps is limited. */
#include "symbols/cfa.h"
#include "symbols/functions.h"
#include <dwarf.h>

/* Longer instruction lists are not read to the end; real ones stay below 10,000. */
#define MAX_STEPS      65536
#define MAX_REMEMBERED 16

/* ---- one instruction ---- */

struct decoder {
    const struct ct_cfa_rules *rules;
    struct ct_reader code;
};

static uint64_t factored(struct decoder *d) {
    return ct_reader_uleb(&d->code) * d->rules->data_align;
}

static uint64_t factored_signed(struct decoder *d) {
    return (uint64_t)ct_reader_sleb(&d->code) * d->rules->data_align;
}

static struct ct_unwind_rule offset_rule(enum ct_unwind_kind kind, uint64_t offset) {
    return (struct ct_unwind_rule){.kind = kind, .offset = offset};
}

static struct ct_unwind_rule expression(struct decoder *d, enum ct_unwind_kind kind) {
    uint64_t size = ct_reader_uleb(&d->code);
    const uint8_t *code = d->code.at;
    ct_reader_skip(&d->code, size);
    return (struct ct_unwind_rule){.kind = kind, .code = code, .code_end = d->code.at};
}

static bool advance(struct decoder *d, uint8_t op, struct ct_cfa_step *out) {
    switch (op) {
    case DW_CFA_advance_loc1:
        out->value = ct_reader_u8(&d->code);
        break;
    case DW_CFA_advance_loc2:
        out->value = ct_reader_u16(&d->code);
        break;
    case DW_CFA_advance_loc4:
        out->value = ct_reader_u32(&d->code);
        break;
    default:
        if ((op & 0xc0) != DW_CFA_advance_loc)
            return false;
        out->value = op & 0x3f;
    }
    out->op = CT_CFA_ADVANCE;
    out->value *= d->rules->code_align;
    return true;
}

/* Instructions about the CFA; false when it is another one. */
static bool define_cfa(struct decoder *d, uint8_t op, struct ct_cfa_step *out) {
    switch (op) {
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_sf:
        out->op = CT_CFA_SET;
        out->reg = ct_reader_uleb(&d->code);
        out->value = op == DW_CFA_def_cfa ? ct_reader_uleb(&d->code) : factored_signed(d);
        return true;
    case DW_CFA_def_cfa_register:
        out->op = CT_CFA_SET_REGISTER;
        out->reg = ct_reader_uleb(&d->code);
        return true;
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_offset_sf:
        out->op = CT_CFA_SET_OFFSET;
        out->value = op == DW_CFA_def_cfa_offset ? ct_reader_uleb(&d->code) : factored_signed(d);
        return true;
    case DW_CFA_def_cfa_expression:
        out->op = CT_CFA_SET_EXPRESSION;
        out->rule = expression(d, CT_UNWIND_EXPRESSION);
        return true;
    default:
        return false;
    }
}

/* The rule that an instruction gives a register. */
static struct ct_unwind_rule rule_of(struct decoder *d, uint8_t op) {
    switch (op) {
    case DW_CFA_offset_extended:
        return offset_rule(CT_UNWIND_AT_CFA, factored(d));
    case DW_CFA_offset_extended_sf:
        return offset_rule(CT_UNWIND_AT_CFA, factored_signed(d));
    case DW_CFA_GNU_negative_offset_extended:
        return offset_rule(CT_UNWIND_AT_CFA, -factored(d));
    case DW_CFA_val_offset:
        return offset_rule(CT_UNWIND_CFA, factored(d));
    case DW_CFA_val_offset_sf:
        return offset_rule(CT_UNWIND_CFA, factored_signed(d));
    case DW_CFA_register:
        return offset_rule(CT_UNWIND_REGISTER, ct_reader_uleb(&d->code));
    case DW_CFA_undefined:
        return offset_rule(CT_UNWIND_UNDEFINED, 0);
    case DW_CFA_expression:
        return expression(d, CT_UNWIND_AT);
    case DW_CFA_val_expression:
        return expression(d, CT_UNWIND_EXPRESSION);
    default: /* DW_CFA_same_value */
        return offset_rule(CT_UNWIND_SAME, 0);
    }
}

/* Instructions whose first operand is a register; false when it is another one. */
static bool define_register(struct decoder *d, uint8_t op, struct ct_cfa_step *out) {
    switch (op) {
    case DW_CFA_offset_extended:
    case DW_CFA_offset_extended_sf:
    case DW_CFA_GNU_negative_offset_extended:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
    case DW_CFA_register:
    case DW_CFA_undefined:
    case DW_CFA_same_value:
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        out->op = CT_CFA_SET_RULE;
        out->reg = ct_reader_uleb(&d->code);
        out->rule = rule_of(d, op);
        return true;
    case DW_CFA_restore_extended:
        out->op = CT_CFA_RESTORE;
        out->reg = ct_reader_uleb(&d->code);
        return true;
    default:
        return false;
    }
}

static enum ct_cfa_op plain_op(struct decoder *d, uint8_t op) {
    switch (op) {
    case DW_CFA_nop:
        return CT_CFA_NOTHING;
    case DW_CFA_remember_state:
        return CT_CFA_REMEMBER;
    case DW_CFA_restore_state:
        return CT_CFA_RECALL;
    case DW_CFA_GNU_args_size:
        ct_reader_uleb(&d->code);
        return CT_CFA_NOTHING;
    default:
        return CT_CFA_NOT_KNOWN; /* set_loc too: compilers for our machines do not write it */
    }
}

static struct ct_cfa_step decode(struct decoder *d) {
    struct ct_cfa_step step = {0};
    uint8_t op = ct_reader_u8(&d->code);
    if ((op & 0xc0) == DW_CFA_offset) {
        step.op = CT_CFA_SET_RULE;
        step.reg = op & 0x3f;
        step.rule = offset_rule(CT_UNWIND_AT_CFA, factored(d));
    } else if ((op & 0xc0) == DW_CFA_restore) {
        step.op = CT_CFA_RESTORE;
        step.reg = op & 0x3f;
    } else if (!advance(d, op, &step) && !define_cfa(d, op, &step) && !define_register(d, op, &step)) {
        step.op = plain_op(d, op);
    }
    return step;
}

bool ct_cfa_each(const struct ct_cfa_rules *rules, struct ct_reader code, uint64_t pc_offset,
                 bool (*apply)(void *arg, const struct ct_cfa_step *step), void *arg) {
    struct decoder d = {rules, code};
    uint64_t reached = 0;
    for (unsigned steps = 0; ct_reader_left(&d.code); steps++) {
        struct ct_cfa_step step = decode(&d);
        if (step.op == CT_CFA_NOT_KNOWN || steps == MAX_STEPS)
            return false;
        if (step.op != CT_CFA_ADVANCE) {
            if (!apply(arg, &step))
                return false;
            continue;
        }
        if (step.value > pc_offset - reached)
            break;
        reached += step.value;
    }
    return !d.code.bad;
}

/* ---- the return address ---- */

/* Only CFA and return address are tracked; rules of other registers are forgotten. */
struct machine {
    const struct ct_cfa_rules *rules;
    struct ct_cfa_row row;
    struct ct_cfa_row remembered[MAX_REMEMBERED];
    unsigned remembered_count;
};

static void set_cfa(struct machine *m, uint64_t reg, uint64_t offset) {
    m->row.cfa = CT_CFA_REGISTER;
    m->row.cfa_register = reg;
    m->row.cfa_offset = offset;
}

static void set_ra(struct machine *m, const struct ct_unwind_rule *rule) {
    bool at_cfa = rule->kind == CT_UNWIND_AT_CFA;
    m->row.ra = at_cfa ? CT_RA_AT_CFA : rule->kind == CT_UNWIND_UNDEFINED ? CT_RA_UNDEFINED : CT_RA_OTHER;
    m->row.ra_offset = at_cfa ? rule->offset : 0;
}

static bool apply_to_ra(void *arg, const struct ct_cfa_step *step) {
    struct machine *m = arg;
    bool ra = step->reg == m->rules->ra_register;
    switch (step->op) {
    case CT_CFA_SET:
        set_cfa(m, step->reg, step->value);
        break;
    case CT_CFA_SET_REGISTER:
        set_cfa(m, step->reg, m->row.cfa_offset);
        break;
    case CT_CFA_SET_OFFSET:
        set_cfa(m, m->row.cfa_register, step->value);
        break;
    case CT_CFA_SET_EXPRESSION:
        m->row.cfa = CT_CFA_EXPRESSION;
        break;
    case CT_CFA_SET_RULE:
        if (ra)
            set_ra(m, &step->rule);
        break;
    case CT_CFA_RESTORE:
        m->row.ra = ra ? m->rules->initial.ra : m->row.ra;
        m->row.ra_offset = ra ? m->rules->initial.ra_offset : m->row.ra_offset;
        break;
    case CT_CFA_REMEMBER:
        if (m->remembered_count == MAX_REMEMBERED)
            return false;
        m->remembered[m->remembered_count++] = m->row;
        break;
    case CT_CFA_RECALL:
        if (m->remembered_count == 0)
            return false;
        m->row = m->remembered[--m->remembered_count];
        break;
    default:
        break;
    }
    return true;
}

void ct_cfa_run(const struct ct_cfa_rules *rules, struct ct_reader code, uint64_t pc_offset, struct ct_cfa_row *row) {
    /* The usual case: nothing changes before the first instruction has run. */
    if (pc_offset == 0 && ct_reader_left(&code) && (*code.at & 0xc0) == DW_CFA_advance_loc && (*code.at & 0x3f))
        return;
    struct machine m = {.rules = rules, .row = *row};
    if (!ct_cfa_each(rules, code, pc_offset, apply_to_ra, &m))
        m.row.cfa = CT_CFA_UNKNOWN;
    *row = m.row;
}

uint32_t ct_cfa_entry_flags(const struct ct_cfa_rules *rules, const struct ct_cfa_row *row) {
    const struct ct_machine *machine = rules->machine;
    uint32_t flags = 0;
    if (row->cfa != CT_CFA_REGISTER || row->cfa_register != machine->dwarf_sp ||
        row->cfa_offset != (uint64_t)machine->cfa_offset || rules->ra_register != machine->dwarf_ra)
        flags |= CT_FUNC_ODD_ENTRY;
    if (row->ra == CT_RA_UNDEFINED)
        flags |= CT_FUNC_NO_RETURN_ADDRESS;
    else if (machine->ra_offset ? row->ra != CT_RA_AT_CFA || row->ra_offset != (uint64_t)(int64_t)machine->ra_offset
                                : row->ra != CT_RA_UNSPECIFIED)
        flags |= CT_FUNC_ODD_ENTRY;
    return flags;
}
