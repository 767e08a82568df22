/* SPDX-License-Identifier: Apache-2.0 */
/* Call frame instructions, as far as hooks need them: where the return address is at a given point of a function. */
#ifndef CT_SYMBOLS_CFA_H
#define CT_SYMBOLS_CFA_H

#include "symbols/elf_image.h"
#include "symbols/unwind.h"

enum ct_cfa_kind { CT_CFA_UNKNOWN, CT_CFA_REGISTER, CT_CFA_EXPRESSION };
enum ct_ra_kind { CT_RA_UNSPECIFIED, CT_RA_AT_CFA, CT_RA_UNDEFINED, CT_RA_OTHER };

/* One row of the unwind table, reduced to the canonical frame address and the return address. */
struct ct_cfa_row {
    enum ct_cfa_kind cfa;
    enum ct_ra_kind ra;
    uint64_t cfa_register;
    uint64_t cfa_offset;
    uint64_t ra_offset; /* CT_RA_AT_CFA: stored at CFA + this */
};

/* What instructions need to know of their CIE. */
struct ct_cfa_rules {
    const struct ct_machine *machine;
    uint64_t code_align;
    uint64_t data_align; /* two's complement */
    uint64_t ra_register;
    uint8_t encoding;          /* of addresses: DW_EH_PE_* */
    struct ct_cfa_row initial; /* after the CIE's own instructions */
};

/* Runs instructions from the first byte of a function (pc_offset 0) up to the last one that applies `pc_offset` bytes
 * into it. `row` is the state before, and receives the state there. Damaged or unknown instructions leave
 * CT_CFA_UNKNOWN. */
void ct_cfa_run(const struct ct_cfa_rules *rules, struct ct_reader code, uint64_t pc_offset, struct ct_cfa_row *row);

/* One instruction, decoded. */
enum ct_cfa_op {
    CT_CFA_NOTHING,
    CT_CFA_ADVANCE,        /* `value` bytes of code */
    CT_CFA_SET,            /* the CFA is register `reg` plus `value` */
    CT_CFA_SET_REGISTER,   /* another register, the offset stays */
    CT_CFA_SET_OFFSET,     /* another offset, the register stays */
    CT_CFA_SET_EXPRESSION, /* it is what the expression of `rule` says */
    CT_CFA_SET_RULE,       /* of register `reg` */
    CT_CFA_RESTORE,        /* the rule of register `reg` is what the CIE says */
    CT_CFA_REMEMBER,       /* all rules, */
    CT_CFA_RECALL,         /* and back */
    CT_CFA_NOT_KNOWN
};
struct ct_cfa_step {
    enum ct_cfa_op op;
    uint64_t reg, value;
    struct ct_unwind_rule rule;
};

/* Decodes instructions up to the last that still applies at `pc_offset`, and calls `apply` for each that does not move
 * on. False: `apply` returned false, or an instruction is damaged or not known. */
bool ct_cfa_each(const struct ct_cfa_rules *rules, struct ct_reader code, uint64_t pc_offset,
                 bool (*apply)(void *arg, const struct ct_cfa_step *step), void *arg);

/* CT_FUNC_ODD_ENTRY and CT_FUNC_NO_RETURN_ADDRESS, as they apply to a function that begins in this state. */
uint32_t ct_cfa_entry_flags(const struct ct_cfa_rules *rules, const struct ct_cfa_row *row);

#endif
