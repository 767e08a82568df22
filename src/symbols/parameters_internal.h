/* SPDX-License-Identifier: Apache-2.0 */
/* What parameters*.c share. */
#ifndef CT_SYMBOLS_PARAMETERS_INTERNAL_H
#define CT_SYMBOLS_PARAMETERS_INTERNAL_H

#include "symbols/lines_tree.h"
#include "symbols/parameters.h"

struct ct_parameters_block;
struct ct_parameters_entry;

struct ct_parameters {
    const struct ct_machine *machine;
    const struct ct_convention *convention;
    const struct ct_dw *dw;
    struct ct_lines *lines;
    struct ct_parameters_block *blocks; /* memory of signatures and types */
    size_t left;                        /* free bytes in the first block */
    struct ct_parameters_entry **table; /* by offset */
    size_t entry_count;
    unsigned nodes; /* types that the current signature may still use */
};

/* Zeroed memory that lives until ct_parameters_close. NULL: none left. */
void *ct_parameters_memory(struct ct_parameters *p, size_t size);
/* The type of everything that is not understood. */
extern const struct ct_type ct_type_unknown;
/* The type that an entry's DW_AT_type refers to; void when it has none. Never NULL: a type that is not understood is
 * CT_TYPE_UNKNOWN. `cxx`: structures may be of the kind that is passed by reference. */
const struct ct_type *ct_parameters_type(struct ct_parameters *p, Dwarf_Die *die, bool cxx, unsigned depth);

#endif
