/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that a recording has left out for its budget (`spawn --budget`), from the manifests. */
#ifndef CT_REPORT_LEFT_OUT_H
#define CT_REPORT_LEFT_OUT_H

#include "trace/facts.h"
#include <contrail/trace.h>

struct ct_left_out {
    int pid;
    size_t process;
    uint64_t id;
    const struct ct_trace_function *function; /* NULL: the trace does not know it */
    uint64_t calls;                           /* that were recorded, with the budget on: there were more */
    uint64_t from_ns;                         /* when it was first left out, since the first event of the trace */
    uint64_t first_ns, back_ns;               /* CLOCK_BOOTTIME: first left out; last came back, 0: it did not */
    double cost;                              /* of its last calls, as a part of the program's own CPU time */
    bool out;                                 /* at the end too */
};

struct ct_left_out_list {
    struct ct_left_out *items; /* by calls, most first */
    size_t count, out;
    bool budget;        /* there was one */
    double limit, used; /* the most of all processes; a limit of 0: off at the end, `used` of 0: not measured */
    size_t processes;   /* that had one */
    uint64_t changes, stops, stopped_ns;
};

/* Of one process, or of all (SIZE_MAX). Release with ct_left_out_free. */
int ct_left_out_read(struct ct_left_out_list *list, const struct ct_trace *trace, const struct ct_facts *facts,
                     size_t process);
void ct_left_out_free(struct ct_left_out_list *list);
/* Drops functions that do not fit. */
void ct_left_out_filter(struct ct_left_out_list *list, bool (*fits)(void *arg, const struct ct_left_out *one),
                        void *arg);

struct ct_json;
/* Adds the members "budget" and "left_out" to an open object, if there was a budget. */
void ct_left_out_json(const struct ct_left_out_list *list, struct ct_json *json);

#endif
