/* Pairing of calls and ends in one thread's events.
 *
 * An end belongs to the open call at its depth. Where that is another function's (events are missing, or the file is wrong) it
 * belongs to the innermost open call of its function. Frames from before a gap are not trusted like that: such a frame is closed by
 * an end of its function at its depth, and is gone when something else ends there. A gap that nobody told of (the recorder was
 * killed) shows in depths that do not fit.
 *
 * A call's caller is the frame at the depth before, on the same stack; the first one on a stack was called by the frame that ran.
 * Traces from before stacks were told apart have all in one row: there the frame that ran is the caller of any.
 *
 * Time between two events belongs to the frame that ran; after an end that is the caller. Time that passed in a gap belongs to no
 * frame. Memory grows with the number of open calls only, and nothing is searched while depths fit. One owner. */
#ifndef CT_TRACE_FRAMES_H
#define CT_TRACE_FRAMES_H

#include "trace/depths.h"
#include <contrail/trace.h>

#define CT_NO_FRAME SIZE_MAX

/* Frames are known by their place, which they keep while they are open. */
struct ct_frame {
    uint64_t function;
    uint64_t start_ns;
    uint64_t skipped_ns; /* time in gaps before it began */
    uint64_t self_ns;    /* time in which it was the one that ran */
    uint64_t unknown;    /* not 0: stands for so many frames whose calls were not seen */
    void *user;
    uint64_t serial; /* 0: the place is free */
    uint64_t caller_serial;
    size_t caller;       /* see ct_frames_caller */
    size_t older, newer; /* in the order of calls; free places: the next one in `older` */
    uint32_t depth;      /* of one on another stack than the first; else 0 */
};

struct ct_frames {
    struct ct_frame *places;
    size_t used, capacity, free;
    size_t count; /* that are open, a run of unknown ones counted once */
    size_t newest;
    uint64_t serial;
    /* The first stack. */
    size_t *row;
    size_t row_count, row_capacity;
    size_t trusted; /* frames from here on were called after the last gap; unknown ones are below */
    uint64_t open;  /* frames of the row, unknown ones too */
    /* The others. */
    struct ct_depths others;
    bool many;           /* there were some: the row is one stack, and no more */
    size_t running;      /* place of the frame that runs, or CT_NO_FRAME */
    uint64_t last_ns;    /* time of the last event, 0: there was none, or a gap */
    uint64_t skipped_ns; /* time in gaps so far */
    bool complete;       /* no event of the thread is missing */
    bool after_gap;
    bool no_memory;
    /* The end of a frame was lost. */
    void (*lost)(void *arg, struct ct_frame *frame);
    void *arg;
};

/* Time in which at least one of some frames is open: that of the outermost where they are inside each other, and where coroutines take
 * turns it counts once. All zero: none is. */
struct ct_open_time {
    uint64_t since_ns; /* without gaps */
    uint32_t active;   /* frames that are open */
};

void ct_frames_begin(struct ct_frames *frames, bool complete, void (*lost)(void *arg, struct ct_frame *frame),
                     void *arg);
/* Before the first event: calls that are open (ct_trace_open_calls). They began at `ns` at the latest. */
void ct_frames_inherit(struct ct_frames *frames, const uint64_t *functions, size_t count, uint64_t ns);
/* Events are missing between the last one and the next; `ns` is the time between the two. */
void ct_frames_gap(struct ct_frames *frames, uint64_t ns);
/* The new frame, with `user` NULL; NULL when out of memory. Good until the next call. */
struct ct_frame *ct_frames_call(struct ct_frames *frames, const struct ct_trace_event *event);
/* False: its call was not seen. */
bool ct_frames_end(struct ct_frames *frames, const struct ct_trace_event *event, struct ct_frame *closed);
/* Takes the newest of those that are open at the end. False: none. */
bool ct_frames_take(struct ct_frames *frames, uint64_t end_ns, struct ct_frame *frame);
/* How long the frame lasted, without gaps. */
uint64_t ct_frames_duration(const struct ct_frames *frames, const struct ct_frame *frame, uint64_t end_ns);
/* The frame is one of those from now on. */
void ct_frames_open_time(const struct ct_frames *frames, const struct ct_frame *frame, struct ct_open_time *time);
/* One of them ends: how long they were open, if it was the last. */
uint64_t ct_frames_close_time(const struct ct_frames *frames, struct ct_open_time *time, uint64_t end_ns);

/* The frame at a place; NULL: none that was seen. */
struct ct_frame *ct_frames_at(const struct ct_frames *frames, size_t place);
/* The same, or the nearest of those that it was called in. */
struct ct_frame *ct_frames_known(const struct ct_frames *frames, size_t place);
/* Place of the frame that called it; CT_NO_FRAME: none, or it has ended. */
size_t ct_frames_caller(const struct ct_frames *frames, const struct ct_frame *frame);
/* A call that opens no frame: its caller's place. The caller runs: it may be on another stack than the frame before. */
size_t ct_frames_entry(struct ct_frames *frames, const struct ct_trace_event *event);
/* The frame that runs, if it was seen, or NULL. */
struct ct_frame *ct_frames_top(const struct ct_frames *frames);
void ct_frames_free(struct ct_frames *frames);

#endif
