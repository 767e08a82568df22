/* SPDX-License-Identifier: Apache-2.0 */
/* Reads calls: see calls.h.
 *
 * A call that fits ends in a span that says so: its function is in it, its longest call is long enough, the depths
 * match. Where beginnings are limited (start, id, parent), spans after the last beginning matter only for the ends of
 * calls that are still open: `waiting` counts these, and the thread is over when none is left. So the span with the
 * last beginning, the pivot, is always read: it shows which calls are open there. */
#include "query/calls.h"
#include "abi/atf.h"
#include "base/grow.h"
#include "report/scan_skip.h"
#include <stdlib.h>
#include <string.h>

enum { POLL_EVENTS = 1 << 16 };

/* `user` of an open frame whose call may fit, and of one that was made in the call `within`. */
static const char candidate, inside;
#define CANDIDATE ((void *)&candidate)
#define INSIDE    ((void *)&inside)

/* ---- functions ---- */

static inline struct ct_wanted_function *function_of(struct ct_call_reader *r, uint64_t function) {
    struct ct_wanted_function *f = ct_wanted_get(&r->wanted, function);
    if (!f)
        r->failed = CT_ERR_NO_MEMORY;
    return f;
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    const struct ct_wanted_function *f = function_of(arg, function);
    (void)process;
    return f && f->known->entry_only;
}

/* ---- which calls fit ---- */

static uint32_t shown_depth(uint32_t depth) {
    return depth & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(depth) : depth;
}

/* Was it made in the call that was asked for? `caller`: place of the frame that made it. */
static bool is_within(const struct ct_call_reader *r, uint64_t sequence, size_t caller) {
    const struct ct_frame *made_in = ct_frames_at(&r->frames, caller);
    if (r->below && sequence == r->within)
        return true;
    return made_in && (made_in->sequence == r->within || (r->below && made_in->user));
}

/* What is known when the call begins. */
static inline bool may_fit(struct ct_call_reader *r, uint64_t function, uint64_t sequence, uint64_t began_ns,
                           uint32_t depth) {
    if (sequence < r->low_seq || sequence > r->high_seq || began_ns < r->low_ns || began_ns > r->high_ns ||
        !ct_ask_fits(&r->ask, CT_ASK_DEPTH, shown_depth(depth)))
        return false;
    const struct ct_wanted_function *f = r->named ? function_of(r, function) : NULL;
    return !r->named || (f && f->wanted);
}

static inline bool takes_long_enough(const struct ct_call_reader *r, uint64_t duration_ns) {
    return duration_ns >= r->least_ns && (int64_t)duration_ns <= r->ask.ranges[CT_ASK_DURATION].high;
}

static inline void begin_call(struct ct_call_reader *r, struct ct_frame *frame) {
    if (r->within != CT_CALL_NO_PARENT) {
        if (!is_within(r, frame->sequence, ct_frames_caller(&r->frames, frame)))
            return;
        frame->user = INSIDE;
    }
    if (!may_fit(r, frame->function, frame->sequence, frame->began_ns, frame->called_at))
        return;
    frame->user = CANDIDATE;
    r->waiting++;
}

/* ---- rows ---- */

static inline void set_parent(const struct ct_call_reader *r, struct ct_call *call, size_t place) {
    const struct ct_frame *frame = ct_frames_at(&r->frames, place);
    call->parent = frame ? frame->sequence : CT_CALL_NO_PARENT;
    call->parent_function = frame ? frame->function : 0;
}

/* The frame has ended at this time. */
static inline bool end_call(struct ct_call_reader *r, const struct ct_frame *frame, uint64_t end_ns,
                            enum ct_call_end end, uint32_t end_detail) {
    r->over |= frame->sequence == r->within;
    if (frame->user != CANDIDATE)
        return false;
    r->waiting--;
    uint64_t duration = ct_frames_lasted(&r->frames, frame, end_ns);
    if (!takes_long_enough(r, duration))
        return false;
    r->call.sequence = frame->sequence;
    r->call.began_ns = frame->began_ns;
    r->call.function = frame->function;
    r->call.duration_ns = duration;
    r->call.self_ns = frame->self_ns;
    set_parent(r, &r->call, ct_frames_caller(&r->frames, frame));
    r->call.depth = shown_depth(frame->called_at);
    r->call.detail = frame->detail;
    r->call.end_detail = end_detail;
    r->call.end = end;
    return true;
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_call_reader *r = arg;
    r->over |= frame->sequence == r->within;
    if (frame->user != CANDIDATE)
        return;
    r->waiting--;
    if (ct_ask_is_given(&r->ask, CT_ASK_DURATION))
        return;
    if (!ct_grow(&r->lost, &r->lost_room, r->lost_count, sizeof *r->lost, 64)) {
        r->failed = CT_ERR_NO_MEMORY;
        return;
    }
    r->lost[r->lost_count] = (struct ct_call){.sequence = frame->sequence,
                                              .began_ns = frame->began_ns,
                                              .function = frame->function,
                                              .depth = shown_depth(frame->called_at),
                                              .detail = frame->detail,
                                              .end_detail = CT_TRACE_NO_DETAIL,
                                              .end = CT_CALL_LOST};
    set_parent(r, &r->lost[r->lost_count++], ct_frames_caller(&r->frames, frame));
}

/* A call of a function that is recorded on entry only. */
static bool on_entry(struct ct_call_reader *r, const struct ct_trace_event *event) {
    size_t caller = ct_frames_entry(&r->frames, event);
    if (ct_ask_is_given(&r->ask, CT_ASK_DURATION) || r->least_ns ||
        (r->within != CT_CALL_NO_PARENT && !is_within(r, event->sequence, caller)) ||
        !may_fit(r, event->function_id, event->sequence, event->timestamp_ns, event->depth))
        return false;
    r->call = (struct ct_call){.sequence = event->sequence,
                               .began_ns = event->timestamp_ns,
                               .function = event->function_id,
                               .depth = shown_depth(event->depth),
                               .detail = event->detail,
                               .end_detail = CT_TRACE_NO_DETAIL,
                               .end = CT_CALL_ENTRY};
    set_parent(r, &r->call, caller);
    return true;
}

/* True: there is a row. */
static inline bool on_event(struct ct_call_reader *r, const struct ct_trace_event *event) {
    if (event->kind == CT_TRACE_CALL) {
        const struct ct_wanted_function *f = function_of(r, event->function_id);
        if (f && f->known->entry_only)
            return on_entry(r, event);
        struct ct_frame *frame = f ? ct_frames_call(&r->frames, event) : NULL;
        if (frame)
            begin_call(r, frame);
        else
            r->failed = CT_ERR_NO_MEMORY;
        return false;
    }
    if (event->kind == CT_TRACE_EXCEPTION && !event->function_id) /* a signal */
        return false;
    const struct ct_frame *frame = ct_frames_close(&r->frames, event);
    bool left = event->kind == CT_TRACE_EXCEPTION;
    return frame && end_call(r, frame, event->timestamp_ns, left ? CT_CALL_LEFT : CT_CALL_RETURNED, event->detail);
}

/* ---- spans that are left out ---- */

/* Calls that fit begin neither in this span nor after it. */
static bool is_beyond(const struct ct_call_reader *r, const struct cts_span *span) {
    return span->first_seq > r->high_seq || span->time_first_ns > r->high_ns;
}

static void find_pivot(struct ct_call_reader *r, const struct ct_summary *summary) {
    size_t low = 0, high = ct_summary_span_count(summary);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_beyond(r, ct_summary_span(summary, middle)))
            high = middle;
        else
            low = middle + 1;
    }
    r->pivot_end = low < ct_summary_span_count(summary) ? ct_summary_span(summary, low)->first_seq : UINT64_MAX;
}

static bool is_needed(void *arg, const struct ct_summary *summary, size_t number) {
    struct ct_call_reader *r = arg;
    const struct cts_span *span = ct_summary_span(summary, number);
    uint64_t end = ct_summary_span_end(summary, number);
    bool gaps = r->source->facts.threads[r->thread].gap_count; /* which a span's longest call does not count */
    if (end <= r->part_first || span->first_seq >= r->part_end)
        return false;
    if (end <= r->low_seq || span->time_last_ns < r->low_ns || span->first_seq >= r->pivot_end)
        return false;
    if (end == r->pivot_end || (r->within >= span->first_seq && r->within < end))
        return true;
    const struct ct_ask_range *depth = &r->ask.ranges[CT_ASK_DEPTH];
    return (gaps || span->longest_ns >= r->least_ns) && (int64_t)span->low <= depth->high &&
           (int64_t)span->high >= depth->low && ct_wanted_in_span(&r->wanted, summary, number);
}

static bool stays(void *arg, const struct ct_frame *frame) {
    const struct ct_call_reader *r = arg;
    return frame->user == CANDIDATE && r->scan.next >= r->pivot_end;
}

static void on_closed(void *arg, struct ct_frame *frame) {
    struct ct_call_reader *r = arg;
    r->over |= frame->sequence == r->within;
    r->waiting -= frame->user == CANDIDATE;
}

static void on_opened(void *arg, struct ct_frame *frame) {
    begin_call(arg, frame);
}

static const struct ct_scan_spans left_out = {
    .needed = is_needed, .stays = stays, .closed = on_closed, .opened = on_opened};

/* ---- threads ---- */

static bool is_selective(const struct ct_call_reader *r) {
    return r->named || r->low_seq || r->high_seq != UINT64_MAX || r->low_ns || r->high_ns != UINT64_MAX ||
           r->least_ns || r->part_first || r->part_end != UINT64_MAX || ct_ask_is_given(&r->ask, CT_ASK_DEPTH);
}

/* Positions of the calls of this thread that a range of ids selects. False: none. */
static bool set_positions(struct ct_call_reader *r) {
    const int64_t first = ct_source_call_id(r->thread, 0);
    const int64_t last = ct_source_call_id(r->thread + 1, 0) - 1;
    const struct ct_ask_range *id = &r->ask.ranges[CT_ASK_ID];
    r->low_seq = id->low > first ? (uint64_t)(id->low - first) : 0;
    r->high_seq = id->high < last ? (uint64_t)(id->high - first) : UINT64_MAX;
    return id->low <= last && id->high >= first;
}

static bool wants_thread(struct ct_call_reader *r, size_t thread) {
    const struct ct_trace_thread *info = ct_trace_thread_at(r->source->trace, thread);
    r->thread = thread;
    r->process = info->process;
    if (!info->event_count || !ct_ask_fits(&r->ask, CT_ASK_THREAD, (int64_t)thread + 1) ||
        !ct_ask_fits(&r->ask, CT_ASK_PROCESS, (int64_t)info->process + 1) || !set_positions(r))
        return false;
    r->within = CT_CALL_NO_PARENT;
    enum ct_ask_field field = r->below ? CT_ASK_FIRST : CT_ASK_PARENT;
    if (!r->below && !ct_ask_is_given(&r->ask, CT_ASK_PARENT))
        return true;
    int64_t parent = r->ask.ranges[field].low;
    if (parent != r->ask.ranges[field].high) /* a range of parents */
        return !r->below;
    if (parent < 0 || (uint64_t)parent >> CT_SOURCE_POSITION_BITS != thread)
        return false;
    r->within = (uint64_t)parent & ((UINT64_C(1) << CT_SOURCE_POSITION_BITS) - 1);
    r->low_seq = r->within > r->low_seq ? r->within : r->low_seq;
    return true;
}

/* False: the summary says that no call of the thread fits. */
static bool use_summary(struct ct_call_reader *r, struct ct_summary *summary) {
    r->pivot_end = UINT64_MAX;
    if (summary && ct_summary_is_ordered(summary))
        find_pivot(r, summary);
    return ct_wanted_list(&r->wanted, summary);
}

static int open_thread(struct ct_call_reader *r) {
    struct ct_source *s = r->source;
    ct_wanted_begin(&r->wanted, r->process);
    bool selective = is_selective(r);
    struct ct_summary *summary = selective ? ct_source_summary(s, r->thread) : NULL;
    r->over = r->ending = false;
    r->waiting = 0;
    if (!use_summary(r, summary))
        return 0;
    const struct ct_scan_setup setup = {.trace = s->trace,
                                        .facts = &s->facts,
                                        .thread = r->thread,
                                        .frames = &r->frames,
                                        .lost = on_lost,
                                        .entry_only = is_entry_only,
                                        .arg = r,
                                        .alone = selective,
                                        .summary = summary,
                                        .spans = summary ? &left_out : NULL};
    int status = ct_scan_open(&r->scan, &setup);
    r->reading = !status;
    if (status)
        ct_scan_close(&r->scan);
    return status;
}

/* 1: there is a thread, 0: no more. */
static int next_thread(struct ct_call_reader *r) {
    int status = 0;
    while (!status && !r->reading && r->next_thread < ct_trace_thread_count(r->source->trace))
        if (wants_thread(r, r->next_thread++))
            status = open_thread(r);
    return status ? status : r->reading;
}

static void close_thread(struct ct_call_reader *r) {
    if (r->reading)
        ct_scan_close(&r->scan);
    r->reading = false;
}

/* ---- the reader ---- */

static bool take_lost(struct ct_call_reader *r) {
    if (r->lost_next < r->lost_count) {
        r->call = r->lost[r->lost_next++];
        return true;
    }
    r->lost_next = r->lost_count = 0;
    return false;
}

static void poll_owner(struct ct_call_reader *r) {
    const struct ct_source_setup *setup = &r->source->setup;
    r->until_poll = POLL_EVENTS;
    r->source->events += POLL_EVENTS + 1;
    if (setup->poll && setup->poll(setup->poll_arg))
        r->failed = CT_ERR_TIMEOUT;
}

static bool leave_part(struct ct_call_reader *r) {
    r->lost_next = r->lost_count = 0;
    close_thread(r);
    return false;
}

/* True: there is a row. */
static bool read_events(struct ct_call_reader *r) {
    struct ct_trace_event event;
    while (!r->failed) {
        if (!r->waiting && (r->over || r->scan.next >= r->pivot_end)) {
            close_thread(r);
            return false;
        }
        if (!ct_scan_next(&r->scan, &event)) {
            r->ending = true;
            r->end_ns = ct_scan_end(&r->scan);
            return false;
        }
        if (!r->until_poll--)
            poll_owner(r);
        r->over |= event.sequence >= r->high_seq || event.timestamp_ns > r->high_ns;
        if (event.sequence >= r->part_end)
            return leave_part(r);
        bool row = on_event(r, &event);
        if (event.sequence < r->part_first)
            r->lost_next = r->lost_count = 0;
        else if (row || (r->lost_count && take_lost(r)))
            return true;
    }
    return false;
}

static bool read_open(struct ct_call_reader *r) {
    struct ct_frame frame;
    while (ct_frames_take(&r->frames, r->end_ns, &frame))
        if (end_call(r, &frame, r->end_ns, CT_CALL_OPEN, CT_TRACE_NO_DETAIL))
            return true;
    close_thread(r);
    return false;
}

int ct_call_reader_next(struct ct_call_reader *r) {
    if (r->lost_count && take_lost(r))
        return 1;
    while (!r->failed) {
        int status = r->reading ? 1 : next_thread(r);
        if (status <= 0)
            return status;
        if (r->ending ? read_open(r) : read_events(r))
            return r->failed ? r->failed : 1;
    }
    return r->failed;
}

static uint64_t boot_time(const struct ct_source *s, int64_t time, bool high) {
    if (time < 0 && !(high && time != INT64_MIN))
        return 0;
    uint64_t boot = s->start_ns + (uint64_t)(time < 0 ? -1 : time);
    return time == INT64_MAX ? UINT64_MAX : boot;
}

int ct_call_reader_open(struct ct_call_reader *r, struct ct_source *source, const struct ct_ask *ask) {
    const struct ct_ask_range *time = &ask->ranges[CT_ASK_TIME];
    r->source = source;
    r->ask = *ask;
    r->wanted = (struct ct_wanted){.source = source, .ask = &r->ask};
    r->named = ct_wanted_is_limited(&r->wanted);
    r->part_end = UINT64_MAX;
    r->low_ns = boot_time(source, time->low, false);
    r->high_ns = boot_time(source, time->high, true);
    r->least_ns = ask->ranges[CT_ASK_DURATION].low > 0 ? (uint64_t)ask->ranges[CT_ASK_DURATION].low : 0;
    r->until_poll = POLL_EVENTS;
    if (ask->longest)
        return ct_scan_nth_longest(source->trace, &source->facts, &source->select, ask->longest, &r->least_ns);
    return 0;
}

void ct_call_reader_close(struct ct_call_reader *r) {
    close_thread(r);
    r->source->events += POLL_EVENTS - r->until_poll;
    ct_frames_free(&r->frames);
    ct_wanted_free(&r->wanted);
    free(r->lost);
}
