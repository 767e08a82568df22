/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries: what is in a large thread without reading its events, and places in its middle where a reader may start.
 *
 * The events of a thread are divided into spans: some blocks of a packed file, or some thousand events of a raw one. A
 * summary knows for each span what is in it, and for some spans which calls are open where it begins, with everything
 * that struct ct_frames knows about them. So a reader that starts there continues exactly as one that has read
 * everything.
 *
 * It is kept in the thread's directory (abi/summary.h) where the directory is ours, else in memory. It is never
 * trusted: a file that is damaged, or does not fit its index files, the gaps or the symbols, is made again from the
 * events. Whatever is in it, reading it uses no memory outside it. `verify` compares it with the events.
 *
 * One owner; cursors over the same thread may be in use. */
#ifndef CT_TRACE_SUMMARY_H
#define CT_TRACE_SUMMARY_H

#include "abi/summary.h"
#include "trace/facts.h"
#include "trace/frames.h"
#include "trace/place.h"
#include <pthread.h>

/* Threads with fewer events are read faster than their summary. */
#define CT_SUMMARY_LEAST (UINT64_C(1) << 18)

struct ct_summary_options {
    const struct ct_facts *facts; /* of the trace */
    pthread_mutex_t *names;       /* is held while functions are looked up; NULL: nobody else uses the trace */
    bool in_memory;               /* neither load nor store it */
    bool once;                    /* for one question: it is not made where it cannot be stored */
    bool stored_only;             /* only load it: CT_ERR_NOT_FOUND when there is none that fits */
};

/* Position of the first event of a thread at or after the time. */
uint64_t ct_summary_position(struct ct_trace *trace, size_t thread, uint64_t time_ns);
/* False: this many events are read faster than a summary of them. */
bool ct_summary_is_worth(const struct ct_trace *trace, uint64_t events);

struct ct_summary;
/* Loads the summary of a thread, or makes it, which reads the whole thread, and stores it if that is possible. Returns
 * 0, CT_ERR_NO_MEMORY, or CT_ERR_NOT_FOUND: the thread is too small for one, or some of its events cannot be
 * read, which readers must notice. */
int ct_summary_open(struct ct_summary **out, struct ct_trace *trace, size_t thread,
                    const struct ct_summary_options *options);
/* Creates a file for a summary in a thread's directory. Returns a descriptor, or a negated errno. */
int ct_summary_create(struct ct_place *place, const char *name);
/* Makes the summary and writes it to such a file, which stays empty if that fails. CT_ERR_NOT_FOUND: the thread is too
 * small for one. */
int ct_summary_write(struct ct_trace *trace, size_t thread, const struct ct_facts *facts, int fd);
void ct_summary_close(struct ct_summary *summary);
/* For other files that are made from the events of a thread: what changes when the files, the gaps or the symbols do;
 * and the thread's directory, when it is ours, closed to others, and nobody writes the events any more; else NULL. */
uint64_t ct_summary_identity(struct ct_trace *trace, size_t thread, const struct ct_facts *facts);
struct ct_place *ct_summary_place(struct ct_trace *trace, size_t thread);

/* ---- spans ---- */

size_t ct_summary_span_count(const struct ct_summary *summary);
const struct cts_span *ct_summary_span(const struct ct_summary *summary, size_t span);
/* Position after the span: where the next one begins, or the end of the thread. */
uint64_t ct_summary_span_end(const struct ct_summary *summary, size_t span);
/* False: no event of the span is of this function. 0: signals. */
bool ct_summary_may_have(const struct ct_summary *summary, size_t span, uint64_t function);
/* The functions with events in the thread, by id; 0: there are too many to list. */
size_t ct_summary_function_count(const struct ct_summary *summary);
const struct cts_function *ct_summary_function(const struct ct_summary *summary, size_t index);
/* The span that contains the position, or the last one before it. */
size_t ct_summary_find(const struct ct_summary *summary, uint64_t sequence);
/* The first span that has an event at or after the time; span_count: none. Only when times are ordered. */
size_t ct_summary_find_time(const struct ct_summary *summary, uint64_t time_ns);
/* Time never goes back in this thread. */
bool ct_summary_is_ordered(const struct ct_summary *summary);

/* ---- starts ---- */

/* The last start in spans 0 to `span`; there is always one in the first span. */
size_t ct_summary_start_before(const struct ct_summary *summary, size_t span);
const struct cts_start *ct_summary_start(const struct ct_summary *summary, size_t start);
/* Position of the first event to read. */
uint64_t ct_summary_start_sequence(const struct ct_summary *summary, size_t start);
/* Time of the event before it; 0: there is none. */
uint64_t ct_summary_start_last_ns(const struct ct_summary *summary, size_t start);

/* Sets the frames to their state at the start, after ct_frames_begin: the open calls with their true beginnings, `user`
 * NULL. Returns 0, CT_ERR_NO_MEMORY, or CT_ERR_BAD_FILE: the summary is wrong. After a failure begin them again. */
int ct_summary_frames(const struct ct_summary *summary, size_t start, struct ct_frames *frames);
/* The call of an open frame of the start, with its end; NULL: it was not seen. Frames are numbered oldest first. */
const struct cts_call *ct_summary_call(const struct ct_summary *summary, size_t start, size_t frame);

/* ---- checking ---- */

/* Compares the stored summary of a thread with its events. True: there is none that fits the files, or it is right. */
bool ct_summary_verify(struct ct_trace *trace, size_t thread, const struct ct_facts *facts);

#endif
