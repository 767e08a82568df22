/* Pairing of calls and ends in one thread's events.
 *
 * An end belongs to the innermost open call of its function: the innermost of all, unless coroutines take turns.
 * Frames from before a gap are not trusted like that: such a frame is closed by an end of its function at its depth,
 * and is gone when something else ends there. A gap that nobody told of (the recorder was killed) shows in depths
 * that do not fit.
 *
 * Time between two events belongs to the frame that ran; after an end that is the caller, which with coroutines need
 * not be the innermost frame. Time that passed in a gap belongs to no frame. Memory grows with the depth of calls
 * only. One owner. */
#ifndef CT_TRACE_FRAMES_H
#define CT_TRACE_FRAMES_H

#include <contrail/trace.h>

#define CT_NO_FRAME SIZE_MAX

struct ct_frame {
    uint64_t function;
    uint64_t start_ns;
    uint64_t skipped_ns; /* time in gaps before it began */
    uint64_t self_ns;    /* time in which it was the one that ran */
    uint64_t unknown;    /* not 0: stands for so many frames whose calls were not seen */
    size_t caller;       /* place on the stack of the frame that ran when it was called; CT_NO_FRAME */
    void *user;
};

struct ct_frames {
    struct ct_frame *stack;
    size_t count, capacity;
    size_t trusted;      /* frames from here on were called after the last gap; unknown ones are below */
    size_t running;      /* place of the frame that runs, or CT_NO_FRAME */
    uint64_t last_ns;    /* time of the last event, 0: there was none, or a gap */
    uint64_t open;       /* frames, unknown ones too */
    uint64_t skipped_ns; /* time in gaps so far */
    bool complete;       /* no event of the thread is missing */
    bool after_gap;
    bool no_memory;
    /* The end of a frame was lost. */
    void (*lost)(void *arg, struct ct_frame *frame);
    void *arg;
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
/* Takes the innermost frame of those that are open at the end. False: none. */
bool ct_frames_take(struct ct_frames *frames, uint64_t end_ns, struct ct_frame *frame);
/* How long the frame lasted, without gaps. */
uint64_t ct_frames_duration(const struct ct_frames *frames, const struct ct_frame *frame, uint64_t end_ns);
/* The innermost frame that was seen, or NULL. */
struct ct_frame *ct_frames_top(struct ct_frames *frames);
void ct_frames_free(struct ct_frames *frames);

#endif
