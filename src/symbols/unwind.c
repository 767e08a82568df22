/* SPDX-License-Identifier: Apache-2.0 */
/* Unwind tables: find the FDE that covers an address, and apply its rules to the registers. See unwind.h. */
#include "symbols/unwind.h"
#include "base/grow.h"
#include "symbols/cfa.h"
#include "symbols/eh_frame.h"
#include <contrail/status.h>
#include <stdlib.h>

struct range {
    uint64_t start, end;
    uint32_t place;
};

struct ct_unwind {
    struct ct_elf elf;
    struct ct_eh_frame frame;
    struct range *ranges; /* by start */
    size_t count, capacity;
};

/* ---- opening ---- */

static int add_range(void *arg, const struct ct_fde *fde) {
    struct ct_unwind *table = arg;
    if (!ct_grow(&table->ranges, &table->capacity, table->count, sizeof *table->ranges, 256))
        return CT_ERR_NO_MEMORY;
    table->ranges[table->count++] = (struct range){fde->start, fde->start + fde->size, fde->place};
    return 0;
}

static int by_start(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

int ct_unwind_open(struct ct_unwind **out, const void *image, size_t size) {
    struct ct_unwind *table = calloc(1, sizeof *table);
    if (!table)
        return CT_ERR_NO_MEMORY;
    int status = ct_elf_open_host(&table->elf, image, size);
    if (!status)
        status = ct_eh_frame_open(&table->frame, &table->elf);
    if (!status)
        status = ct_eh_frame_each(&table->frame, add_range, table);
    if (status) {
        ct_unwind_close(table);
        return status;
    }
    if (table->count)
        qsort(table->ranges, table->count, sizeof *table->ranges, by_start);
    *out = table;
    return 0;
}

void ct_unwind_close(struct ct_unwind *table) {
    if (!table)
        return;
    ct_eh_frame_close(&table->frame);
    free(table->ranges);
    free(table);
}

/* ---- lookup ---- */

static const struct range *find_range(const struct ct_unwind *table, uint64_t offset) {
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->ranges[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low && offset < table->ranges[low - 1].end ? &table->ranges[low - 1] : NULL;
}

bool ct_unwind_covers(const struct ct_unwind *table, uint64_t offset) {
    return find_range(table, offset) != NULL;
}

/* ---- stepping ---- */

struct frame {
    const struct ct_unwind_regs *regs; /* of the callee */
    const struct ct_unwind_memory *memory;
    uint64_t bias, cfa;
};

static bool is_known(const struct ct_unwind_regs *regs, uint64_t reg) {
    return reg < CT_UNWIND_REGISTERS && (regs->known >> reg & 1);
}

static int find_cfa(struct frame *f, const struct ct_unwind_row *row) {
    if (row->cfa.kind == CT_UNWIND_EXPRESSION)
        return ct_unwind_evaluate(row->cfa.code, row->cfa.code_end, f->regs, f->bias, NULL, f->memory, &f->cfa);
    if (!is_known(f->regs, row->cfa.offset))
        return CT_ERR_BAD_FILE;
    f->cfa = f->regs->value[row->cfa.offset] + row->cfa_offset;
    return 0;
}

/* The caller's value of one register. *place: where it was stored, or 0. */
static int apply_rule(const struct frame *f, const struct ct_unwind_rule *rule, unsigned reg, uint64_t *value,
                      uint64_t *place) {
    uint64_t from = rule->kind == CT_UNWIND_REGISTER ? rule->offset : reg;
    int status = 0;
    *place = 0;
    switch (rule->kind) {
    case CT_UNWIND_SAME:
    case CT_UNWIND_REGISTER:
        if (!is_known(f->regs, from))
            return CT_ERR_NOT_FOUND;
        *value = f->regs->value[from];
        return 0;
    case CT_UNWIND_UNDEFINED:
        return CT_ERR_NOT_FOUND;
    case CT_UNWIND_CFA:
        *value = f->cfa + rule->offset;
        return 0;
    case CT_UNWIND_EXPRESSION:
        return ct_unwind_evaluate(rule->code, rule->code_end, f->regs, f->bias, &f->cfa, f->memory, value);
    case CT_UNWIND_AT_CFA:
        *place = f->cfa + rule->offset;
        break;
    case CT_UNWIND_AT:
        status = ct_unwind_evaluate(rule->code, rule->code_end, f->regs, f->bias, &f->cfa, f->memory, place);
        break;
    }
    return status ? status : f->memory->read(f->memory->arg, *place, value);
}

static int apply_row(const struct frame *f, const struct ct_machine *machine, unsigned ra,
                     const struct ct_unwind_row *row, struct ct_unwind_regs *caller, struct ct_unwind_result *result) {
    uint64_t place;
    caller->known = 0;
    for (unsigned reg = 0; reg < CT_UNWIND_REGISTERS; reg++) {
        if (reg == ra || (reg == machine->dwarf_sp && row->registers[reg].kind == CT_UNWIND_SAME))
            continue;
        if (apply_rule(f, &row->registers[reg], reg, &caller->value[reg], &place) == 0)
            caller->known |= UINT64_C(1) << reg;
    }
    if (row->registers[machine->dwarf_sp].kind == CT_UNWIND_SAME) {
        caller->value[machine->dwarf_sp] = f->cfa;
        caller->known |= UINT64_C(1) << machine->dwarf_sp;
    }
    result->outermost = row->registers[ra].kind == CT_UNWIND_UNDEFINED;
    if (result->outermost)
        return 0;
    int status = apply_rule(f, &row->registers[ra], ra, &caller->value[machine->dwarf_ra], &result->return_slot);
    caller->known |= UINT64_C(1) << machine->dwarf_ra;
    return status;
}

int ct_unwind_step(const struct ct_unwind *table, uint64_t bias, uint64_t offset, struct ct_unwind_regs *regs,
                   const struct ct_unwind_memory *memory, struct ct_unwind_result *result) {
    const struct range *range = find_range(table, offset);
    struct ct_fde_code fde = {0};
    struct ct_unwind_row row;
    if (!range)
        return CT_ERR_NOT_FOUND;
    if (!ct_eh_frame_code_at(&table->frame, range->place, &fde) ||
        !ct_unwind_row_at(&fde, offset - range->start, &row) || fde.rules->ra_register >= CT_UNWIND_REGISTERS)
        return CT_ERR_BAD_FILE;
    struct frame f = {.regs = regs, .memory = memory, .bias = bias};
    struct ct_unwind_regs caller;
    *result = (struct ct_unwind_result){.signal_frame = fde.signal_frame};
    int status = find_cfa(&f, &row);
    if (!status)
        status = apply_row(&f, table->elf.machine, (unsigned)fde.rules->ra_register, &row, &caller, result);
    if (!status)
        *regs = caller;
    return status;
}
