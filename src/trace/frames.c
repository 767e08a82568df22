/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs calls with their ends.
 *
 * Invariants: `open` is the sum over the row, where a known frame counts 1 and an unknown run its length; no unknown
 * run lies at or above `trusted`, which is at most `row_count`. In the row, the depth of an end is the index of its
 * call among the open ones, or their number when its call was not seen at all (the recorder counts this way too). Open
 * places are listed in the order of calls. */
#include "trace/frames.h"
#include "base/grow.h"
#include "abi/atf.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FRAMES = 1 << 21, /* more than any recorder keeps; a file with more is wrong */
    MAX_SEARCH = 1 << 14, /* frames to search above the one that ends, where depths do not match */
    FIRST_CAPACITY = 256,
};

void ct_frames_begin(struct ct_frames *f, bool complete, void (*lost)(void *arg, struct ct_frame *frame), void *arg) {
    f->used = f->count = f->row_count = f->trusted = 0;
    f->free = f->newest = f->running = CT_NO_FRAME;
    f->open = f->skipped_ns = f->waited_ns = f->last_ns = 0;
    ct_depths_clear(&f->others);
    f->complete = complete;
    f->many = f->after_gap = f->no_memory = false;
    f->timeline = NULL;
    f->off = (struct ct_off){{0}};
    f->lost = lost;
    f->arg = arg;
}

uint64_t ct_frames_duration(const struct ct_frames *f, const struct ct_frame *frame, uint64_t end_ns) {
    uint64_t wall = end_ns > frame->start_ns ? end_ns - frame->start_ns : 0;
    uint64_t skipped = f->skipped_ns - frame->skipped_ns;
    return wall > skipped ? wall - skipped : 0;
}

uint64_t ct_frames_lasted(const struct ct_frames *f, const struct ct_frame *frame, uint64_t end_ns) {
    uint64_t wall = end_ns > frame->began_ns ? end_ns - frame->began_ns : 0, waited = f->waited_ns - frame->waited_ns;
    return wall > waited ? wall - waited : 0;
}

void ct_frames_open_time(const struct ct_frames *f, const struct ct_frame *frame, struct ct_open_time *time) {
    if (time->active++)
        return;
    time->since_ns = frame->start_ns - f->skipped_ns;
    time->off = f->off;
}

uint64_t ct_frames_close_time(const struct ct_frames *f, struct ct_open_time *time, uint64_t end_ns) {
    uint64_t now_ns = end_ns - f->skipped_ns;
    bool last = --time->active == 0;
    return last && (int64_t)(now_ns - time->since_ns) > 0 ? now_ns - time->since_ns : 0;
}

void ct_off_add(struct ct_off *sum, const struct ct_off *more) {
    for (int i = 0; i < CT_OFF_KINDS; i++)
        sum->ns[i] += more->ns[i];
}

uint64_t ct_off_rest(uint64_t time_ns, const struct ct_off *off) {
    uint64_t away = 0;
    for (int i = 0; i < CT_OFF_KINDS; i++)
        away += off->ns[i];
    return time_ns > away ? time_ns - away : 0;
}

static struct ct_off off_since(const struct ct_frames *f, const struct ct_off *before) {
    struct ct_off off;
    for (int i = 0; i < CT_OFF_KINDS; i++)
        off.ns[i] = f->off.ns[i] - before->ns[i];
    return off;
}

struct ct_off ct_frames_off(const struct ct_frames *f, const struct ct_frame *frame) {
    return off_since(f, &frame->off_before);
}

void ct_frames_close_off(const struct ct_frames *f, const struct ct_open_time *time, struct ct_off *sum) {
    const struct ct_off off = off_since(f, &time->off);
    if (!time->active)
        ct_off_add(sum, &off);
}

/* ---- places ---- */

static bool is_open(const struct ct_frames *f, size_t place) {
    return place < f->used && f->places[place].serial;
}

/* Field by field: gcc clears a structure of this size by rep stos, which is slow to start. */
static inline void clear_frame(struct ct_frame *frame) {
    frame->function = frame->start_ns = frame->began_ns = frame->sequence = 0;
    frame->skipped_ns = frame->waited_ns = frame->self_ns = frame->unknown = 0;
    frame->off_before = frame->off_self = (struct ct_off){{0}};
    frame->user = NULL;
    frame->depth = frame->detail = frame->called_at = 0;
}

static inline struct ct_frame *new_frame(struct ct_frames *f, size_t caller) {
    if (!ct_grow(&f->places, &f->capacity, f->free == CT_NO_FRAME ? f->used : 0, sizeof *f->places, FIRST_CAPACITY)) {
        f->no_memory = true;
        return NULL;
    }
    size_t place = f->free;
    if (place == CT_NO_FRAME) {
        place = f->used++;
        f->places[place].serial = 0;
    } else {
        f->free = f->places[place].older;
    }
    struct ct_frame *frame = &f->places[place];
    uint64_t caller_serial = is_open(f, caller) ? f->places[caller].serial : 0;
    clear_frame(frame);
    frame->caller = caller_serial ? caller : CT_NO_FRAME;
    frame->caller_serial = caller_serial;
    frame->serial = ++f->serial;
    frame->older = f->newest;
    frame->newer = CT_NO_FRAME;
    if (f->newest != CT_NO_FRAME)
        f->places[f->newest].newer = place;
    f->newest = place;
    f->count++;
    return frame;
}

static size_t place_of(const struct ct_frames *f, const struct ct_frame *frame) {
    return (size_t)(frame - f->places);
}

/* The frame keeps what is known about it until the place is used again. */
static inline struct ct_frame *free_place(struct ct_frames *f, size_t place) {
    struct ct_frame *frame = &f->places[place];
    if (frame->newer != CT_NO_FRAME)
        f->places[frame->newer].older = frame->older;
    else
        f->newest = frame->older;
    if (frame->older != CT_NO_FRAME)
        f->places[frame->older].newer = frame->newer;
    frame->serial = 0;
    frame->older = f->free;
    f->free = place;
    f->count--;
    return frame;
}

static void close_place(struct ct_frames *f, size_t place, struct ct_frame *closed) {
    *closed = *free_place(f, place);
}

static void lose_frame(struct ct_frames *f, size_t place) {
    struct ct_frame lost;
    close_place(f, place, &lost);
    if (!lost.unknown)
        f->lost(f->arg, &lost);
}

struct ct_frame *ct_frames_at(const struct ct_frames *f, size_t place) {
    return is_open(f, place) && !f->places[place].unknown ? &f->places[place] : NULL;
}

size_t ct_frames_caller(const struct ct_frames *f, const struct ct_frame *frame) {
    bool same = is_open(f, frame->caller) && f->places[frame->caller].serial == frame->caller_serial;
    return same ? frame->caller : CT_NO_FRAME;
}

struct ct_frame *ct_frames_known(const struct ct_frames *f, size_t place) {
    while (is_open(f, place) && f->places[place].unknown)
        place = ct_frames_caller(f, &f->places[place]);
    return ct_frames_at(f, place);
}

struct ct_frame *ct_frames_top(const struct ct_frames *f) {
    return ct_frames_at(f, f->running);
}

struct ct_frame *ct_frames_next(const struct ct_frames *f, const struct ct_frame *frame) {
    size_t place = f->newest;
    if (frame)
        place = frame->newer;
    else
        while (place != CT_NO_FRAME && f->places[place].older != CT_NO_FRAME)
            place = f->places[place].older;
    while (place != CT_NO_FRAME && f->places[place].unknown)
        place = f->places[place].newer;
    return place != CT_NO_FRAME ? &f->places[place] : NULL;
}

/* ---- time ---- */

/* There are waits, or time off the processor, since the last event. */
static __attribute__((noinline)) void pass_spans(struct ct_frames *f, uint64_t now_ns) {
    struct ct_off off = {{0}};
    uint64_t waited = ct_timeline_pass(f->timeline, now_ns, &off);
    if (!f->last_ns || now_ns <= f->last_ns)
        return;
    f->skipped_ns += waited;
    f->waited_ns += waited;
    ct_off_add(&f->off, &off);
    if (!is_open(f, f->running))
        return;
    f->places[f->running].self_ns -= waited;
    ct_off_add(&f->places[f->running].off_self, &off);
}

/* The time since the last event belongs to the running frame, except for waits. After a gap it belongs to none. */
static inline void pass_time(struct ct_frames *f, uint64_t now_ns) {
    if (f->timeline && ct_timeline_is_quiet(f->timeline, now_ns))
        (void)ct_timeline_pass(f->timeline, now_ns, NULL);
    else if (f->timeline)
        pass_spans(f, now_ns);
    if (f->last_ns && now_ns > f->last_ns && is_open(f, f->running))
        f->places[f->running].self_ns += now_ns - f->last_ns;
    f->last_ns = now_ns;
}

void ct_frames_pass(struct ct_frames *f, uint64_t now_ns) {
    pass_time(f, now_ns);
}

void ct_frames_add_self(struct ct_frames *f, uint64_t self_ns, const struct ct_off *off) {
    if (!is_open(f, f->running))
        return;
    f->places[f->running].self_ns += self_ns;
    ct_off_add(&f->places[f->running].off_self, off);
}

void ct_frames_skip(struct ct_frames *f, uint64_t now_ns) {
    size_t running = f->running;
    f->running = CT_NO_FRAME;
    pass_time(f, now_ns);
    f->running = running;
}

void ct_frames_clip(struct ct_frames *f, uint64_t now_ns) {
    struct ct_off ignored = {{0}};
    uint64_t waited = f->timeline ? ct_timeline_pass(f->timeline, now_ns, &ignored) : 0;
    f->waited_ns += f->last_ns ? waited : 0;
    f->skipped_ns += f->last_ns ? waited : 0;
    for (size_t place = f->newest; place != CT_NO_FRAME; place = f->places[place].older) {
        struct ct_frame *frame = &f->places[place];
        frame->start_ns = now_ns;
        frame->skipped_ns = f->skipped_ns;
        frame->self_ns = 0;
        frame->off_before = f->off;
        frame->off_self = (struct ct_off){{0}};
    }
    if (f->last_ns)
        f->last_ns = now_ns;
}

static size_t innermost(const struct ct_frames *f) {
    return f->row_count ? f->row[f->row_count - 1] : CT_NO_FRAME;
}

/* ---- the row ---- */

static struct ct_frame *push_frame(struct ct_frames *f, size_t caller) {
    if (!ct_grow(&f->row, &f->row_capacity, f->row_count, sizeof *f->row, FIRST_CAPACITY)) {
        f->no_memory = true;
        return NULL;
    }
    struct ct_frame *frame = new_frame(f, caller);
    if (frame)
        f->row[f->row_count++] = place_of(f, frame);
    return frame;
}

static void drop_down_to(struct ct_frames *f, uint64_t depth) {
    while (f->open > depth) {
        struct ct_frame *top = &f->places[innermost(f)];
        if (top->unknown > f->open - depth) {
            top->unknown -= f->open - depth;
            f->open = depth;
            return;
        }
        f->open -= top->unknown ? top->unknown : 1;
        lose_frame(f, f->row[--f->row_count]);
    }
}

static void fill_up_to(struct ct_frames *f, uint64_t depth) {
    size_t top = innermost(f);
    struct ct_frame *run = is_open(f, top) && f->places[top].unknown ? &f->places[top] : push_frame(f, top);
    if (!run)
        return;
    run->unknown += depth - f->open;
    f->open = depth;
}

/* Events are missing here: `depth` frames are open now. The remaining ones may be others than those we know. */
static void follow_depth(struct ct_frames *f, uint64_t depth) {
    if (f->open > depth)
        drop_down_to(f, depth);
    else if (f->open < depth)
        fill_up_to(f, depth);
    f->trusted = f->row_count;
    f->after_gap = false;
    f->running = innermost(f);
}

static struct ct_frame *call_in_row(struct ct_frames *f, uint32_t depth) {
    if (f->row_count >= MAX_FRAMES)
        follow_depth(f, 0);
    bool unexpected = f->complete && !f->many ? f->open < depth : f->open != depth;
    if (unexpected || f->after_gap)
        follow_depth(f, depth);
    struct ct_frame *frame = push_frame(f, f->many ? innermost(f) : f->running);
    f->open += frame != NULL;
    return frame;
}

void ct_frames_inherit(struct ct_frames *f, const uint64_t *functions, size_t count, uint64_t ns) {
    bool known = true;
    for (size_t i = 0; i < count && f->row_count < MAX_FRAMES; i++) {
        if (!functions[i]) {
            known = false;
            fill_up_to(f, f->open + 1);
            f->running = innermost(f);
            continue;
        }
        struct ct_frame *frame = push_frame(f, f->running);
        if (!frame)
            return;
        f->open++;
        f->running = innermost(f);
        frame->function = functions[i];
        frame->start_ns = frame->began_ns = ns;
        frame->detail = CT_TRACE_NO_DETAIL;
        frame->called_at = (uint32_t)i;
    }
    if (!known)
        f->trusted = f->row_count;
}

/* ---- the other stacks ---- */

static void lose_others(struct ct_frames *f) {
    if (!f->others.count)
        return;
    ct_depths_clear(&f->others);
    for (size_t place = f->newest, older; place != CT_NO_FRAME; place = older) {
        older = f->places[place].older;
        if (f->places[place].depth)
            lose_frame(f, place);
    }
}

void ct_frames_gap(struct ct_frames *f, uint64_t ns) {
    f->after_gap = true;
    f->last_ns = 0;
    f->skipped_ns += ns;
    lose_others(f);
}

static size_t other_at(const struct ct_frames *f, uint32_t depth) {
    uint64_t place;
    return ct_depths_get(&f->others, depth, &place) ? (size_t)place : CT_NO_FRAME;
}

/* The frame that called a frame at this depth; CT_NO_FRAME: it is the first one, or events are missing. */
static size_t frame_before(const struct ct_frames *f, uint32_t depth) {
    return ATF_DEPTH_PLACE(depth) ? other_at(f, depth - 1) : CT_NO_FRAME;
}

static struct ct_frame *call_on_other(struct ct_frames *f, uint32_t depth) {
    f->many = true;
    if (f->count >= MAX_FRAMES)
        lose_others(f);
    size_t old = other_at(f, depth), caller = frame_before(f, depth);
    if (old != CT_NO_FRAME)
        lose_frame(f, old); /* its end is missing */
    if (caller == CT_NO_FRAME && is_open(f, f->running))
        caller = f->running;
    struct ct_frame *frame = new_frame(f, caller);
    if (!frame)
        return NULL;
    frame->depth = depth;
    if (!ct_depths_put(&f->others, depth, place_of(f, frame)))
        f->no_memory = true;
    return frame;
}

static bool end_on_other(struct ct_frames *f, const struct ct_trace_event *event, struct ct_frame *closed) {
    size_t at = other_at(f, event->depth), before = frame_before(f, event->depth);
    if (at == CT_NO_FRAME) {
        f->running = before;
        return false;
    }
    ct_depths_remove(&f->others, event->depth);
    close_place(f, at, closed);
    bool same = closed->function == event->function_id;
    f->running = before != CT_NO_FRAME ? before : ct_frames_caller(f, closed);
    if (!same)
        f->lost(f->arg, closed);
    return same;
}

struct ct_frame *ct_frames_call(struct ct_frames *f, const struct ct_trace_event *event) {
    pass_time(f, event->timestamp_ns);
    struct ct_frame *frame =
        event->depth & ATF_DEPTH_OTHER ? call_on_other(f, event->depth) : call_in_row(f, event->depth);
    if (!frame)
        return NULL;
    f->running = place_of(f, frame);
    frame->function = event->function_id;
    frame->start_ns = frame->began_ns = event->timestamp_ns;
    frame->sequence = event->sequence;
    frame->detail = event->detail;
    frame->called_at = event->depth;
    frame->skipped_ns = f->skipped_ns;
    frame->waited_ns = f->waited_ns;
    frame->off_before = f->off;
    return frame;
}

size_t ct_frames_entry(struct ct_frames *f, const struct ct_trace_event *event) {
    size_t before = CT_NO_FRAME;
    if (f->after_gap)
        return CT_NO_FRAME;
    if (event->depth & ATF_DEPTH_OTHER)
        before = frame_before(f, event->depth);
    else if (f->many && f->open == event->depth)
        before = innermost(f);
    if (before != CT_NO_FRAME && before != f->running) {
        pass_time(f, event->timestamp_ns);
        f->running = before;
    }
    return f->running;
}

/* ---- going on in the middle ---- */

static bool resume_frame(struct ct_frames *f, const struct ct_frames_saved *saved) {
    bool other = !saved->unknown && saved->called_at & ATF_DEPTH_OTHER;
    if (saved->caller != CT_NO_FRAME && saved->caller >= f->used)
        return false;
    struct ct_frame *frame = other ? new_frame(f, saved->caller) : push_frame(f, saved->caller);
    if (!frame)
        return false;
    frame->function = saved->function;
    frame->start_ns = frame->began_ns = saved->start_ns;
    frame->sequence = saved->sequence;
    frame->detail = saved->detail;
    frame->called_at = saved->called_at;
    frame->skipped_ns = saved->skipped_ns;
    frame->waited_ns = saved->waited_ns;
    frame->self_ns = saved->self_ns;
    frame->off_before = saved->off_before;
    frame->off_self = saved->off_self;
    frame->unknown = saved->unknown;
    if (other) {
        frame->depth = saved->called_at;
        return ct_depths_put(&f->others, frame->depth, place_of(f, frame));
    }
    f->open += saved->unknown ? saved->unknown : 1;
    return true;
}

bool ct_frames_resume(struct ct_frames *f, const struct ct_frames_state *state) {
    if (f->used || state->count > MAX_FRAMES || (state->running != CT_NO_FRAME && state->running >= state->count))
        return false;
    for (size_t i = 0; i < state->count; i++)
        if (!resume_frame(f, &state->frames[i]))
            return false;
    if (state->trusted > f->row_count || f->others.count + f->row_count != f->count)
        return false;
    for (size_t i = state->trusted; i < f->row_count; i++)
        if (f->places[f->row[i]].unknown)
            return false;
    f->trusted = state->trusted;
    f->running = state->running;
    f->last_ns = state->last_ns;
    f->skipped_ns = state->skipped_ns;
    f->waited_ns = state->waited_ns;
    f->off = state->off;
    struct ct_off included = {{0}};
    if (f->timeline)
        (void)ct_timeline_pass(f->timeline, state->timeline_ns, &included);
    f->many = state->many;
    f->after_gap = state->after_gap;
    return true;
}

/* ---- ends in the row ---- */

/* The innermost trusted frame of the function, in the row. */
static size_t find_trusted(const struct ct_frames *f, const struct ct_trace_event *event) {
    uint64_t above = f->open - event->depth; /* frames at and above its depth */
    if (event->depth < f->open && above <= f->row_count - f->trusted &&
        f->places[f->row[f->row_count - above]].function == event->function_id)
        return f->row_count - (size_t)above;
    size_t stop = f->row_count - f->trusted > MAX_SEARCH ? f->row_count - MAX_SEARCH : f->trusted;
    for (size_t i = f->row_count; i > stop; i--)
        if (f->places[f->row[i - 1]].function == event->function_id)
            return i - 1;
    return CT_NO_FRAME;
}

/* The frame or run that is open at this depth, which is less than `open`. */
static size_t find_depth(const struct ct_frames *f, uint64_t depth) {
    uint64_t above = f->open - depth; /* frames at and above it */
    size_t i = f->row_count;
    for (uint64_t seen = 0; i > 0 && seen < above;) {
        i--;
        seen += f->places[f->row[i]].unknown ? f->places[f->row[i]].unknown : 1;
    }
    return i;
}

/* Sets the frame that runs after the end of a frame of the row. */
static inline void go_back(struct ct_frames *f, const struct ct_frame *closed) {
    f->running = f->many ? CT_NO_FRAME : ct_frames_caller(f, closed);
    if (f->running == CT_NO_FRAME)
        f->running = innermost(f);
}

/* Takes the frame out of the row. */
static void take_out(struct ct_frames *f, size_t at, struct ct_frame *closed) {
    close_place(f, f->row[at], closed);
    f->row_count--;
    f->open--;
    f->trusted -= at < f->trusted;
    memmove(&f->row[at], &f->row[at + 1], (f->row_count - at) * sizeof *f->row);
    go_back(f, closed);
}

/* No trusted frame ends here: a frame from before the gap ends, or one whose call was not seen. */
static bool end_doubtful(struct ct_frames *f, const struct ct_trace_event *event, struct ct_frame *closed) {
    if (event->depth >= f->open)
        return false; /* a frame of another thread (a coroutine that moved), or closed before */
    size_t at = find_depth(f, event->depth);
    if (at >= f->trusted) {
        if (f->complete)
            return false;
        follow_depth(f, event->depth + 1ull); /* a gap that was not reported */
        at = f->row_count - 1;
    }
    struct ct_frame *frame = &f->places[f->row[at]];
    if (frame->unknown > 1) {
        frame->unknown--;
        f->open--;
        f->running = innermost(f);
        return false;
    }
    bool unknown = frame->unknown, same = frame->function == event->function_id;
    take_out(f, at, closed);
    if (!unknown && !same)
        f->lost(f->arg, closed);
    return !unknown && same;
}

static bool end_somewhere(struct ct_frames *f, const struct ct_trace_event *event, struct ct_frame *closed) {
    if (event->depth & ATF_DEPTH_OTHER)
        return end_on_other(f, event, closed);
    if (f->after_gap)
        follow_depth(f, event->depth + 1ull);
    size_t at = find_trusted(f, event);
    if (at != CT_NO_FRAME) {
        uint64_t depth = f->open - (f->row_count - at);
        if (f->complete || depth == event->depth || f->open == event->depth + 1ull) {
            take_out(f, at, closed);
            return true;
        }
        follow_depth(f, event->depth + 1ull);
    }
    return end_doubtful(f, event, closed);
}

/* Nearly all ends are those of the innermost frame of the row: nothing is copied then. */
const struct ct_frame *ct_frames_close(struct ct_frames *f, const struct ct_trace_event *event) {
    pass_time(f, event->timestamp_ns);
    if (event->depth + 1ull == f->open && f->row_count > f->trusted && !f->after_gap &&
        !(event->depth & ATF_DEPTH_OTHER)) {
        size_t place = innermost(f);
        if (f->places[place].function == event->function_id) {
            struct ct_frame *frame = free_place(f, place);
            f->row_count--;
            f->open--;
            go_back(f, frame);
            return frame;
        }
    }
    return end_somewhere(f, event, &f->closed) ? &f->closed : NULL;
}

bool ct_frames_end(struct ct_frames *f, const struct ct_trace_event *event, struct ct_frame *closed) {
    const struct ct_frame *frame = ct_frames_close(f, event);
    if (frame)
        *closed = *frame;
    return frame != NULL;
}

bool ct_frames_take(struct ct_frames *f, uint64_t end_ns, struct ct_frame *frame) {
    pass_time(f, end_ns);
    while (f->count) {
        close_place(f, f->newest, frame);
        if (!frame->unknown)
            return true;
    }
    f->open = f->row_count = f->trusted = 0;
    ct_depths_clear(&f->others);
    return false;
}

void ct_frames_free(struct ct_frames *f) {
    free(f->places);
    free(f->row);
    ct_depths_free(&f->others);
    *f = (struct ct_frames){0};
}
