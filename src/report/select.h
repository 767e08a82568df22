/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads and functions the user asked for. Lists are NULL-terminated. A NULL list matches everything; otherwise
 * one of its words must match. */
#ifndef CT_REPORT_SELECT_H
#define CT_REPORT_SELECT_H

#include <contrail/trace.h>

struct ct_select {
    const char *const *functions; /* globs on names */
    const char *const *modules;   /* globs on file names of modules */
    const char *const *only;      /* globs on names or file names of modules: others are hidden ... */
    const char *const *exclude;   /* ... and so are these */
    const char *const *threads;   /* thread numbers (tid), or globs on names */
};

bool ct_select_thread(const struct ct_select *select, const struct ct_trace_thread *thread);
/* True when the function's name matches one of the globs: as shown, mangled, or without parameters and result. */
bool ct_select_function(const char *const *globs, const struct ct_trace_function *function);
/* True when the text matches one of the globs. */
bool ct_select_by(const char *const *globs, const char *text);

#endif
