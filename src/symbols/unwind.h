/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinding by .eh_frame: from the registers of a frame to those of its caller.
 *
 * Bytes to bytes: memory is read through a callback, so the stack may be that of another process, or a copy. Nothing in
 * the file or in that memory is trusted: damaged tables give an error, never a crash or an endless loop. A table is
 * immutable once opened and may be used by any thread. */
#ifndef CT_SYMBOLS_UNWIND_H
#define CT_SYMBOLS_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers by their DWARF numbers, as far as call frame information uses them. */
enum { CT_UNWIND_REGISTERS = 34 };
struct ct_unwind_regs {
    uint64_t value[CT_UNWIND_REGISTERS];
    uint64_t known; /* bit by number */
};

struct ct_unwind_memory {
    int (*read)(void *arg, uint64_t address, uint64_t *word); /* 0, or a negative status */
    void *arg;
};

struct ct_unwind_result {
    uint64_t return_slot; /* where the return address was stored; 0: not in memory */
    bool outermost;       /* there is no caller */
    bool signal_frame;    /* the caller was interrupted: its pc is not a return address */
};

struct ct_unwind;

/* Opens a table from a file's bytes, which must live as long as the table. CT_ERR_NOT_FOUND: the file has no
 * .eh_frame. */
int ct_unwind_open(struct ct_unwind **out, const void *image, size_t size);
void ct_unwind_close(struct ct_unwind *table);

/* True when some FDE covers the address (in the file's numbering). */
bool ct_unwind_covers(const struct ct_unwind *table, uint64_t offset);

/* Replaces the registers by those of the caller; its pc is in the machine's return address register (x86_64: 16).
 * `offset` is the address to look up: pc - bias, or one less when pc is a return address. CT_ERR_NOT_FOUND: no FDE;
 * CT_ERR_BAD_FILE: not understood; or what reading memory returned. Errors change nothing. */
int ct_unwind_step(const struct ct_unwind *table, uint64_t bias, uint64_t offset, struct ct_unwind_regs *regs,
                   const struct ct_unwind_memory *memory, struct ct_unwind_result *result);

/* ---- parts (unwind_rules.c, unwind_expression.c) ---- */

struct ct_fde_code;
struct ct_reader;

enum ct_unwind_kind {
    CT_UNWIND_SAME, /* also when no rule is given */
    CT_UNWIND_UNDEFINED,
    CT_UNWIND_AT_CFA,    /* stored at CFA + offset */
    CT_UNWIND_CFA,       /* is CFA + offset */
    CT_UNWIND_REGISTER,  /* is in register `offset` */
    CT_UNWIND_AT,        /* stored at the expression's value */
    CT_UNWIND_EXPRESSION /* is the expression's value */
};
struct ct_unwind_rule {
    enum ct_unwind_kind kind;
    uint64_t offset;
    const uint8_t *code, *code_end; /* of an expression */
};
struct ct_unwind_row {
    struct ct_unwind_rule cfa; /* REGISTER: `offset` is the register, cfa_offset is added; or EXPRESSION */
    uint64_t cfa_offset;
    struct ct_unwind_rule registers[CT_UNWIND_REGISTERS];
};

/* The row that applies at `pc_offset` bytes into the FDE's range. False: not understood. */
bool ct_unwind_row_at(const struct ct_fde_code *fde, uint64_t pc_offset, struct ct_unwind_row *row);

/* Evaluates a DWARF expression; `first`, if not NULL, is pushed before. Returns CT_ERR_BAD_FILE, or what reading memory
 * returned. */
int ct_unwind_evaluate(const uint8_t *code, const uint8_t *end, const struct ct_unwind_regs *regs, uint64_t bias,
                       const uint64_t *first, const struct ct_unwind_memory *memory, uint64_t *value);

#endif
