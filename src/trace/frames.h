/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs calls with their ends in the events of one thread.
 *
 * An end belongs to the open call at its depth. Where that is a call of another function (events are missing, or the
 * file is wrong), the end belongs to the innermost open call of its function. Frames from before a gap are trusted
 * less: an end of its function at its depth closes such a frame, and any other end there removes it. A gap that was not
 * reported (the recorder was killed) shows in depths that do not match.
 *
 * The caller of a call is the frame at the depth before, on the same stack. The first frame of a stack was called by
 * the frame that ran. Older traces, which do not distinguish stacks, have all frames in one row: there the frame that
 * ran is the caller.
 *
 * Time between two events belongs to the frame that ran; after an end that is the caller. Time in a gap belongs to no
 * frame, nor does time in which the thread waited for the recorder. Memory grows only with the number of open calls,
 * and nothing is searched while depths match. One owner. */
#ifndef CT_TRACE_FRAMES_H
#define CT_TRACE_FRAMES_H

#include "trace/depths.h"
#include "trace/timeline.h"
#include <contrail/trace.h>

#define CT_NO_FRAME SIZE_MAX

/* A frame is identified by its place, which it keeps while it is open. */
struct ct_frame {
    uint64_t function;
    uint64_t start_ns;                  /* where its time counts from: its call, or ct_frames_clip */
    uint64_t began_ns;                  /* time of its call */
    uint64_t sequence;                  /* position of its call in the thread */
    uint64_t skipped_ns;                /* time in gaps and waits before it began */
    uint64_t waited_ns;                 /* time in waits before its call */
    uint64_t self_ns;                   /* time in which it was the running frame */
    struct ct_off off_before, off_self; /* off the processor: before it began; of its self time */
    uint64_t unknown;                   /* not 0: number of frames that it represents, whose calls were not seen */
    void *user;
    uint64_t serial; /* 0: the place is free */
    uint64_t caller_serial;
    size_t caller;       /* see ct_frames_caller */
    size_t older, newer; /* in the order of calls; free places: the next one in `older` */
    uint32_t depth;      /* on another stack than the first; else 0 */
    uint32_t detail;     /* record of its call, or CT_TRACE_NO_DETAIL */
    uint32_t called_at;  /* depth of its call */
};

struct ct_frames {
    struct ct_frame *places;
    size_t used, capacity, free;
    size_t count; /* open frames; a run of unknown ones counts once */
    size_t newest;
    uint64_t serial;
    /* The first stack. */
    size_t *row;
    size_t row_count, row_capacity;
    size_t trusted; /* frames from here on were called after the last gap; unknown ones are below */
    uint64_t open;  /* frames of the row, unknown ones included */
    /* The other stacks. */
    struct ct_depths others;
    bool many;                    /* there were other stacks: the row is one stack only */
    size_t running;               /* place of the frame that runs, or CT_NO_FRAME */
    uint64_t last_ns;             /* time of the last event, 0: there was none, or a gap */
    uint64_t skipped_ns;          /* time in gaps and waits so far */
    uint64_t waited_ns;           /* of it: in waits */
    struct ct_timeline *timeline; /* of the thread; NULL: neither waits nor time off the processor are known */
    struct ct_off off;            /* off the processor so far, gaps and waits not counted */
    bool complete;                /* no event of the thread is missing */
    bool after_gap;
    bool no_memory;
    /* Called when the end of a frame was lost. */
    void (*lost)(void *arg, struct ct_frame *frame);
    void *arg;
    struct ct_frame closed; /* for ct_frames_close */
};

/* Time in which at least one frame of a set is open: where frames are nested, the time of the outermost; where
 * coroutines take turns, each moment counts once. All zero: none is open. */
struct ct_open_time {
    uint64_t since_ns; /* gaps not counted */
    struct ct_off off;
    uint32_t active; /* frames of the set that are open */
};

/* The caller may set `timeline` afterwards. */
void ct_frames_begin(struct ct_frames *frames, bool complete, void (*lost)(void *arg, struct ct_frame *frame),
                     void *arg);
/* Sets the calls that are open before the first event (ct_trace_open_calls). They began at `ns` at the latest. */
void ct_frames_inherit(struct ct_frames *frames, const uint64_t *functions, size_t count, uint64_t ns);
/* The frames as they are in the middle of a thread's events, oldest first. */
struct ct_frames_saved {
    uint64_t function, start_ns, sequence, skipped_ns, waited_ns, self_ns;
    struct ct_off off_before, off_self;
    uint64_t unknown;
    size_t caller; /* number of the frame in this list, or CT_NO_FRAME */
    uint32_t detail, called_at;
};
struct ct_frames_state {
    const struct ct_frames_saved *frames;
    size_t count;
    size_t running; /* number of a frame, or CT_NO_FRAME */
    size_t trusted;
    uint64_t last_ns, skipped_ns, waited_ns;
    struct ct_off off;
    uint64_t timeline_ns; /* the timeline was passed up to here */
    bool many, after_gap;
};
/* Goes on where a state was saved, after ct_frames_begin, with the timeline set and not passed beyond. False: no
 * memory, or no frames can be in such a state. */
bool ct_frames_resume(struct ct_frames *frames, const struct ct_frames_state *state);
/* Events are missing between the last one and the next. `ns` is the time between the two. */
void ct_frames_gap(struct ct_frames *frames, uint64_t ns);
/* Returns the new frame, with `user` NULL; NULL when out of memory. Valid until the next call. */
struct ct_frame *ct_frames_call(struct ct_frames *frames, const struct ct_trace_event *event);
/* Returns the frame that has ended, valid until the next call; NULL: its call was not seen. */
const struct ct_frame *ct_frames_close(struct ct_frames *frames, const struct ct_trace_event *event);
/* ct_frames_close with a copy. False: the call was not seen. */
bool ct_frames_end(struct ct_frames *frames, const struct ct_trace_event *event, struct ct_frame *closed);
/* Time passes, as before an event. */
void ct_frames_pass(struct ct_frames *frames, uint64_t now_ns);
/* Time passes that belongs to none of these frames: calls that were counted elsewhere have it. */
void ct_frames_skip(struct ct_frames *frames, uint64_t now_ns);
/* Adds the part of such a time in which the running frame ran. */
void ct_frames_add_self(struct ct_frames *frames, uint64_t self_ns, const struct ct_off *off);
/* True when `open` frames are open, and events that continue from there do what they would do to any such frames: calls
 * at the depth that is reached, and ends of the innermost frame (frames_range.c). */
bool ct_frames_is_plain(const struct ct_frames *frames, uint64_t open);
/* True when that is so, and ends of these functions would close the innermost frames one by one. */
bool ct_frames_would_end(const struct ct_frames *frames, uint64_t open, const uint64_t *functions, size_t count);
/* Takes the newest frame that is open at the end. False: none. */
bool ct_frames_take(struct ct_frames *frames, uint64_t end_ns, struct ct_frame *frame);
/* Duration of the frame, without gaps and waits. */
uint64_t ct_frames_duration(const struct ct_frames *frames, const struct ct_frame *frame, uint64_t end_ns);
/* Duration of the whole call, whatever ct_frames_clip left out; with gaps, and without waits. */
uint64_t ct_frames_lasted(const struct ct_frames *frames, const struct ct_frame *frame, uint64_t end_ns);
/* How much of it was off the processor. The frame ends now. */
struct ct_off ct_frames_off(const struct ct_frames *frames, const struct ct_frame *frame);
/* Adds the frame to the set. */
void ct_frames_open_time(const struct ct_frames *frames, const struct ct_frame *frame, struct ct_open_time *time);
/* A frame of the set ends. Returns how long the set was open if it was the last one. */
uint64_t ct_frames_close_time(const struct ct_frames *frames, struct ct_open_time *time, uint64_t end_ns);
/* After it: adds how much of that was off the processor. */
void ct_frames_close_off(const struct ct_frames *frames, const struct ct_open_time *time, struct ct_off *sum);
void ct_off_add(struct ct_off *sum, const struct ct_off *more);
/* The part of a time that was on the processor. */
uint64_t ct_off_rest(uint64_t time_ns, const struct ct_off *off);

/* The frame at a place; NULL: none whose call was seen. */
struct ct_frame *ct_frames_at(const struct ct_frames *frames, size_t place);
/* The frame at a place, or the nearest known one that it was called in. */
struct ct_frame *ct_frames_known(const struct ct_frames *frames, size_t place);
/* Place of the caller; CT_NO_FRAME: none, or it has ended. */
size_t ct_frames_caller(const struct ct_frames *frames, const struct ct_frame *frame);
/* Place of the caller of a call that opens no frame. The caller runs now: it may be on another stack than the frame
 * before. */
size_t ct_frames_entry(struct ct_frames *frames, const struct ct_trace_event *event);
/* The open frames whose calls were seen, in the order of calls: the first after `frame`, or the first of all after
 * NULL. NULL: there are no more. */
struct ct_frame *ct_frames_next(const struct ct_frames *frames, const struct ct_frame *frame);
/* Counts time only from now on: the open frames begin here, but for their began_ns. */
void ct_frames_clip(struct ct_frames *frames, uint64_t now_ns);
/* The running frame, or NULL when its call was not seen. */
struct ct_frame *ct_frames_top(const struct ct_frames *frames);
void ct_frames_free(struct ct_frames *frames);

#endif
