/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the events of a part of a thread without those before it, so that several parts are counted at once.
 *
 * Of the calls that are open where the range begins, only their number is known, from the first event. Calls that begin
 * and end in the range are counted into tallies of the range. The rest is noted for the owner of the frames: ends of
 * calls from before the range, with the time that they ran in it, and the calls that are open where it ends.
 *
 * The time of a function counts once where it calls itself, and whether a call from before the range is one of the same
 * function is not known here. So these times are noted apart, for each stretch between two ends of calls from before.
 *
 * Only plain events are counted: each call at the depth that is reached, each end one of the innermost call, times that
 * never go back. After anything else (gaps, other stacks, damage) the range is not plain and counts nothing: the owner
 * reads it event by event. So does the owner of frames that are not plain (trace/frames.h). The result is the same.
 *
 * One owner; several ranges of a trace may be counted at once, each with a reader of its own. */
#ifndef CT_REPORT_RANGE_H
#define CT_REPORT_RANGE_H

#include "report/scan.h"
#include "report/fits.h"
#include "report/tally.h"
#include "trace/reader.h"
#include <pthread.h>

/* What all ranges of a thread share. */
struct ct_range_source {
    struct ct_trace *trace;
    const struct ct_facts *facts;
    size_t thread;
    pthread_mutex_t *names;     /* held during lookups of functions */
    const struct ct_fits *fits; /* NULL: all calls */
    uint64_t to_ns;             /* events from this time on are not plain; 0: no limit */
    enum ct_report_spread spread;
    /* For readers that do not count, but walk through the events themselves afterwards: the most events of a range. The
     * reader keeps them, the range has their self times, and the tallies say no more than which functions are called.
     * 0: ranges are counted. */
    size_t kept;
};

/* Reads ranges, the earlier ones first. */
struct ct_range_reader {
    const struct ct_range_source *source;
    struct ct_index index;          /* of its own: readers must not wait for each other */
    struct ct_timeline timeline;    /* only goes forward */
    struct atf_index_event *events; /* `kept`: all of the range */
};

int ct_range_reader_open(struct ct_range_reader *reader, const struct ct_range_source *source);
void ct_range_reader_close(struct ct_range_reader *reader);

/* Where a range is: one with a gap in front of its events is read by the owner of the frames. */
struct ct_range_piece {
    uint64_t first, end;
    bool gap;
};
/* Divides events into ranges of up to `size` events, at ends of blocks where it can; malloc'ed. False: no memory. */
bool ct_range_cut(struct ct_range_piece **pieces, size_t *count, const struct ct_range_source *source, uint64_t first,
                  uint64_t end, uint64_t size);

/* The end of a call from before the range. */
struct ct_range_end {
    struct ct_trace_event event;
    uint64_t self_ns; /* time in which it was the running call, in this range */
    struct ct_off off_self;
    size_t parts; /* number of parts before the end */
    size_t self;  /* its place in `selves` */
};

/* A call: `tally` is NULL where it does not fit. */
struct ct_range_call {
    uint64_t function;
    struct ct_tally *tally;
    uint64_t start_ns, self_ns, sequence, skipped_ns;
    struct ct_off off_before, off_self;
    uint32_t detail;
};

/* Time in which a function was open, between two ends of calls from before the range. */
struct ct_range_part {
    const struct ct_tally *tally;
    uint64_t total_ns;
    struct ct_off off;
};

struct ct_range {
    uint64_t first, end;          /* positions */
    bool plain;                   /* false: nothing else is valid */
    uint64_t open;                /* calls that are open before the first event */
    uint64_t first_ns, last_ns;   /* of the first and the last event */
    uint64_t begin_ns, passed_ns; /* of those, without signals and entry-only calls; 0: there are none */
    uint64_t events, calls, exceptions;
    struct ct_range_end *ends;
    uint64_t *end_functions; /* of `ends` */
    size_t end_count, end_room, function_room;
    struct ct_range_part *parts;
    size_t part_count, part_room;
    struct ct_tally **touched; /* the tallies that count something */
    size_t touched_count, touched_room;
    /* `kept`: self time of each call that ends, in order; of those from before only the part in the range */
    uint64_t *selves;
    size_t self_count, self_room;
    /* stack[0]: time of the calls from before, since the last end of one; the others are open at the range's end */
    struct ct_range_call *stack;
    size_t used, stack_room; /* `used` without the first */
    /* private */
    struct ct_table tallies; /* kept from range to range */
    struct ct_range_known {
        uint64_t function;
        struct ct_tally *tally;
    } * known; /* of recent functions */
    uint32_t part_number;
    uint64_t skipped_ns; /* time in waits so far */
    struct ct_off off;
};

/* Counts the events from `first` to `end`. */
void ct_range_count(struct ct_range *range, struct ct_range_reader *reader, uint64_t first, uint64_t end);
/* The tally of a function that is called in the range. */
struct ct_tally *ct_range_tally(struct ct_range *range, const struct ct_range_source *source, uint64_t function);

/* True when the range continues exactly where the frames are, which have what is before `scan->next`. */
bool ct_range_continues(const struct ct_range *range, const struct ct_frames *frames, const struct ct_scan *scan);
struct ct_range_taker {
    /* A call from before the range ends: closes its frame. */
    void (*end)(void *arg, const struct ct_range_end *end);
    /* A call of the range is open at its end, and has this frame. */
    void (*open)(void *arg, const struct ct_range_call *call, struct ct_frame *frame);
    void *arg;
};
/* Does to the frames what the events of the range would do, and moves the scan to its end. False: no memory. */
bool ct_range_take(const struct ct_range *range, struct ct_frames *frames, struct ct_scan *scan,
                   const struct ct_range_taker *taker);
/* Forgets what was counted, and keeps the memory. */
void ct_range_clear(struct ct_range *range);
void ct_range_free(struct ct_range *range);

#endif
