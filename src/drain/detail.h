/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's side of the detail lane: from segments of shared memory (abi/shm_abi.h) to thread_N/detail.atf.
 *
 * Owner: the drain thread. Threads of the target fill their segments as rings, and hand them over while a mark is in
 * effect. This unit finds records in segments that were handed over and, now and then, in those that are still being
 * filled. A record is written if its moment is wanted (windows.h), once, in the order of its thread's events.
 *
 * Events that have a detail record carry a number (in their tag). Numbers and positions in the index file advance
 * together, except for losses and the like, so a few runs per thread give the position and time of every numbered
 * event. */
#ifndef CT_DRAIN_DETAIL_H
#define CT_DRAIN_DETAIL_H

#include "abi/shm_abi.h"
#include "drain/clock.h"
#include "trace/writer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_drain;
struct ct_drain_thread;

/* Events with consecutive numbers and positions, and one straight line of time. */
struct ct_detail_run {
    uint64_t number, count; /* full numbers: those of shared memory wrap around */
    uint64_t seq;
    struct ct_clock_point point;
    double rate;
};

/* A copy of a record of CT_EVENT_VALUES: its event's record may be in another segment. */
struct ct_detail_values {
    uint64_t number; /* 0: none */
    uint32_t size;
    uint8_t bytes[CT_VALUES_MOST];
};

/* The detail lane of one thread. */
struct ct_detail_thread {
    struct ct_detail_run *runs; /* in order; the oldest are dropped */
    size_t run_count, run_room, run_hint;
    struct ct_detail_writer *writer; /* NULL: none yet */
    uint64_t newest;                 /* highest number of its drained events; 0: none yet */
    uint64_t first_ns, newest_ns;    /* of its first and newest numbered event */
    uint64_t last_number;            /* of the last record that was taken, or is not wanted */
    uint64_t last_ns;                /* its time; 0: none yet */
    uint64_t written, lost, limited, bytes;
    uint64_t ended_at;
    struct ct_detail_values *values; /* of the record that comes next; NULL: none so far */
};

/* The place of a found record in the copy. */
struct ct_detail_place {
    uint64_t number;
    uint32_t offset;
    bool values; /* CT_EVENT_VALUES */
};

struct ct_detail_frozen {
    uint32_t segment, serial; /* serial: at the time it was read */
};

struct ct_detail {
    uint8_t *copy; /* of a segment */
    struct ct_detail_place *places;
    struct ct_detail_frozen *frozen; /* segments that are FROZEN */
    size_t frozen_count;
    uint64_t marks_seen, marks_omitted;
    unsigned mark_waits;  /* passes that waited for a mark to be complete, or for its event */
    uint64_t mark_since;  /* time of the first of these passes, if the mark is incomplete */
    bool may_look;        /* at segments in use, after the end of a window */
    uint64_t looked_at;   /* when segments in use were last looked at */
    uint64_t measured_at; /* when reach_ns was measured */
    uint64_t reach_ns;    /* how far back the records of all threads were complete then */
    uint64_t rejected;    /* records that overlapped others */
};

int ct_detail_start(struct ct_drain *drain);
void ct_detail_free(struct ct_drain *drain);
/* Runs after the index is drained: takes only records whose events are in the index. */
void ct_detail_pass(struct ct_drain *drain, uint64_t now_ns);
/* The target is gone or stopped: looks at everything that is left, for the last time. */
void ct_detail_finish(struct ct_drain *drain);
/* The thread has ended, and its events were drained. Returns false if its records may still be wanted. */
bool ct_detail_retire(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t slot, uint32_t generation);
int ct_detail_close_thread(struct ct_drain *drain, struct ct_drain_thread *thread);

/* Notes that the thread's event with this number is at position `seq` and has the time `ns`. `held`: that time is not
 * the clock's, but the previous event's. */
void ct_detail_note_event(struct ct_drain_thread *thread, const struct ct_clock *clock, uint32_t number, uint64_t seq,
                          uint64_t ns, bool held);

/* ---- detail_runs.c ---- */

/* The full number for one of shared memory, which wraps around. */
uint64_t ct_detail_number(const struct ct_detail_thread *thread, uint32_t number);
/* The run with this number. NULL: the event was lost or, if the number is above thread->newest, is not drained yet. */
const struct ct_detail_run *ct_detail_run_of(struct ct_detail_thread *thread, uint64_t number);
uint64_t ct_detail_run_time(const struct ct_detail_run *run, uint64_t stamp);
/* ---- detail_values.c ---- */

/* Keeps the values at this place for the event's own record. */
void ct_detail_keep_values(const struct ct_detail *detail, struct ct_detail_thread *thread, size_t place);
/* Appends the values that were kept for this number to a record on its way to the file; returns their size. */
uint32_t ct_detail_put_values(struct ct_detail_thread *thread, uint64_t number, struct atf_detail_event *event,
                              uint8_t *to);

/* ---- detail_find.c: finding records in a segment ---- */

static inline const struct ct_shm_detail *ct_detail_record(const struct ct_detail *detail, size_t place) {
    return (const struct ct_shm_detail *)(detail->copy + detail->places[place].offset);
}
/* Finds all records of the thread with numbers above `last` and puts them into places[], sorted by number. `live`: the
 * thread may be filling the segment. */
size_t ct_detail_find(struct ct_drain *drain, const struct ct_drain_thread *thread, uint32_t segment, uint64_t last,
                      bool live);
/* The time of the oldest record in the segment; 0: there is none. *wrapped: there were older ones. */
uint64_t ct_detail_oldest(const struct ct_drain *drain, const struct ct_drain_thread *thread, uint32_t segment,
                          bool *wrapped);
#endif
