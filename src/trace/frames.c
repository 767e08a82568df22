/* Pairing of calls and ends.
 *
 * Invariants: `open` is the sum over the stack, where a known frame counts 1 and an unknown run its length; no
 * unknown run lies at or above `trusted`, which is at most `count`. The depth of an end is the place of its call
 * among the open ones, or their number when its call was not seen at all (the recorder counts in the same way). */
#include "trace/frames.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FRAMES = 1 << 21, /* more than any recorder keeps; a file that says otherwise is wrong */
    MAX_SEARCH = 1 << 14, /* suspended frames that may lie above the one that ends */
    FIRST_CAPACITY = 256,
};

void ct_frames_begin(struct ct_frames *f, bool complete, void (*lost)(void *arg, struct ct_frame *frame), void *arg) {
    f->count = f->trusted = 0;
    f->open = f->skipped_ns = f->last_ns = 0;
    f->running = CT_NO_FRAME;
    f->complete = complete;
    f->after_gap = f->no_memory = false;
    f->lost = lost;
    f->arg = arg;
}

void ct_frames_gap(struct ct_frames *f, uint64_t ns) {
    f->after_gap = true;
    f->last_ns = 0;
    f->skipped_ns += ns;
}

struct ct_frame *ct_frames_top(struct ct_frames *f) {
    return f->count && !f->stack[f->count - 1].unknown ? &f->stack[f->count - 1] : NULL;
}

uint64_t ct_frames_duration(const struct ct_frames *f, const struct ct_frame *frame, uint64_t end_ns) {
    uint64_t wall = end_ns > frame->start_ns ? end_ns - frame->start_ns : 0;
    uint64_t skipped = f->skipped_ns - frame->skipped_ns;
    return wall > skipped ? wall - skipped : 0;
}

/* The time since the last event was the running frame's. */
static void pass_time(struct ct_frames *f, uint64_t now_ns) {
    if (f->running < f->count && f->last_ns && now_ns > f->last_ns)
        f->stack[f->running].self_ns += now_ns - f->last_ns;
    f->last_ns = now_ns;
}

static void run_innermost(struct ct_frames *f) {
    f->running = f->count ? f->count - 1 : CT_NO_FRAME;
}

static struct ct_frame *push(struct ct_frames *f) {
    if (f->count == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : FIRST_CAPACITY;
        struct ct_frame *grown = realloc(f->stack, capacity * sizeof *grown);
        if (!grown) {
            f->no_memory = true;
            return NULL;
        }
        f->stack = grown;
        f->capacity = capacity;
    }
    struct ct_frame *frame = &f->stack[f->count++];
    *frame = (struct ct_frame){.caller = f->running};
    return frame;
}

/* ---- depths ---- */

static void drop_down_to(struct ct_frames *f, uint64_t depth) {
    while (f->open > depth) {
        struct ct_frame *top = &f->stack[f->count - 1];
        if (top->unknown > f->open - depth) {
            top->unknown -= f->open - depth;
            f->open = depth;
            return;
        }
        f->open -= top->unknown ? top->unknown : 1;
        f->count--;
        if (!top->unknown)
            f->lost(f->arg, top);
    }
}

static void fill_up_to(struct ct_frames *f, uint64_t depth) {
    struct ct_frame *run = f->count && f->stack[f->count - 1].unknown ? &f->stack[f->count - 1] : push(f);
    if (!run)
        return;
    run->unknown += depth - f->open;
    f->open = depth;
}

/* Events are missing here: so many frames are open now. Those that are left may be others than we know. */
static void follow_depth(struct ct_frames *f, uint64_t depth) {
    if (f->open > depth)
        drop_down_to(f, depth);
    else if (f->open < depth)
        fill_up_to(f, depth);
    f->trusted = f->count;
    f->after_gap = false;
    run_innermost(f);
}

struct ct_frame *ct_frames_call(struct ct_frames *f, const struct ct_trace_event *event) {
    pass_time(f, event->timestamp_ns);
    if (f->count >= MAX_FRAMES)
        follow_depth(f, 0);
    bool unexpected = f->complete ? f->open < event->depth : f->open != event->depth;
    if (unexpected || f->after_gap)
        follow_depth(f, event->depth);
    struct ct_frame *frame = push(f);
    if (!frame)
        return NULL;
    f->open++;
    f->running = f->count - 1;
    frame->function = event->function_id;
    frame->start_ns = event->timestamp_ns;
    frame->skipped_ns = f->skipped_ns;
    return frame;
}

void ct_frames_inherit(struct ct_frames *f, const uint64_t *functions, size_t count, uint64_t ns) {
    bool known = true;
    for (size_t i = 0; i < count && f->count < MAX_FRAMES; i++) {
        if (!functions[i]) {
            known = false;
            fill_up_to(f, f->open + 1);
            continue;
        }
        struct ct_frame *frame = push(f);
        if (!frame)
            return;
        f->open++;
        f->running = f->count - 1;
        frame->function = functions[i];
        frame->start_ns = ns;
    }
    if (!known)
        f->trusted = f->count;
}

/* ---- ends ---- */

/* The innermost trusted frame of the function. */
static size_t find_trusted(const struct ct_frames *f, uint64_t function) {
    size_t stop = f->count - f->trusted > MAX_SEARCH ? f->count - MAX_SEARCH : f->trusted;
    for (size_t i = f->count; i > stop; i--)
        if (f->stack[i - 1].function == function)
            return i - 1;
    return CT_NO_FRAME;
}

/* The frame or run that is open at this depth, which is less than `open`. */
static size_t find_depth(const struct ct_frames *f, uint64_t depth) {
    uint64_t above = f->open - depth; /* frames at and above it */
    size_t i = f->count;
    for (uint64_t seen = 0; i > 0 && seen < above;) {
        i--;
        seen += f->stack[i].unknown ? f->stack[i].unknown : 1;
    }
    return i;
}

/* Takes a frame out of the middle: a coroutine ended a call whose callees go on. */
static void close_gap(struct ct_frames *f, size_t at) {
    memmove(&f->stack[at], &f->stack[at + 1], (f->count - at) * sizeof *f->stack);
    for (size_t i = at; i < f->count; i++) {
        if (f->stack[i].caller == at)
            f->stack[i].caller = CT_NO_FRAME;
        else if (f->stack[i].caller != CT_NO_FRAME && f->stack[i].caller > at)
            f->stack[i].caller--;
    }
}

/* Takes the frame out of the stack. */
static void take_out(struct ct_frames *f, size_t at, struct ct_frame *closed) {
    *closed = f->stack[at];
    f->count--;
    f->open--;
    f->trusted -= at < f->trusted;
    if (at < f->count)
        close_gap(f, at);
    f->running = closed->caller;
    if (f->running >= f->count)
        run_innermost(f);
}

/* No trusted frame ends here: one from before the gap does, or one whose call was not seen. */
static bool end_doubtful(struct ct_frames *f, const struct ct_trace_event *event, struct ct_frame *closed) {
    if (event->depth >= f->open)
        return false; /* of another thread (a coroutine that moved), or closed before */
    size_t at = find_depth(f, event->depth);
    if (at >= f->trusted) {
        if (f->complete)
            return false;
        follow_depth(f, event->depth + 1ull); /* a gap that nobody told of */
        at = f->count - 1;
    }
    struct ct_frame *frame = &f->stack[at];
    if (frame->unknown > 1) {
        frame->unknown--;
        f->open--;
        run_innermost(f);
        return false;
    }
    bool unknown = frame->unknown, same = frame->function == event->function_id;
    take_out(f, at, closed);
    if (!unknown && !same)
        f->lost(f->arg, closed);
    return !unknown && same;
}

bool ct_frames_end(struct ct_frames *f, const struct ct_trace_event *event, struct ct_frame *closed) {
    pass_time(f, event->timestamp_ns);
    if (f->after_gap)
        follow_depth(f, event->depth + 1ull);
    size_t at = find_trusted(f, event->function_id);
    if (at != CT_NO_FRAME) {
        uint64_t depth = f->open - (f->count - at);
        if (f->complete || depth == event->depth || f->open == event->depth + 1ull) {
            take_out(f, at, closed);
            return true;
        }
        follow_depth(f, event->depth + 1ull);
    }
    return end_doubtful(f, event, closed);
}

bool ct_frames_take(struct ct_frames *f, uint64_t end_ns, struct ct_frame *frame) {
    pass_time(f, end_ns);
    while (f->count) {
        *frame = f->stack[--f->count];
        f->open -= frame->unknown ? frame->unknown : 1;
        if (!frame->unknown)
            return true;
    }
    return false;
}

void ct_frames_free(struct ct_frames *f) {
    free(f->stack);
    *f = (struct ct_frames){0};
}
