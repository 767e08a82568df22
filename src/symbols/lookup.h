/* SPDX-License-Identifier: Apache-2.0 */
/* Names, source lines and inlined functions of modules of which only path and build-id are known: those of a trace, on
 * any machine.
 *
 * Finds the module's file, or its debug file alone, and accepts it only when its build-id matches. A few modules are
 * open at a time; results are cached (lookup_cache.h). One owner. */
#ifndef CT_SYMBOLS_LOOKUP_H
#define CT_SYMBOLS_LOOKUP_H

#include "symbols/lookup_cache.h"

struct ct_lookup_options {
    const char *const *directories; /* further places of binaries and debug files; NULL: none */
    bool inlines;
    uint64_t cache_bytes;
};

enum ct_lookup_state {
    CT_LOOKUP_FOUND,
    CT_LOOKUP_MISSING,    /* no file of that name or build-id */
    CT_LOOKUP_OTHER_FILE, /* the file at its path has another build-id: it has changed since */
};

struct ct_lookup;
struct ct_lookup_module;

/* NULL: no memory. */
struct ct_lookup *ct_lookup_create(const struct ct_lookup_options *options);
void ct_lookup_destroy(struct ct_lookup *lookup);

/* Equal path and build-id give one module. NULL: no memory. Lives as long as the lookup. */
struct ct_lookup_module *ct_lookup_module(struct ct_lookup *lookup, const char *path, const char *build_id);
enum ct_lookup_state ct_lookup_module_state(struct ct_lookup_module *module);
const char *ct_lookup_module_file(const struct ct_lookup_module *module);  /* the file that was found; "" */
const char *ct_lookup_module_lines(const struct ct_lookup_module *module); /* the file with the lines; "" */
const char *ct_lookup_module_debug(const struct ct_lookup_module *module); /* its separate debug file; "" */
/* Why there are no lines although there is a file for them: libdw is missing, or units of split DWARF are. "" */
const char *ct_lookup_module_problem(const struct ct_lookup_module *module);
/* True when a function begins there. For modules without a build-id, to check that the file is the right one. */
bool ct_lookup_has_function(struct ct_lookup *lookup, struct ct_lookup_module *module, uint64_t offset);

/* The file turned out not to be the module's. */
void ct_lookup_refuse(struct ct_lookup_module *module);

/* All are "" when not known, and valid until the next lookup. */
struct ct_lookup_result {
    const char *name;    /* linkage name */
    const char *line;    /* file:line */
    const char *inlines; /* linkage names, separated by tabs */
};
struct ct_lookup_result ct_lookup_find(struct ct_lookup *lookup, struct ct_lookup_module *module, uint64_t offset);

/* file:line of an instruction anywhere in the module, "" when not known; valid until the next lookup. Not cached. */
const char *ct_lookup_line_at(struct ct_lookup *lookup, struct ct_lookup_module *module, uint64_t offset);

struct ct_lookup_cache_stats ct_lookup_stats(const struct ct_lookup *lookup);

#endif
