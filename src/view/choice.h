/* SPDX-License-Identifier: Apache-2.0 */
/* What a request selects (from, to, thread, function), as reports take it. */
#ifndef CT_VIEW_CHOICE_H
#define CT_VIEW_CHOICE_H

#include "view/answer.h"

struct ct_view_choice {
    struct ct_select select;
    size_t thread;    /* SIZE_MAX: all */
    const char *name; /* of the function, whole; NULL: all */
    const char *module;
    uint64_t from_ns, to_ns;
    uint64_t events; /* at most this many will be read */
    /* private */
    char tid[16], pid[16];
    const char *threads[2], *processes[2], *functions[2], *modules[2];
    char *glob, *module_glob;
};

/* False after an error. Free it in any case. */
bool ct_view_choose(struct ct_view_choice *choice, struct ct_view_answer *a);
void ct_view_choice_free(struct ct_view_choice *choice);

/* For readers of calls (rows.h): the calls that begin in the range. */
void ct_view_choice_ask(struct ct_view_choice *choice, const struct ct_view_answer *a, struct ct_ask *ask);

#endif
