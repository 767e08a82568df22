/* SPDX-License-Identifier: Apache-2.0 */
/* The replay: pairs the events of each thread and turns them into lines.
 *
 * Threads are read from their beginning, so that calls that began before the range are known when they end in it. */
#include "report/replay_internal.h"
#include "abi/atf.h"
#include <contrail/session.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_WINDOW = 65536 };

/* ---- calls ---- */

struct ct_replay_call *ct_replay_top(struct ct_replay_source *s) {
    struct ct_frame *top = ct_frames_top(&s->frames);
    return top ? top->user : NULL;
}

static struct ct_replay_call *call_at(const struct ct_replay_source *s, size_t place) {
    const struct ct_frame *frame = ct_frames_known(&s->frames, place);
    return frame ? frame->user : NULL;
}

/* The innermost shown call, from the frame at `place` outward. */
static struct ct_replay_call *shown_call(const struct ct_replay_source *s, size_t place) {
    const struct ct_frame *frame;
    for (; (frame = ct_frames_known(&s->frames, place)); place = ct_frames_caller(&s->frames, frame)) {
        struct ct_replay_call *call = frame->user;
        if (call && !call->hidden)
            return call;
    }
    return NULL;
}

/* Level of the event among the calls around it. */
static uint32_t level_of(const struct ct_replay_source *s, const struct ct_replay_call *parent) {
    if (s->event.depth & ATF_DEPTH_OTHER)
        return parent ? parent->level + 1 : ATF_DEPTH_PLACE(s->event.depth);
    return s->event.depth;
}

static bool is_early(const struct ct_replay_source *s, uint64_t time_ns) {
    return time_ns < s->replay->options->from_ns;
}

/* Decides whether the call is in a selected function, and how far below it. */
static void place_call(const struct ct_replay_source *s, struct ct_replay_call *call,
                       const struct ct_replay_call *parent, const struct ct_cached_function *known) {
    const struct ct_replay_options *options = s->replay->options;
    if (!options->select.functions) {
        call->inside = true;
        call->level = level_of(s, parent);
    } else if (parent && parent->inside) {
        call->inside = true;
        call->level = parent->level + 1;
    } else {
        call->inside = known->function_fits;
    }
    call->hidden = !call->inside || !known->module_fits || (options->max_depth && call->level >= options->max_depth);
}

void ct_replay_fill(const struct ct_replay_source *s, struct ct_replay_call *call, enum ct_replay_kind kind,
                    const struct ct_cached_function *known) {
    const struct ct_replay_call *outer = shown_call(s, s->frames.running);
    call->line = (struct ct_replay_line){
        .kind = kind,
        .thread = s->thread,
        .time_ns = s->event.timestamp_ns,
        .indent = outer ? outer->line.indent + 1 : 0,
        .name = known ? known->name : "",
        .module = known ? known->module : "",
        .detail = kind == CT_REPLAY_GAP || kind == CT_REPLAY_END ? CT_TRACE_NO_DETAIL : s->event.detail,
        .end_detail = kind == CT_REPLAY_END ? s->event.detail : CT_TRACE_NO_DETAIL,
    };
    call->parent = (struct ct_replay_call *)outer;
    call->parent_serial = outer ? outer->serial : 0;
}

void ct_replay_put(struct ct_replay_source *s, struct ct_replay_call *call) {
    ct_replay_keep(call);
    ct_replay_append(&s->replay->lines, call);
}

static void on_entry(struct ct_replay_source *s, const struct ct_cached_function *known) {
    struct ct_replay_lines *lines = &s->replay->lines;
    const struct ct_replay_call *caller = call_at(s, ct_frames_entry(&s->frames, &s->event));
    struct ct_replay_call *call = ct_replay_new(lines);
    if (!call)
        return;
    place_call(s, call, caller, known);
    if (call->hidden || is_early(s, s->event.timestamp_ns) || s->replay->options->min_ns) {
        ct_replay_discard(lines, call);
        return;
    }
    ct_replay_fill(s, call, CT_REPLAY_ENTRY, known);
    ct_replay_put(s, call);
}

static void on_call(struct ct_replay_source *s) {
    struct ct_replay_lines *lines = &s->replay->lines;
    const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, s->process, s->event.function_id);
    if (known && known->entry_only) {
        on_entry(s, known);
        return;
    }
    struct ct_frame *frame = known ? ct_frames_call(&s->frames, &s->event) : NULL;
    struct ct_replay_call *call = frame ? ct_replay_new(lines) : NULL;
    if (!call) {
        lines->stopped = CT_ERR_NO_MEMORY;
        return;
    }
    const struct ct_replay_call *parent = call_at(s, ct_frames_caller(&s->frames, frame));
    place_call(s, call, parent, known);
    if (!call->hidden)
        ct_replay_fill(s, call, CT_REPLAY_OPEN, known);
    frame->user = call;
    call->open = call->is_call = true;
    if (call->hidden || is_early(s, s->event.timestamp_ns))
        return;
    call->has_children = s->replay->options->separate_ends;
    if (!s->replay->options->min_ns)
        ct_replay_keep(call);
    ct_replay_append(lines, call);
}

/* ---- ends ---- */

/* Ends a shown call: in the line of its call while that waits, otherwise in a line of its own. */
static void end_call(struct ct_replay_source *s, struct ct_replay_call *call, uint64_t time_ns, uint64_t duration_ns,
                     enum ct_replay_end end) {
    struct ct_replay_lines *lines = &s->replay->lines;
    uint64_t least = s->replay->options->min_ns; /* a call that waited for the recorder may have been kept too soon */
    bool too_short = !call->kept && (end != CT_REPLAY_LOST ? duration_ns < least : least != 0);
    call->open = false;
    if (end == CT_REPLAY_RETURNED)
        call->line.end_detail = s->event.detail;
    if (call->waiting && !call->has_children) {
        call->line.duration_ns = duration_ns;
        call->line.end = end;
        call->ended = true;
        if (too_short)
            ct_replay_drop(lines, call);
        else
            ct_replay_keep(call);
        return;
    }
    bool show = !too_short && !is_early(s, time_ns);
    struct ct_replay_call *closing = show && call->waiting ? ct_replay_new(lines) : call;
    if (!closing || (!show && call->waiting))
        return;
    if (!show) {
        ct_replay_discard(lines, call);
        return;
    }
    struct ct_replay_line line = call->line;
    line.kind = CT_REPLAY_CLOSE;
    line.end = end;
    line.time_ns = time_ns;
    line.duration_ns = duration_ns;
    closing->line = line;
    closing->is_call = false;
    ct_replay_append(lines, closing);
}

static void close_call(struct ct_replay_source *s, const struct ct_frame *frame, uint64_t time_ns,
                       enum ct_replay_end end) {
    struct ct_replay_call *call = frame->user;
    if (call->hidden)
        ct_replay_discard(&s->replay->lines, call);
    else
        end_call(s, call, time_ns, ct_frames_duration(&s->frames, frame, time_ns), end);
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_replay_source *s = arg;
    if (frame->user)
        close_call(s, frame, s->event.timestamp_ns, CT_REPLAY_LOST);
}

static void append_plain(struct ct_replay_source *s, enum ct_replay_kind kind, const struct ct_cached_function *known,
                         enum ct_replay_end end) {
    struct ct_replay_call *call = ct_replay_new(&s->replay->lines);
    if (!call)
        return;
    ct_replay_fill(s, call, kind, known);
    call->line.end = end;
    ct_replay_put(s, call);
}

/* Handles the end of a call that was not seen. */
static void on_unknown_end(struct ct_replay_source *s, enum ct_replay_end end) {
    const struct ct_replay_options *options = s->replay->options;
    const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, s->process, s->event.function_id);
    if (!known || !known->function_fits || !known->module_fits || options->min_ns ||
        is_early(s, s->event.timestamp_ns) || (options->max_depth && level_of(s, NULL) >= options->max_depth))
        return;
    append_plain(s, CT_REPLAY_END, known, end);
}

static void on_end(struct ct_replay_source *s) {
    bool left = s->event.kind == CT_TRACE_EXCEPTION;
    enum ct_replay_end end = left ? CT_REPLAY_LEFT : CT_REPLAY_RETURNED;
    struct ct_frame frame;
    if (left && s->event.function_id == 0) {
        if (!is_early(s, s->event.timestamp_ns))
            append_plain(s, CT_REPLAY_SIGNAL, NULL, end);
    } else if (!ct_frames_end(&s->frames, &s->event, &frame)) {
        on_unknown_end(s, end);
    } else if (frame.user) {
        close_call(s, &frame, s->event.timestamp_ns, end);
    }
}

/* ---- events ---- */

/* A copy that lasts: gaps of a trace that is being written are read again while lines wait. */
static const char *lasting_copy(const char *reason) {
#define ROW(name, text)                                                                                                \
    if (!strcmp(reason, #name))                                                                                        \
        return #name;
    CT_LOSS_LIST(ROW)
#undef ROW
    return "";
}

/* Shows the gaps before the event with this number. */
static void on_gaps(struct ct_replay_source *s, uint64_t sequence) {
    bool shown = !is_early(s, s->event.timestamp_ns);
    for (; s->gap < s->gap_count && s->gaps[s->gap].at <= sequence; s->gap++) {
        const struct ct_gap *gap = &s->gaps[s->gap];
        ct_frames_gap(&s->frames, 0);
        struct ct_replay_call *call = shown ? ct_replay_new(&s->replay->lines) : NULL;
        if (!call)
            continue;
        ct_replay_fill(s, call, CT_REPLAY_GAP, NULL);
        call->line.lost = gap->lost;
        call->line.reason = s->replay->trace ? gap->reason : lasting_copy(gap->reason);
        ct_replay_put(s, call);
    }
}

static void on_event(struct ct_replay_source *s) {
    on_gaps(s, s->event.sequence);
    if (s->event.kind == CT_TRACE_CALL)
        on_call(s);
    else
        on_end(s);
    s->last_ns = s->event.timestamp_ns;
}

static void read_events(struct ct_replay_run *r) {
    uint64_t to_ns = r->options->to_ns;
    struct ct_trace_event event;
    struct ct_code_record record;
    enum ct_trace_step step;
    while (!r->lines.stopped && (step = ct_trace_next_step(r->cursor, &event, &record))) {
        if (to_ns && event.timestamp_ns >= to_ns) {
            r->past_range = true;
            return;
        }
        struct ct_replay_source *s = r->sources[event.thread];
        if (!s)
            continue;
        ct_replay_times(r, event.timestamp_ns);
        if (step == CT_TRACE_STEP_EVENT) {
            s->event = event;
            on_event(s);
        } else {
            ct_replay_code(s, event.timestamp_ns, &record);
        }
        ct_replay_advance(&r->lines, event.timestamp_ns);
    }
}

/* ---- the end ---- */

static bool has_gap(const struct ct_replay_source *s) {
    return s->gap < s->gap_count;
}

static uint64_t end_of(const struct ct_replay_source *s) {
    const struct ct_replay_run *r = s->replay;
    if (r->past_range)
        return r->options->to_ns;
    if (has_gap(s)) /* after the last event */
        return s->last_ns;
    return ct_facts_thread_end(&r->facts, r->trace, s->thread, s->last_ns, s->frames.count);
}

static void close_open(struct ct_replay_source *s, uint64_t end_ns) {
    struct ct_frame frame;
    while (ct_frames_take(&s->frames, end_ns, &frame))
        if (frame.user)
            close_call(s, &frame, end_ns, CT_REPLAY_STILL_OPEN);
}

struct ending {
    struct ct_replay_source *source;
    uint64_t end_ns;
};

static int compare_endings(const void *a, const void *b) {
    const struct ending *x = a, *y = b;
    if (x->end_ns != y->end_ns)
        return x->end_ns < y->end_ns ? -1 : 1;
    return x->source->thread < y->source->thread ? -1 : 1;
}

static int close_all(struct ct_replay_run *r) {
    struct ending *endings = calloc(r->source_count + 1, sizeof *endings);
    size_t count = 0;
    if (!endings)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < r->source_count; i++)
        if (r->sources[i] && (r->sources[i]->frames.count || has_gap(r->sources[i])))
            endings[count++] = (struct ending){r->sources[i], end_of(r->sources[i])};
    qsort(endings, count, sizeof *endings, compare_endings);
    for (size_t i = 0; i < count && !r->lines.stopped; i++) {
        ct_replay_times(r, endings[i].end_ns);
        if (!r->past_range)
            on_gaps(endings[i].source, UINT64_MAX);
        close_open(endings[i].source, endings[i].end_ns);
    }
    free(endings);
    return 0;
}

/* ---- setting up ---- */

static struct ct_replay_source *add_source(struct ct_replay_run *r, size_t thread, size_t process, bool complete) {
    if (thread >= r->source_count) {
        size_t count = thread + thread / 2 + 16;
        struct ct_replay_source **sources = realloc(r->sources, count * sizeof *sources);
        if (!sources)
            return NULL;
        memset(sources + r->source_count, 0, (count - r->source_count) * sizeof *sources);
        r->sources = sources;
        r->source_count = count;
    }
    struct ct_replay_source *s = r->sources[thread] = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct ct_replay_source){.replay = r, .thread = thread, .process = process};
    ct_frames_begin(&s->frames, complete, on_lost, s);
    return s;
}

static int open_with_code(struct ct_replay_run *r) {
    bool *code = calloc(r->source_count, sizeof *code);
    for (size_t i = 0; code && i < r->source_count; i++)
        code[i] = r->sources[i];
    int status = code ? ct_trace_cursor_open_code(&r->cursor, r->trace, code) : CT_ERR_NO_MEMORY;
    free(code);
    return status;
}

static int open_sources(struct ct_replay_run *r) {
    size_t chosen = 0, last = 0;
    r->sources = calloc(r->facts.thread_count + 1, sizeof(struct ct_replay_source *));
    if (!r->sources)
        return CT_ERR_NO_MEMORY;
    r->source_count = r->facts.thread_count;
    for (size_t i = 0; i < r->source_count; i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(r->trace, i);
        if (!ct_select_thread(&r->options->select, thread))
            continue;
        struct ct_replay_source *s = add_source(r, i, thread->process, r->facts.threads[i].complete);
        if (!s)
            return CT_ERR_NO_MEMORY;
        s->gaps = r->facts.threads[i].gaps;
        s->gap_count = r->facts.threads[i].gap_count;
        int status = ct_replay_open_times(s);
        if (status)
            return status;
        last = i;
        chosen++;
    }
    int status = ct_replay_start_times(r);
    if (status)
        return status;
    if (chosen && r->options->blocks)
        return open_with_code(r);
    if (chosen == 1)
        return ct_trace_cursor_open_thread(&r->cursor, r->trace, last, 0);
    return chosen ? ct_trace_cursor_open(&r->cursor, r->trace, 0) : 0;
}

static void finish_replay(struct ct_replay_run *r) {
    for (size_t i = 0; i < r->source_count; i++) {
        if (r->sources[i]) {
            ct_frames_free(&r->sources[i]->frames);
            ct_replay_close_times(r->sources[i]);
            free(r->sources[i]->places);
        }
        free(r->sources[i]);
    }
    free(r->sources);
    free(r->soonest);
    ct_trace_cursor_close(r->cursor);
    ct_replay_lines_free(&r->lines);
    ct_function_cache_free(&r->known);
    ct_facts_free(&r->facts);
}

int ct_replay(struct ct_trace *trace, const struct ct_replay_options *options,
              int (*show)(void *arg, const struct ct_replay_line *line), void *arg) {
    struct ct_replay_run r = {
        .trace = trace,
        .options = options,
        .known = {.trace = trace, .select = &options->select},
        .lines = {.options = options,
                  .window = options->window ? options->window : DEFAULT_WINDOW,
                  .show = show,
                  .arg = arg},
    };
    int status = ct_facts_load(&r.facts, trace);
    if (!status)
        status = open_sources(&r);
    if (!status) {
        if (r.cursor)
            read_events(&r);
        status = close_all(&r);
        ct_replay_flush(&r.lines);
        status = status ? status : r.lines.stopped;
    }
    finish_replay(&r);
    return status;
}

/* ---- a trace that is being written ---- */

struct ct_replay_stream {
    struct ct_replay_run replay; /* has no trace */
};

int ct_replay_stream_open(struct ct_replay_stream **out, const struct ct_replay_stream_setup *setup) {
    struct ct_replay_stream *stream = *out = calloc(1, sizeof *stream);
    if (!stream)
        return CT_ERR_NO_MEMORY;
    stream->replay = (struct ct_replay_run){
        .options = setup->options,
        .known = {.select = &setup->options->select, .find = setup->find, .find_arg = setup->find_arg},
        .lines = {.options = setup->options, .window = DEFAULT_WINDOW, .show = setup->show, .arg = setup->arg},
    };
    return 0;
}

int ct_replay_stream_thread(struct ct_replay_stream *stream, size_t number, const struct ct_follow_thread *thread) {
    struct ct_replay_run *r = &stream->replay;
    struct ct_replay_source *s = number < r->source_count ? r->sources[number] : NULL;
    bool fresh = !s;
    if (fresh) /* the thread may have begun before we looked: events are missing */
        s = add_source(r, number, thread->process, false);
    if (!s)
        return CT_ERR_NO_MEMORY;
    if (fresh)
        s->next = thread->next;
    s->gaps = thread->gaps;
    s->gap_count = thread->gap_count;
    while (fresh && thread->next && s->gap < s->gap_count && s->gaps[s->gap].at <= thread->next)
        s->gap++;
    return 0;
}

/* Handles events that were deleted before they could be read: the recorder keeps only the newest ones. */
static void on_deleted(struct ct_replay_source *s, uint64_t count) {
    ct_frames_gap(&s->frames, 0);
    struct ct_replay_call *call = ct_replay_new(&s->replay->lines);
    if (!call)
        return;
    ct_replay_fill(s, call, CT_REPLAY_GAP, NULL);
    call->line.lost = count;
    call->line.reason = "deleted by --keep before they were read";
    ct_replay_put(s, call);
}

int ct_replay_stream_event(struct ct_replay_stream *stream, const struct ct_trace_event *event) {
    struct ct_replay_run *r = &stream->replay;
    struct ct_replay_source *s = event->thread < r->source_count ? r->sources[event->thread] : NULL;
    if (!s || r->lines.stopped)
        return r->lines.stopped;
    s->event = *event;
    if (event->sequence > s->next)
        on_deleted(s, event->sequence - s->next);
    s->next = event->sequence + 1;
    on_event(s);
    ct_replay_advance(&r->lines, event->timestamp_ns);
    return r->lines.stopped;
}

int ct_replay_stream_rest(struct ct_replay_stream *stream, uint64_t now_ns) {
    struct ct_replay_run *r = &stream->replay;
    r->lines.window = 0;
    ct_replay_advance(&r->lines, now_ns);
    r->lines.window = DEFAULT_WINDOW;
    return r->lines.stopped;
}

int ct_replay_stream_end(struct ct_replay_stream *stream) {
    struct ct_replay_run *r = &stream->replay;
    for (size_t i = 0; i < r->source_count && !r->lines.stopped; i++)
        if (r->sources[i])
            on_gaps(r->sources[i], UINT64_MAX);
    ct_replay_flush(&r->lines);
    return r->lines.stopped;
}

void ct_replay_stream_close(struct ct_replay_stream *stream) {
    if (!stream)
        return;
    finish_replay(&stream->replay);
    free(stream);
}
