/* SPDX-License-Identifier: Apache-2.0 */
/* Why the windows of detail were opened, as a manifest lists it: each trigger of each window. */
#ifndef CT_REPORT_WINDOW_REASONS_H
#define CT_REPORT_WINDOW_REASONS_H

#include "base/json_read.h"

struct ct_window_reason {
    const char *trigger, *label; /* "": none */
    uint64_t first_ns;           /* its first mark in the window */
    uint64_t tid;                /* of that mark */
    uint64_t last_mark_ns;       /* of the window, of any trigger */
};

/* Calls `each` for the reasons in the manifest's order. A non-zero result ends it and is returned. */
int ct_window_reasons(const struct ct_json_node *manifest,
                      int (*each)(void *arg, const struct ct_window_reason *reason), void *arg);

#endif
