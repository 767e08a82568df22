/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a trace where a look at it may begin: a crash, a mark; and how far before one to begin. */
#ifndef CT_REPORT_MOMENTS_H
#define CT_REPORT_MOMENTS_H

#include "report/select.h"
#include "trace/facts.h"

struct ct_moment {
    uint64_t time_ns; /* CLOCK_BOOTTIME */
    size_t thread;    /* index, SIZE_MAX: no particular one */
};

/* The last crash of the selected processes: the signal that a process died of. CT_ERR_NOT_FOUND: none died of one. */
int ct_moment_crash(struct ct_moment *out, struct ct_trace *trace, const struct ct_facts *facts,
                    const struct ct_select *select);
/* The mark with this number, from 1 on, of the selected processes: marks as far as the manifests list them (the
 * first of each trigger in each window of detail, and the last of the window). *count receives how many there are.
 * CT_ERR_NOT_FOUND: there are fewer. */
int ct_moment_mark(struct ct_moment *out, const struct ct_trace *trace, const struct ct_facts *facts,
                   const struct ct_select *select, uint64_t number, size_t *count);

/* A time that has at least this many events of one of the threads between itself and `time_ns`. 0: all threads have
 * fewer. `thread`: only this one; SIZE_MAX: the selected ones. */
uint64_t ct_moment_before(struct ct_trace *trace, const struct ct_select *select, size_t thread, uint64_t time_ns,
                          uint64_t events);

#endif
