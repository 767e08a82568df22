/* SPDX-License-Identifier: Apache-2.0 */
/* The debug entries of a struct ct_lines. Private to src/symbols/lines*.c and parameters*.c. */
#ifndef CT_SYMBOLS_LINES_TREE_H
#define CT_SYMBOLS_LINES_TREE_H

#include "isa/machine.h"
#include "symbols/dw.h"
#include "symbols/lines.h"

/* The function that begins at the offset, and its compilation unit. */
bool ct_lines_subprogram(struct ct_lines *lines, uint64_t offset, Dwarf_Die *die, Dwarf_Die *unit);

/* The machine that the file is for; NULL: none that is known. */
const struct ct_machine *ct_lines_machine(const struct ct_lines *lines);

#endif
