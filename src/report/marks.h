/* SPDX-License-Identifier: Apache-2.0 */
/* Moments that were marked by hand (`contrail ctl PID mark`), from the manifests of a trace. */
#ifndef CT_REPORT_MARKS_H
#define CT_REPORT_MARKS_H

#include <contrail/trace.h>

struct ct_mark {
    uint64_t time_ns;
    char *label; /* "": none */
};

struct ct_marks {
    struct ct_mark *items; /* in order of time */
    size_t count;
};

/* A window lists the first mark of each label. */
int ct_marks_read(struct ct_marks *out, const struct ct_trace *trace);
void ct_marks_free(struct ct_marks *marks);

#endif
