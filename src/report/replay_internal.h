/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the replay: calls (replay.c), calls that were selected one by one (replay_where.c), the code that was
 * executed in calls (replay_blocks.c), and traces that are being written (replay_stream.c). */
#ifndef CT_REPORT_REPLAY_INTERNAL_H
#define CT_REPORT_REPLAY_INTERNAL_H

#include "report/replay.h"
#include "report/replay_lines.h"
#include "report/fits.h"
#include "report/scan.h"
#include "report/where.h"
#include "trace/reader.h"

enum { CT_REPLAY_WINDOW = 65536 };

/* Where a block lies. */
struct ct_replay_place {
    const struct ct_cached_function *function; /* NULL: no function */
    const char *module;                        /* NULL: not looked up yet */
    uint64_t start;                            /* of the function */
    bool module_fits;
};

/* One thread of the trace. */
struct ct_replay_source {
    struct ct_replay_run *replay;
    size_t thread, process;
    struct ct_trace_event event;
    struct ct_frames frames; /* a frame's `user` is its struct ct_replay_call */
    const struct ct_gap *gaps;
    size_t gap_count, gap; /* gap: number of gaps before the event */
    char name[64];         /* of a stream: of the thread ... */
    uint32_t tid;          /* ... and its number */
    uint64_t next;         /* of a stream: position of the next event */
    uint64_t last_ns;
    uint64_t boundary;              /* ct_replay_skip_next is called before the event at this position */
    struct ct_replay_skip *skip;    /* NULL: every event is read */
    struct ct_replay_place *places; /* of blocks, by their number in the file of code */
    size_t place_count;
    struct ct_timeline passed; /* for the frames: durations without waits */
    struct ct_timeline ahead;  /* for lines */
    struct ct_off_span span;   /* the next one of these; to_ns 0: none */
};

struct ct_replay_run {
    struct ct_trace *trace;
    const struct ct_replay_options *options;
    struct ct_facts facts;
    struct ct_fits *fits; /* NULL: all calls */
    struct ct_function_cache known;
    struct ct_replay_lines lines;
    struct ct_trace_cursor *cursor;
    struct ct_replay_source **sources; /* for each thread of the trace; NULL: not selected */
    size_t source_count;
    bool past_range;                   /* there are events after the range */
    struct ct_where_values *values;    /* of a stream; NULL: they are not known */
    const size_t *indexes;             /* of a stream: in the trace that the values are read from, by thread */
    struct ct_replay_source **soonest; /* a heap of those that have a next span, by its beginning */
    size_t soonest_count;
};

/* Fills in a line of the thread at the time of its next event. A kept line is shown at once (replay_lines.h). */
void ct_replay_fill(const struct ct_replay_source *s, struct ct_replay_call *call, enum ct_replay_kind kind,
                    const struct ct_cached_function *known);
/* Appends a line that waits for nothing. */
void ct_replay_put(struct ct_replay_source *s, struct ct_replay_call *call);
/* The innermost open call, shown or not; NULL: none is known. */
struct ct_replay_call *ct_replay_top(struct ct_replay_source *s);
/* NULL: out of memory. */
struct ct_replay_source *ct_replay_add_source(struct ct_replay_run *r, size_t thread, size_t process, bool complete);
/* Handles the event of the source. */
void ct_replay_event(struct ct_replay_source *s);
/* Shows the gaps before the event with this number. */
void ct_replay_gaps(struct ct_replay_source *s, uint64_t sequence);
/* Closes the calls that are open at the end. */
void ct_replay_close_open(struct ct_replay_source *s, uint64_t end_ns);
void ct_replay_finish(struct ct_replay_run *r);

/* Makes the calls of the open frames, which have none. */
int ct_replay_resume(struct ct_replay_source *s);

/* Prepares to leave out events of the thread that show nothing, from position `first` on; the cursor is open. */
int ct_replay_skip_open(struct ct_replay_source *s, uint64_t first);
/* The next event of the thread is the one at `next`: leaves it out, with others, if it shows nothing. */
void ct_replay_skip_next(struct ct_replay_source *s, uint64_t next);
void ct_replay_skip_close(struct ct_replay_source *s);

/* Names the calls around a call that was selected by itself; the caller is at this place. */
void ct_replay_name_callers(const struct ct_replay_source *s, struct ct_replay_call *call, size_t caller);
/* Of a stream: true when the call fits `where`; `frame` NULL: it is of a function that is recorded on entry only. */
bool ct_replay_fits(struct ct_replay_source *s, const struct ct_cached_function *known, uint32_t depth,
                    const struct ct_frame *frame, uint64_t end_ns, uint32_t end_detail);
/* Of a stream: shows a call that has ended, if it fits `where`. */
void ct_replay_late(struct ct_replay_source *s, const struct ct_frame *frame, uint64_t end_ns, enum ct_replay_end end);

/* Finds waits and time off the processor of a source (replay_times.c). Its trace must have facts. */
int ct_replay_open_times(struct ct_replay_source *s);
void ct_replay_close_times(struct ct_replay_source *s);
/* All sources have their times: makes the heap. */
int ct_replay_start_times(struct ct_replay_run *r);
/* Shows what begins before `now_ns`, of all sources. */
void ct_replay_times(struct ct_replay_run *r, uint64_t now_ns);

/* Shows what a thread executed before its next event. */
void ct_replay_code(struct ct_replay_source *s, uint64_t time_ns, const struct ct_code_record *record);

#endif
