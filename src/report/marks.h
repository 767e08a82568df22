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
    size_t next; /* of ct_marks_next */
};

/* A window lists the first mark of each label. */
int ct_marks_read(struct ct_marks *out, const struct ct_trace *trace);
/* Adds a mark that is newer than all others. */
int ct_marks_add(struct ct_marks *marks, uint64_t time_ns, const char *label);
/* Takes the next mark, if it is not after this time; NULL: it is, or there is none. */
const struct ct_mark *ct_marks_next(struct ct_marks *marks, uint64_t until_ns);
/* Leaves out those before this time. */
void ct_marks_skip(struct ct_marks *marks, uint64_t before_ns);
void ct_marks_free(struct ct_marks *marks);

#endif
