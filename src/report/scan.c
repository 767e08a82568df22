/* SPDX-License-Identifier: Apache-2.0 */
/* The events of one thread in a range of time: see scan.h. */
#include "report/scan.h"
#include "report/scan_skip.h"
#include "trace/reader.h"
#include "trace/summary.h"

/* A summary is made when at least this part of the thread is before the range: making it reads all of the thread. */
#define WORTH 8

static void ignore_lost(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame;
}

/* Reports the gaps before the event to the frames. */
static inline void pass_gaps(struct ct_scan *s, const struct ct_trace_event *event) {
    const struct ct_thread_facts *facts = s->facts;
    if (s->gap >= facts->gap_count || facts->gaps[s->gap].at > event->sequence)
        return;
    uint64_t ns = s->last_ns && event->timestamp_ns > s->last_ns ? event->timestamp_ns - s->last_ns : 0;
    ct_frames_gap(s->setup.frames, ns);
    s->gap_ns += ns;
    while (s->gap < facts->gap_count && facts->gaps[s->gap].at <= event->sequence)
        s->gap++;
}

/* ---- before the range ---- */

static int skip_event(struct ct_scan *s, size_t process, const struct ct_trace_event *event) {
    struct ct_frames *frames = s->setup.frames;
    struct ct_frame closed;
    pass_gaps(s, event);
    s->last_ns = event->timestamp_ns;
    if (event->kind == CT_TRACE_CALL) {
        if (s->setup.entry_only(s->setup.arg, process, event->function_id))
            (void)ct_frames_entry(frames, event);
        else if (!ct_frames_call(frames, event))
            return CT_ERR_NO_MEMORY;
    } else if (event->kind != CT_TRACE_EXCEPTION || event->function_id) {
        (void)ct_frames_end(frames, event, &closed);
    }
    return 0;
}

/* Reads the events before the range. */
static int skip_events(struct ct_scan *s) {
    size_t process = ct_trace_thread_at(s->setup.trace, s->setup.thread)->process;
    int status = 0;
    while (!status && ct_trace_cursor_next(s->cursor, &s->waiting)) {
        if (s->waiting.timestamp_ns >= s->setup.from_ns) {
            s->has_waiting = true;
            break;
        }
        status = skip_event(s, process, &s->waiting);
        s->next = s->waiting.sequence + 1;
    }
    return status;
}

static const struct ct_timeline *timeline_of(const struct ct_scan *s) {
    return s->setup.timeline ? s->setup.timeline : &s->timeline;
}

static void begin_frames(struct ct_scan *s) {
    ct_frames_begin(s->setup.frames, s->facts->complete, ignore_lost, s->setup.arg);
    s->setup.frames->timeline = s->setup.timeline ? s->setup.timeline : &s->timeline;
}

/* Begins at the last start before the range that the summary has, unless that is the beginning of the thread. */
static int resume(struct ct_scan *s, const struct ct_summary *summary) {
    struct ct_frames *frames = s->setup.frames;
    size_t span = ct_summary_find_time(summary, s->setup.from_ns), start = ct_summary_start_before(summary, span);
    if (!start || !ct_summary_is_ordered(summary))
        return 0;
    int status = ct_summary_frames(summary, start, frames);
    if (status) /* the summary is wrong: do without it */
        begin_frames(s);
    if (status)
        return status == CT_ERR_NO_MEMORY ? status : 0;
    s->next = ct_summary_start_sequence(summary, start);
    s->gap = ct_summary_start(summary, start)->gaps;
    s->last_ns = ct_summary_start_last_ns(summary, start);
    return 0;
}

/* Finds the last place before the range from which the thread has to be read. */
static int find_start(struct ct_scan *s) {
    const struct ct_scan_setup *setup = &s->setup;
    const struct ct_trace_thread *thread = ct_trace_thread_at(setup->trace, setup->thread);
    struct ct_summary *summary;
    if (setup->summary)
        return resume(s, setup->summary);
    if (!ct_summary_is_worth(setup->trace, thread->event_count))
        return 0;
    uint64_t before = ct_summary_position(setup->trace, setup->thread, setup->from_ns) - thread->first_sequence;
    if (!ct_summary_is_worth(setup->trace, before))
        return 0;
    const struct ct_summary_options options = {.facts = setup->facts,
                                               .names = setup->names,
                                               .once = true,
                                               .stored_only = before < thread->event_count / WORTH};
    int status = ct_summary_open(&summary, setup->trace, setup->thread, &options);
    if (status)
        return status == CT_ERR_NO_MEMORY ? status : 0;
    status = resume(s, summary);
    ct_summary_close(summary);
    return status;
}

/* The range begins here. */
static void enter_range(struct ct_scan *s) {
    const struct ct_scan_setup *setup = &s->setup;
    bool over = !s->has_waiting && ct_scan_end(s) <= setup->from_ns;
    if (over) /* the thread has ended before the range */
        begin_frames(s);
    ct_frames_clip(setup->frames, setup->from_ns);
    s->first_ns = s->last_ns = s->last_ns ? setup->from_ns : 0;
    s->gap_ns = 0;
    s->first_gap = s->gap;
}

/* ---- the scan ---- */

int ct_scan_start(struct ct_scan *s, const struct ct_scan_setup *setup) {
    *s = (struct ct_scan){.setup = *setup, .boundary = UINT64_MAX, .facts = &setup->facts->threads[setup->thread]};
    int status = setup->timeline ? 0 : ct_timeline_open(&s->timeline, setup->facts, setup->trace, setup->thread);
    if (status)
        return status;
    begin_frames(s);
    s->next = ct_trace_thread_at(setup->trace, setup->thread)->first_sequence;
    if (setup->from_ns) {
        status = find_start(s);
        if (!status)
            status = ct_trace_cursor_open_thread_at(&s->cursor, setup->trace, setup->thread, s->next);
        if (!status)
            status = skip_events(s);
        if (status)
            return status;
        enter_range(s);
    }
    setup->frames->lost = setup->lost;
    return 0;
}

int ct_scan_open(struct ct_scan *s, const struct ct_scan_setup *setup) {
    int status = ct_scan_start(s, setup);
    if (!status && !s->cursor)
        status = ct_trace_cursor_open_thread(&s->cursor, setup->trace, setup->thread, 0);
    if (!status && setup->alone)
        ct_trace_cursor_alone(s->cursor);
    return status ? status : ct_scan_skip_open(s);
}

void ct_scan_jump(struct ct_scan *s, uint64_t end, uint64_t first_ns, uint64_t last_ns) {
    s->has_waiting = false;
    s->jumped = true;
    s->next = end;
    s->now_ns = s->last_ns = last_ns;
    s->first_ns = s->first_ns ? s->first_ns : first_ns;
}

bool ct_scan_next(struct ct_scan *s, struct ct_trace_event *event) {
    if (s->jumped) {
        ct_trace_cursor_skip(s->cursor, s->setup.thread, s->next);
        s->jumped = false;
    }
    if (s->next >= s->boundary)
        ct_scan_skip_next(s, s->next);
    if (s->has_waiting)
        *event = s->waiting;
    else if (s->past || !ct_trace_cursor_next(s->cursor, event))
        return false;
    s->has_waiting = false;
    if (s->setup.to_ns && event->timestamp_ns >= s->setup.to_ns) {
        s->past = true;
        return false;
    }
    s->next = event->sequence + 1;
    s->now_ns = event->timestamp_ns;
    pass_gaps(s, event);
    s->last_ns = event->timestamp_ns;
    s->first_ns = s->first_ns ? s->first_ns : s->last_ns;
    return true;
}

bool ct_scan_ends_in_gap(const struct ct_scan *s) {
    return !s->past && s->gap < s->facts->gap_count;
}

uint64_t ct_scan_end(const struct ct_scan *s) {
    const struct ct_scan_setup *setup = &s->setup;
    if (s->past)
        return setup->to_ns;
    uint64_t end_ns = s->last_ns; /* the time after it is in a gap, or ... */
    if (!ct_scan_ends_in_gap(s))
        end_ns = ct_facts_thread_end(setup->facts, setup->trace, setup->thread, s->last_ns, setup->frames->count);
    return setup->to_ns && end_ns > setup->to_ns ? setup->to_ns : end_ns;
}

uint64_t ct_scan_waited(const struct ct_scan *s) {
    return ct_waits_in(&timeline_of(s)->waits, s->first_ns, s->last_ns);
}

bool ct_scan_has_cpu(const struct ct_scan *s) {
    return ct_timeline_has_cpu(timeline_of(s));
}

void ct_scan_close(struct ct_scan *s) {
    ct_scan_skip_close(s);
    if (s->setup.frames && s->setup.frames->timeline == &s->timeline)
        s->setup.frames->timeline = NULL;
    ct_timeline_close(&s->timeline);
    if (s->cursor)
        ct_trace_cursor_close(s->cursor);
    s->cursor = NULL;
}
