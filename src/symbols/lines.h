/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF of a module's code: source lines, and which functions were inlined where.
 *
 * Read with elfutils' libdw, which is loaded when it is first needed: recording never needs it, and everything else
 * works on a machine without it. Supports DWARF 2 to 5, compressed sections, files shared by dwz, and split DWARF if
 * the .dwo files are where the program says. One thread uses a struct ct_lines at a time. */
#ifndef CT_SYMBOLS_LINES_H
#define CT_SYMBOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_lines;

/* Opens the file with the debug sections: the module itself or its debug file. CT_ERR_NOT_FOUND: it has none;
 * CT_ERR_UNSUPPORTED: libdw is not installed. */
int ct_lines_open(struct ct_lines **out, const char *path);
void ct_lines_close(struct ct_lines *lines);

/* "file:line" of the function that begins at an offset (virtual address in the file's numbering); false when not
 * known. */
bool ct_lines_find(struct ct_lines *lines, uint64_t offset, char *text, size_t size);

/* "file:line" of an instruction in the middle of a function, which may belong to a function inlined there. */
bool ct_lines_at(struct ct_lines *lines, uint64_t offset, char *text, size_t size);

/* Linkage names of the functions that were inlined into the one that begins at the offset, each once, in the order of
 * the debug information, separated by tabs. Leaves out those that do not fit. Returns their number in `text`. */
size_t ct_lines_inlines(struct ct_lines *lines, uint64_t offset, char *text, size_t size);

/* Calls `each` for the inlined functions that contain an address, innermost first. `call` is where the function was
 * inlined, "file:line" or "". */
void ct_lines_inlined_at(struct ct_lines *lines, uint64_t offset,
                         void (*each)(void *arg, const char *name, const char *call), void *arg);

/* Number of units whose .dwo file is missing: their lines are known, inlined functions are not. */
size_t ct_lines_missing_units(const struct ct_lines *lines);

#endif
