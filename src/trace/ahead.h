/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks the events of a thread ahead of its reader, on another processor.
 *
 * Blocks of a packed file do not need each other: helpers read, check and unpack them, and the reader takes them in
 * order. A block that cannot be read as a whole is left to the reader, which reads it as if there were no helpers: what
 * is damaged is noticed there, and counted once. A few blocks are ahead at most, so memory does not grow.
 *
 * One owner. The helpers have files and buffers of their own. */
#ifndef CT_TRACE_AHEAD_H
#define CT_TRACE_AHEAD_H

#include "trace/reader.h"

/* Fewer events are not worth a thread. */
#define CT_AHEAD_LEAST (UINT64_C(1) << 17)

/* Processors that readers of the trace use: those that this process may run on, or fewer (ct_trace.jobs). */
unsigned ct_ahead_processors(const struct ct_trace *trace);

/* Events in memory that is exchanged with the reader's. */
struct ct_ahead_block {
    struct atf_index_event *events; /* malloc'ed */
    size_t room, count;
    bool clean; /* the events are a whole packed block that has nothing else (ct_packed_is_clean) */
};

struct ct_ahead;
/* NULL: there is one processor only, or few events, or no memory. The reader reads by itself then. */
struct ct_ahead *ct_ahead_open(struct ct_trace *trace, size_t thread, uint64_t first);
/* Exchanges *block for one with the events from `sequence` on, which never goes back. False: the reader has to read
 * there by itself, and *block is as it was. */
bool ct_ahead_take(struct ct_ahead *ahead, uint64_t sequence, struct ct_ahead_block *block);
void ct_ahead_close(struct ct_ahead *ahead);

#endif
