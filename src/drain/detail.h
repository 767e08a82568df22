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
struct ct_lane;
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
    struct ct_detail_run *runs; /* in order of numbers; the oldest are dropped */
    size_t run_count, run_room, run_hint;
    struct ct_detail_writer *writer; /* NULL: none yet */
    uint64_t newest;                 /* highest number of its drained events; 0: none yet */
    uint64_t first_ns, newest_ns;    /* of its first and newest numbered event */
    uint64_t last_number;            /* of the last record that was taken, or is not wanted */
    uint64_t last_ns;                /* its time; 0: none yet */
    uint64_t next_seq;               /* records of events before this position can no longer be written */
    uint64_t written, lost, limited, bytes;
    uint64_t ended_at;
    struct ct_detail_values *values; /* of the record that comes next; NULL: none so far */
    struct ct_detail_calls *calls;   /* detail_open.c; NULL: none yet */
    /* as last measured: its oldest record, whether there were older ones, and the size of its segments */
    uint64_t oldest_ns;
    uint32_t chunks, large; /* large: of them, segments of the first class */
    bool wrapped;
};

/* From the first of some marks to the last. */
struct ct_detail_span {
    uint64_t first_ns, last_ns;
};

/* The place of a found record in the copy. */
struct ct_detail_place {
    uint64_t number;
    uint32_t offset;
    bool values; /* CT_EVENT_VALUES */
};

/* A segment that is full, and what it was when it was listed. */
struct ct_detail_full {
    uint32_t segment, serial;
    enum ct_segment_state state;
};

struct ct_detail {
    uint8_t *copy; /* of a segment */
    struct ct_detail_place *places;
    struct ct_detail_full *full; /* segments that are FROZEN or KEPT */
    size_t full_count;
    uint32_t *taken; /* by segment: its serial when all of it was taken */
    uint64_t marks_seen, marks_omitted;
    unsigned mark_waits;  /* passes that waited for a mark to be complete, or for its event */
    uint64_t mark_since;  /* time of the first of these passes, if the mark is incomplete */
    bool marks_waiting;   /* for their events */
    unsigned held;        /* passes that took nothing, because marks wait */
    bool more;            /* the last look was not over */
    uint64_t most_bytes;  /* that one thread has had */
    uint32_t busy;        /* threads that have filled their segments, at least 1 */
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

/* The thread that has a segment in this state; NULL: none that we know. */
struct ct_drain_thread *ct_detail_thread_of(const struct ct_drain *drain, uint32_t segment,
                                            enum ct_segment_state state);

/* ---- detail_reach.c ---- */

/* Measures how far back the records of all threads are complete, and shares the memory out. */
void ct_detail_measure(struct ct_drain *drain, uint64_t now_ns);
/* Publishes how much each thread keeps. */
void ct_detail_publish_rolls(struct ct_drain *drain);
/* The memory with which no pre-roll would have been cut, about; 0: none was. */
uint64_t ct_detail_needed(const struct ct_drain *drain);

/* ---- detail_marks.c ---- */

/* Runs before the index is drained: looks at marks that were made already. */
void ct_detail_watch_marks(struct ct_drain *drain);
/* Takes marks whose events are drained. */
void ct_detail_take_marks(struct ct_drain *drain);

/* ---- detail_open.c: what marks keep however old it is ---- */

/* The thread's call that is its at-th open one, from 0 on, was drained; number 0: it has no record. */
void ct_detail_opened(struct ct_drain_thread *thread, size_t at, uint32_t number, uint64_t seq, uint64_t ns);
/* Such a call has returned; `number` is its return's. */
void ct_detail_closed(struct ct_drain_thread *thread, size_t at, uint32_t number, uint64_t ns);
/* The return with this number is a mark, or may be: its call is kept. */
void ct_detail_watch(struct ct_drain_thread *thread, uint32_t number);
/* Events were lost: it is not known which calls are open. */
void ct_detail_forget_open(struct ct_drain_thread *thread);
/* Moments were marked: from now on ct_detail_is_kept is true for the calls of all threads that were open then, and for
 * each thread's last `events` records. */
void ct_detail_keep(struct ct_drain *drain, const struct ct_detail_span *span, uint64_t events);
/* Runs before ct_detail_keep: the thread's record with this number is a mark, or a signal is before it; its last events
 * are those before it. */
void ct_detail_keep_before(struct ct_drain_thread *thread, uint64_t number);
bool ct_detail_is_kept(const struct ct_detail_thread *thread, uint64_t number);
/* Position and time of a kept call. */
bool ct_detail_kept_place(const struct ct_detail_thread *thread, uint64_t number, uint64_t *seq, uint64_t *ns);
/* Are there kept calls whose records were not taken yet? */
bool ct_detail_keeps_calls(const struct ct_detail_thread *thread);

/* The record of a call is given up: copies it, if the call is still open. */
void ct_detail_save(struct ct_detail_thread *thread, uint64_t number, const struct ct_shm_detail *record, size_t size);
/* Takes the next such copy that is kept; free it. NULL: there is none. */
struct ct_shm_detail *ct_detail_saved(struct ct_detail_thread *thread, uint64_t *seq, uint64_t *ns);

/* A wanted record that is not in a row with the others: its thread had no memory for it, or has copied it (an open
 * call's, before it was overwritten). */
struct ct_detail_late {
    uint64_t number, seq, ns;
    bool carried;                 /* a copy */
    struct ct_shm_detail *record; /* ours */
};
/* Adds a copy of the record, unless there is one. */
void ct_detail_add_late(struct ct_detail_thread *thread, const struct ct_detail_late *late,
                        const struct ct_shm_detail *record, size_t size);
bool ct_detail_has_late(const struct ct_detail_thread *thread);
/* Takes the next one before this position; free its record. */
bool ct_detail_next_late(struct ct_detail_thread *thread, uint64_t before, struct ct_detail_late *late);
void ct_detail_free_calls(struct ct_detail_thread *thread);

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
/* Bytes of the record of a call. */
size_t ct_detail_call_size(const struct ct_lane *lane);
size_t ct_detail_record_size(const struct ct_lane *lane, const struct ct_shm_detail *record);
/* Finds all records of the thread with numbers above `last` and puts them into places[], sorted by number. `live`: the
 * thread may be filling the segment. */
size_t ct_detail_find(struct ct_drain *drain, const struct ct_drain_thread *thread, uint32_t segment, uint64_t last,
                      bool live);
/* The time of the oldest record in the segment, which is full or in use; 0: there is none. *wrapped: there were older
 * ones. */
uint64_t ct_detail_oldest(const struct ct_drain *drain, const struct ct_drain_thread *thread, uint32_t segment,
                          bool full, bool *wrapped);
#endif
