/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about threads that only the manifest has: where events are missing, and when the thread ended. */
#ifndef CT_TRACE_FACTS_H
#define CT_TRACE_FACTS_H

#include "base/json_read.h"
#include <contrail/trace.h>

struct ct_gap {
    uint64_t at;        /* number of the thread's events before it */
    uint64_t lost;      /* events */
    const char *reason; /* a name of CT_LOSS_LIST; never NULL */
};

struct ct_thread_facts {
    struct ct_gap *gaps; /* by position */
    size_t gap_count;
    uint64_t end_ns;  /* when it ended; 0: not known */
    uint64_t seen_ns; /* when the recorder last saw that it exists; 0: not known */
    bool lasted;      /* that was when the recorder last looked at the process's threads */
    bool complete;    /* no event is missing */
};

struct ct_facts {
    struct ct_thread_facts *threads; /* as in the trace */
    size_t thread_count;
    struct ct_json_tree **trees; /* manifests of the processes; NULL where one cannot be read */
    size_t process_count;
};

/* A damaged manifest counts as an empty one. */
int ct_facts_load(struct ct_facts *facts, const struct ct_trace *trace);
void ct_facts_free(struct ct_facts *facts);

/* When frames end that are open after the last event of a thread: at the end of the thread, or of the process's
 * recording. But a thread that has returned to its first function may have ended unseen: then they end with its last
 * event, or when it was last seen, unless it was there at the recorder's last look. */
uint64_t ct_facts_thread_end(const struct ct_facts *facts, const struct ct_trace *trace, size_t thread,
                             uint64_t last_ns, size_t open_frames);

#endif
