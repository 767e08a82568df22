/* SPDX-License-Identifier: Apache-2.0 */
/* The time of one thread that is not the program's own work: waits for the recorder (waits.h), and, where it was
 * recorded, time off the processor (switches_file.h). A wait for the recorder is nothing else besides. Time only goes
 * forward. One owner. */
#ifndef CT_TRACE_TIMELINE_H
#define CT_TRACE_TIMELINE_H

#include "trace/switches_file.h"
#include "trace/waits.h"

enum ct_off_kind { CT_OFF_BLOCKED, CT_OFF_PREEMPTED, CT_OFF_UNKNOWN, CT_OFF_KINDS, CT_OFF_WAITED = CT_OFF_KINDS };

/* Time off the processor. Unknown: it may have been on it. */
struct ct_off {
    uint64_t ns[CT_OFF_KINDS];
};

/* "blocked", "preempted", "waited for the recorder", "unknown". */
const char *ct_off_text(enum ct_off_kind kind);

struct ct_off_span {
    uint64_t from_ns, to_ns;
    enum ct_off_kind kind;
    const char *reason; /* WAITED: see ct_wait_span */
};

struct ct_timeline {
    struct ct_waits waits;
    size_t wait;                         /* the next one */
    struct ct_switches_reader *switches; /* NULL: not recorded */
    struct ct_off_span ahead;            /* what is left of the last span off the processor; to_ns 0: nothing */
    bool over;                           /* there are no more of these */
    uint64_t known_ns;                   /* end of the last one that was read */
    struct ct_off_span next;             /* not passed yet; to_ns 0: must be read */
    uint64_t passed_ns;
    uint64_t quiet_ns; /* no span begins before this time, and none is being passed */
};

/* `facts` has to live longer. */
int ct_timeline_open(struct ct_timeline *t, const struct ct_facts *facts, const struct ct_trace *trace, size_t thread);
void ct_timeline_close(struct ct_timeline *t);
/* True when the switches of all threads with events were recorded. */
bool ct_timeline_is_recorded(const struct ct_trace *trace);
/* False: the thread's switches were not recorded, so all its time counts as on the processor. */
bool ct_timeline_has_cpu(const struct ct_timeline *t);
/* The slow path of ct_timeline_pass. */
uint64_t ct_timeline_pass_spans(struct ct_timeline *t, uint64_t to_ns, struct ct_off *off);
/* True when there is nothing to pass up to this time, as nearly always. */
static inline bool ct_timeline_is_quiet(const struct ct_timeline *t, uint64_t to_ns) {
    return to_ns <= t->quiet_ns;
}
/* Passes on to a time. Adds what the thread spent off the processor since the last call to *off, and returns how long
 * it waited for the recorder. */
static inline uint64_t ct_timeline_pass(struct ct_timeline *t, uint64_t to_ns, struct ct_off *off) {
    if (!ct_timeline_is_quiet(t, to_ns))
        return ct_timeline_pass_spans(t, to_ns, off);
    t->passed_ns = to_ns > t->passed_ns ? to_ns : t->passed_ns;
    return 0;
}
/* The spans themselves, one after the other; of no use together with ct_timeline_pass. False: there are no more. */
bool ct_timeline_next(struct ct_timeline *t, struct ct_off_span *span);

#endif
