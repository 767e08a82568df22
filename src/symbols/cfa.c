/* Interpreter of call frame instructions, see cfa.h.
 *
 * Tracks only the CFA and the return address; rules of other registers are decoded and dropped. It ends on any input:
 * each step consumes a byte, and the number of steps is limited. */
#include "symbols/cfa.h"
#include "symbols/functions.h"
#include <dwarf.h>

/* Longer instruction lists are not read to the end; real ones stay below 10,000. */
#define MAX_STEPS      65536
#define MAX_REMEMBERED 16

struct machine {
    const struct ct_cfa_rules *rules;
    struct ct_reader code;
    struct ct_cfa_row row;
    struct ct_cfa_row remembered[MAX_REMEMBERED];
    unsigned remembered_count;
    uint64_t pc_offset; /* of the row */
    bool unknown;
};

static uint64_t factored(struct machine *m) {
    return ct_reader_uleb(&m->code) * m->rules->data_align;
}

static uint64_t factored_signed(struct machine *m) {
    return (uint64_t)ct_reader_sleb(&m->code) * m->rules->data_align;
}

static void set_ra(struct machine *m, uint64_t reg, enum ct_ra_kind kind, uint64_t offset) {
    if (reg != m->rules->ra_register)
        return;
    m->row.ra = kind;
    m->row.ra_offset = offset;
}

static void restore_ra(struct machine *m, uint64_t reg) {
    set_ra(m, reg, m->rules->initial.ra, m->rules->initial.ra_offset);
}

static void set_cfa(struct machine *m, uint64_t reg, uint64_t offset) {
    m->row.cfa = CT_CFA_REGISTER;
    m->row.cfa_register = reg;
    m->row.cfa_offset = offset;
}

static void remember(struct machine *m) {
    if (m->remembered_count == MAX_REMEMBERED)
        m->unknown = true;
    else
        m->remembered[m->remembered_count++] = m->row;
}

static void recall(struct machine *m) {
    if (m->remembered_count == 0)
        m->unknown = true;
    else
        m->row = m->remembered[--m->remembered_count];
}

static void skip_block(struct machine *m) {
    ct_reader_skip(&m->code, ct_reader_uleb(&m->code));
}

/* Runs instructions about the CFA; false for others. */
static bool run_cfa(struct machine *m, uint8_t op) {
    uint64_t reg = m->row.cfa_register;
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
        skip_block(m);
        m->row.cfa = CT_CFA_EXPRESSION;
        return true;
    default:
        return false;
    }
}

/* Runs instructions about one register; false for others. */
static bool run_register(struct machine *m, uint8_t op) {
    if (op < DW_CFA_offset_extended || op > DW_CFA_GNU_negative_offset_extended)
        return false;
    struct ct_reader before = m->code;
    uint64_t reg = ct_reader_uleb(&m->code);
    switch (op) {
    case DW_CFA_offset_extended:
        set_ra(m, reg, CT_RA_AT_CFA, factored(m));
        return true;
    case DW_CFA_offset_extended_sf:
        set_ra(m, reg, CT_RA_AT_CFA, factored_signed(m));
        return true;
    case DW_CFA_GNU_negative_offset_extended:
        set_ra(m, reg, CT_RA_AT_CFA, -factored(m));
        return true;
    case DW_CFA_restore_extended:
        restore_ra(m, reg);
        return true;
    case DW_CFA_undefined:
        set_ra(m, reg, CT_RA_UNDEFINED, 0);
        return true;
    case DW_CFA_same_value:
        set_ra(m, reg, CT_RA_OTHER, 0);
        return true;
    case DW_CFA_register:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
        ct_reader_uleb(&m->code);
        set_ra(m, reg, CT_RA_OTHER, 0);
        return true;
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        skip_block(m);
        set_ra(m, reg, CT_RA_OTHER, 0);
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
        remember(m);
        break;
    case DW_CFA_restore_state:
        recall(m);
        break;
    case DW_CFA_GNU_args_size:
        ct_reader_uleb(&m->code);
        break;
    default:
        m->unknown = true;
    }
}

bool ct_cfa_advance(const struct ct_cfa_rules *rules, struct ct_reader *code, uint8_t op, uint64_t *delta) {
    switch (op) {
    case DW_CFA_advance_loc1:
        *delta = ct_reader_u8(code) * rules->code_align;
        return true;
    case DW_CFA_advance_loc2:
        *delta = ct_reader_u16(code) * rules->code_align;
        return true;
    case DW_CFA_advance_loc4:
        *delta = ct_reader_u32(code) * rules->code_align;
        return true;
    default:
        *delta = (op & 0x3f) * rules->code_align;
        return (op & 0xc0) == DW_CFA_advance_loc;
    }
}

static void step(struct machine *m, uint8_t op) {
    uint8_t low = op & 0x3f;
    switch (op & 0xc0) {
    case DW_CFA_offset:
        set_ra(m, low, CT_RA_AT_CFA, factored(m));
        break;
    case DW_CFA_restore:
        restore_ra(m, low);
        break;
    default:
        if (!run_cfa(m, op) && !run_register(m, op))
            run_rest(m, op);
    }
}

void ct_cfa_run(const struct ct_cfa_rules *rules, struct ct_reader code, uint64_t pc_offset, struct ct_cfa_row *row) {
    /* The usual case: nothing changes before the first instruction has run. */
    if (pc_offset == 0 && ct_reader_left(&code) && (*code.at & 0xc0) == DW_CFA_advance_loc && (*code.at & 0x3f))
        return;
    struct machine m = {.rules = rules, .code = code, .row = *row};
    uint64_t delta;
    for (unsigned steps = 0; ct_reader_left(&m.code) && !m.unknown; steps++) {
        if (steps == MAX_STEPS)
            m.unknown = true;
        uint8_t op = ct_reader_u8(&m.code);
        if (!ct_cfa_advance(rules, &m.code, op, &delta))
            step(&m, op);
        else if (delta > pc_offset - m.pc_offset)
            break;
        else
            m.pc_offset += delta;
    }
    if (m.unknown || m.code.bad)
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
