/* SPDX-License-Identifier: Apache-2.0 */
/* Time in which threads waited for the recorder, according to the manifest and to thread_N/waits. It belongs to no
 * call. */
#ifndef CT_TRACE_WAITS_H
#define CT_TRACE_WAITS_H

#include "trace/facts.h"

struct ct_wait_span {
    uint64_t from_ns, to_ns;
    const char *reason; /* of the span that began first; the manifest's text, or "memory" */
};

/* Sorted; spans do not overlap. */
struct ct_waits {
    struct ct_wait_span *spans;
    size_t count, room;
    uint64_t more, more_ns; /* of the process: that the manifest does not list. No call is shorter by these */
};

/* What one thread waited: its own waits, and stops of its process. `facts` has to live longer. */
int ct_waits_of_thread(struct ct_waits *out, const struct ct_facts *facts, const struct ct_trace *trace, size_t thread);
/* Time in which any thread of the process waited, for other things than memory. */
int ct_waits_of_process(struct ct_waits *out, const struct ct_facts *facts, size_t process);
void ct_waits_free(struct ct_waits *waits);
/* The part of them in a stretch of time. */
uint64_t ct_waits_in(const struct ct_waits *waits, uint64_t from_ns, uint64_t to_ns);

#endif
