/* The detail lane, controller's side: from segments of shared memory (abi/shm_abi.h) to thread_N/detail.atf.
 *
 * Owner: the drain thread. Threads of the target fill their segments round and round, and hand them over while something is
 * marked; here records are found in what was handed over, and, now and then, in what is still being filled. A record is written
 * when its moment is wanted (windows.h), once, in the order of its thread's events.
 *
 * Events that have a detail record carry a number (their tag). Numbers and positions in the index file run in step but for
 * losses and the like, so that a few runs per thread tell the position, and the time, of every numbered event. */
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

/* Events with consecutive numbers, positions, and one straight line of time. */
struct ct_detail_run {
    uint64_t number, count; /* numbers are counted on where those of shared memory begin anew */
    uint64_t seq;
    struct ct_clock_point point;
    double rate;
};

/* Of one thread. */
struct ct_detail_thread {
    struct ct_detail_run *runs; /* in order; the oldest are forgotten */
    size_t run_count, run_room, run_hint;
    struct ct_detail_writer *writer; /* NULL: none yet */
    uint64_t newest;                 /* of the numbers of its events, as far as drained; 0: none yet */
    uint64_t first_ns, newest_ns;    /* of its first and newest numbered event */
    uint64_t last_number;            /* of the last record that was taken, or is not wanted */
    uint64_t last_ns;                /* its time; 0: none yet */
    uint64_t written, lost, limited, bytes;
    uint64_t oldest_ns; /* of what its segment held when last looked at */
    uint64_t ended_at;
};

/* A record that was found, in the copy. */
struct ct_detail_place {
    uint64_t number;
    uint32_t offset;
};

struct ct_detail_frozen {
    uint32_t segment, serial; /* as it was when it was read */
};

struct ct_detail {
    uint8_t *copy; /* a segment */
    struct ct_detail_place *places;
    struct ct_detail_frozen *frozen; /* segments that are FROZEN */
    size_t frozen_count;
    uint64_t marks_seen, marks_omitted;
    unsigned mark_waits;  /* passes that have waited for a mark to be written, or for its event */
    uint64_t mark_since;  /* when the first of them was, of a mark that is not complete */
    bool may_look;        /* after the end of a window */
    uint64_t looked_at;   /* when segments in use were last looked at */
    uint64_t measured_at; /* when it was last measured */
    uint64_t reach_ns;    /* how far back the shortest window reached then */
    uint64_t rejected;    /* records that overlapped others */
};

int ct_detail_start(struct ct_drain *drain);
void ct_detail_free(struct ct_drain *drain);
/* After the index is drained: only events that are in it have their records taken. */
void ct_detail_pass(struct ct_drain *drain, uint64_t now_ns);
/* The target is gone or stands still: everything that is still there is looked at for the last time. */
void ct_detail_finish(struct ct_drain *drain);
/* The thread has ended, and its events were drained. False: its records may yet be wanted. */
bool ct_detail_retire(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t slot, uint32_t generation);
int ct_detail_close_thread(struct ct_drain *drain, struct ct_drain_thread *thread);

/* The thread's event with this number is at position `seq`; `ns` is its time, `held`: which is not what the clock says. */
void ct_detail_note_event(struct ct_drain_thread *thread, const struct ct_clock *clock, uint32_t number, uint64_t seq,
                          uint64_t ns, bool held);

/* ---- detail_runs.c ---- */

/* A number of shared memory, where they begin anew some time, counted on. */
uint64_t ct_detail_number(const struct ct_detail_thread *thread, uint32_t number);
/* The run with this number; NULL: the event was lost, or, if it is beyond thread->newest, is not drained yet. */
const struct ct_detail_run *ct_detail_run_of(struct ct_detail_thread *thread, uint64_t number);
uint64_t ct_detail_run_time(const struct ct_detail_run *run, uint64_t stamp);
/* ---- detail_find.c: finding records in a segment ---- */

static inline const struct ct_shm_detail *ct_detail_record(const struct ct_detail *detail, size_t place) {
    return (const struct ct_shm_detail *)(detail->copy + detail->places[place].offset);
}
/* All records of the thread with numbers behind `last`, by number, in places[]. `live`: the thread may be filling it. */
size_t ct_detail_find(struct ct_drain *drain, const struct ct_drain_thread *thread, uint32_t segment, uint64_t last,
                      bool live);
/* When the oldest record that is still in the segment was made; 0: there is none. *wrapped: there were older ones. */
uint64_t ct_detail_oldest(const struct ct_drain *drain, const struct ct_drain_thread *thread, uint32_t segment,
                          bool *wrapped);
#endif
