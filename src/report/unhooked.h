/* SPDX-License-Identifier: Apache-2.0 */
/* Functions without a hook that were perhaps called often: functions that a report shows as frequent or slow call
 * them directly. An estimate: the module's code shows who calls whom, not how often, and calls through pointers and
 * other modules are not seen. */
#ifndef CT_REPORT_UNHOOKED_H
#define CT_REPORT_UNHOOKED_H

#include "report/functions.h"

enum { CT_UNHOOKED_SHOWN = 3 };

struct ct_unhooked {
    const struct ct_trace_function *function;
    const struct ct_report_row *caller; /* of several, the one with the most calls */
    size_t process;                     /* index */
};

struct ct_unhooked_list {
    struct ct_unhooked *items; /* those with the most frequent callers first */
    size_t count, room;
};

/* Reads modules whose files are available and have not changed since; `directories`: further places of them, or NULL.
 * Looks at a bounded number of callers and bytes. Rows must be those of functions, not of threads. */
int ct_unhooked_find(struct ct_unhooked_list *out, const struct ct_trace *trace, const struct ct_report *report,
                     const char *const *directories);
void ct_unhooked_free(struct ct_unhooked_list *list);
/* Adds the key "not_hooked" to an object: all of them, with their reasons and callers. */
void ct_unhooked_json(const struct ct_unhooked_list *list, struct ct_json *json);

#endif
