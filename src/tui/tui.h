/* SPDX-License-Identifier: Apache-2.0 */
/* A trace in the terminal: functions, callers and callees, a call tree that folds, a timeline of threads, moments. What
 * is shown is asked for as `contrail query` asks, so nothing reads the whole trace where a summary answers, but for the
 * counts of all calls, as `report` has them. */
#ifndef CT_TUI_TUI_H
#define CT_TUI_TUI_H

#include "report/select.h"
#include <stdio.h>

struct ct_tui_options {
    struct ct_trace *trace;
    const struct ct_select *select;
    FILE *out, *in;                                      /* the terminal */
    const char *name;                                    /* of the trace */
    const char *(*time_text)(char *buffer, uint64_t ns); /* for people; 32 bytes are enough */
    bool (*stopped)(void);                               /* a signal has come */
};

/* Returns when the user leaves: 0 or a negative status, as ct_screen_open. */
int ct_tui_run(const struct ct_tui_options *options);

#endif
