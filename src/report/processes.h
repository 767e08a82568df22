/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a trace as a tree: who made whom, when, and how they ended. */
#ifndef CT_REPORT_PROCESSES_H
#define CT_REPORT_PROCESSES_H

#include "trace/facts.h"

struct ct_process_row {
    size_t process; /* index */
    size_t parent;  /* index of the process that made it, or of the program that it executed this one in place
                               * of; SIZE_MAX: none in the trace */
    unsigned depth; /* in the tree */
    uint64_t start_ns, end_ns; /* of its recording */
    uint64_t events;
    const char *command_line; /* of the manifest, as all texts: "" when not known */
    char ended[32];           /* "exit 0", "SIGSEGV", "detached", "exec" … */
};

struct ct_processes {
    struct ct_process_row *rows; /* parents before their children, these by their start */
    size_t count;
    uint64_t start_ns, end_ns; /* of the session: the first start and the last end */
    uint64_t events;
};

int ct_processes_make(struct ct_processes *out, const struct ct_trace *trace, const struct ct_facts *facts);
void ct_processes_free(struct ct_processes *processes);

#endif
