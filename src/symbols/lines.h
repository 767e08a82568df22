/* What DWARF tells of a module's code: source lines, and which functions were inlined where.
 *
 * Read with elfutils' libdw, which is loaded when it is first needed: recording never does, and a machine without it can do
 * everything else. DWARF 2 to 5, compressed sections, files shared by dwz, split DWARF as far as the .dwo files are where the
 * program says. One thread uses a struct ct_lines at a time. */
#ifndef CT_SYMBOLS_LINES_H
#define CT_SYMBOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_lines;

/* The file that holds the debug sections: the module itself or its debug file. CT_ERR_NOT_FOUND: there are none in it;
 * CT_ERR_UNSUPPORTED: libdw is not on this machine. */
int ct_lines_open(struct ct_lines **out, const char *path);
void ct_lines_close(struct ct_lines *lines);

/* "file:line" of the function that begins at an offset (virtual address in the file's numbering); false when not known. */
bool ct_lines_find(struct ct_lines *lines, uint64_t offset, char *text, size_t size);

/* The same for an instruction in the middle of a function, which may be one of what was inlined there. */
bool ct_lines_at(struct ct_lines *lines, uint64_t offset, char *text, size_t size);

/* Linkage names of the functions that were inlined into the one that begins at the offset, each once, in the order of the
 * debug information, separated by tabs. Those that do not fit are left out. Returns how many there are in `text`. */
size_t ct_lines_inlines(struct ct_lines *lines, uint64_t offset, char *text, size_t size);

/* The inlined functions that an address is inside of, innermost first. `call` is where it was inlined, "file:line" or "". */
void ct_lines_inlined_at(struct ct_lines *lines, uint64_t offset,
                         void (*each)(void *arg, const char *name, const char *call), void *arg);

/* Units whose .dwo file is missing: their lines are known, what was inlined is not. */
size_t ct_lines_missing_units(const struct ct_lines *lines);

#endif
