/* SPDX-License-Identifier: Apache-2.0 */
/* What a range does to the frames of its thread: see range.h. */
#include "report/range.h"

bool ct_range_continues(const struct ct_range *range, const struct ct_frames *frames, const struct ct_scan *scan) {
    const struct ct_thread_facts *facts = &scan->setup.facts->threads[scan->setup.thread];
    if (!range->plain || range->first != scan->next || range->first_ns < scan->last_ns ||
        (scan->gap < facts->gap_count && facts->gaps[scan->gap].at < range->end))
        return false;
    if (!range->begin_ns)
        return ct_frames_is_plain(frames, frames->open);
    return frames->timeline->passed_ns <= range->begin_ns &&
           ct_frames_would_end(frames, range->open, range->end_functions, range->end_count);
}

static void take_ends(const struct ct_range *range, struct ct_frames *frames, const struct ct_range_taker *taker) {
    for (size_t i = 0; i < range->end_count; i++) {
        const struct ct_range_end *end = &range->ends[i];
        ct_frames_skip(frames, end->event.timestamp_ns);
        ct_frames_add_self(frames, end->self_ns, &end->off_self);
        taker->end(taker->arg, end);
    }
    ct_frames_add_self(frames, range->stack[0].self_ns, &range->stack[0].off_self);
}

/* Opens the calls that are open where the range ends. */
static bool take_open(const struct ct_range *range, struct ct_frames *frames, size_t thread,
                      const struct ct_range_taker *taker) {
    uint64_t depth = range->open - range->end_count;
    for (size_t i = 1; i <= range->used; i++, depth++) {
        const struct ct_range_call *call = &range->stack[i];
        ct_frames_skip(frames, call->start_ns);
        struct ct_frame *frame = ct_frames_call(frames, &(struct ct_trace_event){.timestamp_ns = call->start_ns,
                                                                                 .function_id = call->function,
                                                                                 .thread = thread,
                                                                                 .sequence = call->sequence,
                                                                                 .kind = CT_TRACE_CALL,
                                                                                 .depth = (uint32_t)depth,
                                                                                 .detail = call->detail});
        if (!frame)
            return false;
        frame->self_ns = call->self_ns;
        frame->off_self = call->off_self;
        taker->open(taker->arg, call, frame);
    }
    return true;
}

bool ct_range_take(const struct ct_range *range, struct ct_frames *frames, struct ct_scan *scan,
                   const struct ct_range_taker *taker) {
    if (range->begin_ns) {
        ct_frames_pass(frames, range->begin_ns);
        take_ends(range, frames, taker);
        if (!take_open(range, frames, scan->setup.thread, taker))
            return false;
        ct_frames_skip(frames, range->passed_ns);
    }
    ct_scan_jump(scan, range->end, range->first_ns, range->last_ns);
    return true;
}
