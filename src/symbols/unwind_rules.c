/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of all registers at a place, for unwinding. cfa.c decodes the instructions. */
#include "symbols/cfa.h"
#include "symbols/eh_frame.h"
#include "symbols/unwind.h"

#define MAX_REMEMBERED 8

struct machine {
    struct ct_unwind_row row, initial;
    struct ct_unwind_row remembered[MAX_REMEMBERED];
    unsigned remembered_count;
};

static void set_cfa(struct machine *m, uint64_t reg, uint64_t offset) {
    m->row.cfa = (struct ct_unwind_rule){.kind = CT_UNWIND_REGISTER, .offset = reg};
    m->row.cfa_offset = offset;
}

static bool apply(void *arg, const struct ct_cfa_step *step) {
    struct machine *m = arg;
    bool counts = step->reg < CT_UNWIND_REGISTERS; /* vector registers and such do not matter */
    switch (step->op) {
    case CT_CFA_SET:
        set_cfa(m, step->reg, step->value);
        break;
    case CT_CFA_SET_REGISTER:
        set_cfa(m, step->reg, m->row.cfa_offset);
        break;
    case CT_CFA_SET_OFFSET:
        set_cfa(m, m->row.cfa.offset, step->value);
        break;
    case CT_CFA_SET_EXPRESSION:
        m->row.cfa = step->rule;
        m->row.cfa_offset = 0;
        break;
    case CT_CFA_SET_RULE:
        if (counts)
            m->row.registers[step->reg] = step->rule;
        break;
    case CT_CFA_RESTORE:
        if (counts)
            m->row.registers[step->reg] = m->initial.registers[step->reg];
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

bool ct_unwind_row_at(const struct ct_fde_code *fde, uint64_t pc_offset, struct ct_unwind_row *row) {
    struct machine m; /* large: not cleared as a whole */
    m.row = (struct ct_unwind_row){.cfa = {.kind = CT_UNWIND_UNDEFINED}};
    m.initial = m.row;
    m.remembered_count = 0;
    bool known = ct_cfa_each(fde->rules, fde->initial, UINT64_MAX, apply, &m);
    m.initial = m.row;
    known = known && ct_cfa_each(fde->rules, fde->code, pc_offset, apply, &m);
    *row = m.row;
    return known && m.row.cfa.kind != CT_UNWIND_UNDEFINED;
}
