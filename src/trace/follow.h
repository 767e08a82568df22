/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a trace that is being written: its new events, round after round, all threads merged by time.
 *
 * Each round opens the trace again and reads every thread from where the last round ended, so it sees new processes,
 * threads and files. Numbers of processes and threads stay the same over all rounds. Events come in order of time
 * within what the recorder had written. The events of one thread are always in order, and none is missing or comes
 * twice. One owner. */
#ifndef CT_TRACE_FOLLOW_H
#define CT_TRACE_FOLLOW_H

#include "trace/facts.h"
#include <contrail/trace.h>

struct ct_follow;

struct ct_follow_process {
    int pid, parent_pid;
    bool complete; /* the recorder finished its trace */
    uint64_t time_start_ns;
    char program[64]; /* file name, "": not known yet */
};

struct ct_follow_thread {
    size_t process; /* number */
    uint32_t id, tid;
    char name[64];
    const struct ct_gap *gaps; /* known gaps, as in struct ct_thread_facts; valid in this round */
    size_t gap_count;
    uint64_t next; /* position of the next event */
};

/* Reads events from this time on (CLOCK_BOOTTIME; 0: all). `mangled`: as ct_trace_keep_mangled. */
int ct_follow_open(struct ct_follow **out, const char *path, uint64_t from_ns, bool mangled);
void ct_follow_close(struct ct_follow *follow);

/* Looks at what exists now; call it before ct_follow_events. `named`: threads whose names are not known yet wait,
 * because the user selects by name. CT_ERR_NOT_FOUND: there is no process yet. */
int ct_follow_look(struct ct_follow *follow, bool named);
/* Reads the events up to a time; `thread` is one of our numbers. A non-zero result of `event` ends it and is
 * returned. */
int ct_follow_events(struct ct_follow *follow, uint64_t until_ns,
                     int (*event)(void *arg, const struct ct_trace_event *event), void *arg);

size_t ct_follow_process_count(const struct ct_follow *follow);
const struct ct_follow_process *ct_follow_process_at(const struct ct_follow *follow, size_t process);
size_t ct_follow_thread_count(const struct ct_follow *follow);
const struct ct_follow_thread *ct_follow_thread_at(const struct ct_follow *follow, size_t thread);
/* What was looked at: valid in this round. NULL: nothing was there. */
struct ct_trace *ct_follow_trace(const struct ct_follow *follow);
/* By our number of a thread: its index in that trace, SIZE_MAX where it is not there. */
const size_t *ct_follow_indexes(const struct ct_follow *follow);
/* As ct_facts_thread_end, from what is known in this round. */
uint64_t ct_follow_thread_end(const struct ct_follow *follow, size_t thread, uint64_t last_ns, size_t open_frames);
/* Valid until the next call for the process. NULL: not known (yet). */
const struct ct_trace_function *ct_follow_function(struct ct_follow *follow, size_t process, uint64_t id);

#endif
