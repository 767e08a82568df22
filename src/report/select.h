/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes, threads, functions, times and calls the user asked for. Lists are NULL-terminated. A NULL list
 * matches everything; otherwise one of its words must match. A call fits when all words fit (fits.h). */
#ifndef CT_REPORT_SELECT_H
#define CT_REPORT_SELECT_H

#include <contrail/trace.h>

struct ct_where;

struct ct_select {
    const char *const *functions; /* globs on names */
    const char *const *modules;   /* globs on file names of modules */
    const char *const *only;      /* globs on names or file names of modules: others are hidden ... */
    const char *const *exclude;   /* ... and so are these */
    const char *const *threads;   /* thread numbers (tid), or globs on names */
    const char *const *processes; /* process numbers (pid), or globs on names of programs */
    uint64_t from_ns, to_ns;      /* CLOCK_BOOTTIME: calls that overlap this time; to 0: no end */
    const struct ct_where *where; /* NULL: any call */
};

/* True when a word is the number, or a glob that matches the name. */
bool ct_select_numbered(const char *const *words, uint64_t number, const char *name);
bool ct_select_process(const struct ct_select *select, const struct ct_trace *trace, size_t process);
/* True when the thread and its process are selected. */
bool ct_select_thread(const struct ct_select *select, const struct ct_trace *trace, size_t thread);
/* True when the function's name matches one of the globs: as shown, mangled, or without parameters and result. */
bool ct_select_function(const char *const *globs, const struct ct_trace_function *function);
/* True when the text matches one of the globs. */
bool ct_select_by(const char *const *globs, const char *text);

#endif
