/* Pairing of calls and ends.
 *
 * Invariant: `open` is the sum over the stack, where a known frame counts 1 and an unknown run its length. Where events are
 * missing, `open` follows the depths of the events. */
#include "report/frames.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FRAMES = 1 << 21, /* more than any recorder keeps; a file that says otherwise is wrong */
    MAX_SEARCH = 1 << 14, /* suspended frames that may lie above the one that ends */
    FIRST_CAPACITY = 256,
};

void ct_frames_begin(struct ct_frames *f, bool complete, void (*lost)(void *arg, struct ct_frame *frame), void *arg) {
    f->count = 0;
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

static void follow_depth(struct ct_frames *f, uint64_t depth) {
    if (f->open > depth && (f->after_gap || !f->complete))
        drop_down_to(f, depth);
    else if (f->open < depth)
        fill_up_to(f, depth);
    f->after_gap = false;
    run_innermost(f);
}

struct ct_frame *ct_frames_call(struct ct_frames *f, const struct ct_trace_event *event) {
    pass_time(f, event->timestamp_ns);
    if (f->count >= MAX_FRAMES) {
        drop_down_to(f, 0);
        run_innermost(f);
    }
    if (f->open != event->depth || f->after_gap)
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

/* ---- ends ---- */

/* The innermost frame of the function, not looking behind frames that are not known. */
static size_t find(const struct ct_frames *f, uint64_t function) {
    size_t stop = f->count > MAX_SEARCH ? f->count - MAX_SEARCH : 0;
    for (size_t i = f->count; i > stop; i--) {
        if (f->stack[i - 1].unknown && !f->complete)
            break;
        if (!f->stack[i - 1].unknown && f->stack[i - 1].function == function)
            return i - 1;
    }
    return SIZE_MAX;
}

/* Its call was not seen: it was one of the unknown frames, or, where events are missing, the innermost one's place was taken
 * by another call. In a complete thread the frame came from another thread (a coroutine that moved), or was closed before. */
static void end_unknown(struct ct_frames *f) {
    if (!f->count)
        return;
    struct ct_frame *top = &f->stack[f->count - 1];
    if (top->unknown > 1) {
        top->unknown--;
        f->open--;
    } else if (top->unknown || !f->complete) {
        drop_down_to(f, f->open - 1);
    }
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

bool ct_frames_end(struct ct_frames *f, const struct ct_trace_event *event, struct ct_frame *closed) {
    pass_time(f, event->timestamp_ns);
    if (f->after_gap || (!f->complete && f->open != event->depth + 1ull))
        follow_depth(f, event->depth + 1ull);
    size_t at = f->count - 1;
    if (f->count == 0 || f->stack[at].unknown || f->stack[at].function != event->function_id)
        at = find(f, event->function_id);
    if (at == SIZE_MAX) {
        end_unknown(f);
        run_innermost(f);
        return false;
    }
    *closed = f->stack[at];
    f->count--;
    f->open--;
    if (at < f->count)
        close_gap(f, at);
    f->running = closed->caller;
    if (f->running >= f->count)
        run_innermost(f);
    return true;
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
