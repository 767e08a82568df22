/* Names, source lines and inlined functions of modules that are known by path and build-id only: a trace's, on any machine.
 *
 * Finds the module's file, or its debug file alone, and believes it only when its build-id is the right one. A few modules
 * are open at a time; what was looked up is cached (lookup_cache.h). One owner. */
#ifndef CT_SYMBOLS_LOOKUP_H
#define CT_SYMBOLS_LOOKUP_H

#include "symbols/lookup_cache.h"

struct ct_lookup_options {
    const char *const *directories; /* where binaries and debug files may be, besides the usual places; NULL: none */
    bool inlines;
    uint64_t cache_bytes;
};

enum ct_lookup_state {
    CT_LOOKUP_FOUND,
    CT_LOOKUP_MISSING,    /* no file of that name or build-id */
    CT_LOOKUP_OTHER_FILE, /* there is a file at its path, with another build-id: it was changed since */
};

struct ct_lookup;
struct ct_lookup_module;

/* NULL: no memory. */
struct ct_lookup *ct_lookup_create(const struct ct_lookup_options *options);
void ct_lookup_destroy(struct ct_lookup *lookup);

/* The same path and build-id give the same module. NULL: no memory. Lives as long as the lookup. */
struct ct_lookup_module *ct_lookup_module(struct ct_lookup *lookup, const char *path, const char *build_id);
enum ct_lookup_state ct_lookup_module_state(struct ct_lookup_module *module);
const char *ct_lookup_module_file(const struct ct_lookup_module *module);  /* that was found; "" */
const char *ct_lookup_module_lines(const struct ct_lookup_module *module); /* the file with the lines; "" */
/* Why there are no lines although there is a file for them: libdw is missing, or units of split DWARF. "" */
const char *ct_lookup_module_problem(const struct ct_lookup_module *module);
/* Does a function begin there? For modules without a build-id, to tell whether it is the same file. */
bool ct_lookup_has_function(struct ct_lookup *lookup, struct ct_lookup_module *module, uint64_t offset);

/* What was found is not the module after all. */
void ct_lookup_refuse(struct ct_lookup_module *module);

/* All are "" when not known, and good until the next lookup. */
struct ct_lookup_result {
    const char *name;    /* linkage name */
    const char *line;    /* file:line */
    const char *inlines; /* linkage names, separated by tabs */
};
struct ct_lookup_result ct_lookup_find(struct ct_lookup *lookup, struct ct_lookup_module *module, uint64_t offset);

/* file:line of an instruction anywhere in the module, "" when not known; good until the next lookup. Not cached. */
const char *ct_lookup_line_at(struct ct_lookup *lookup, struct ct_lookup_module *module, uint64_t offset);

struct ct_lookup_cache_stats ct_lookup_stats(const struct ct_lookup *lookup);

#endif
