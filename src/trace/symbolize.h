/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in the `symbols` file of a recorded process: names that were missing, source lines, inlined functions.
 *
 * The file is replaced as a whole, by one that differs only in these columns: unknown lines and columns stay as they
 * are. */
#ifndef CT_TRACE_SYMBOLIZE_H
#define CT_TRACE_SYMBOLIZE_H

#include "symbols/lookup.h"

struct ct_symbolize_module {
    uint32_t id;
    const char *path, *build_id;
    const char *file;      /* where its symbols were found, "" */
    const char *line_file; /* where its lines were found, "" */
    const char *problem;   /* part of a sentence, "": none */
    enum ct_lookup_state state;
    uint64_t functions, named_before, named, lines, inlines;
};

struct ct_symbolize_totals {
    uint64_t modules, modules_found;
    uint64_t functions;
    uint64_t named_before, named; /* with a name before, and now */
    uint64_t lines;               /* with a source line */
    uint64_t inlines;             /* with functions inlined into them */
};

/* Calls `each` for every module at the end. CT_ERR_NOT_FOUND: there is no such file; CT_ERR_BAD_FILE: it is not a
 * symbols file; others for failed writes. On failure the old file stays. */
int ct_symbolize(const char *directory, struct ct_lookup *lookup, struct ct_symbolize_totals *totals,
                 void (*each)(void *arg, const struct ct_symbolize_module *module), void *arg);

#endif
