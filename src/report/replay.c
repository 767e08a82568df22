/* SPDX-License-Identifier: Apache-2.0 */
/* The replay: pairs the events of each thread and turns them into lines.
 *
 * Threads are read from the beginning of the range; the calls that are open there are known (scan.h). With blocks of
 * code, threads are read from their beginning. */
#include "report/replay_internal.h"
#include "abi/atf.h"
#include <contrail/session.h>
#include <stdlib.h>
#include <string.h>

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
    return time_ns < s->replay->options->select.from_ns;
}

/* Calls were selected one by one: what is not a call is shown inside them only. */
static bool is_elsewhere(const struct ct_replay_source *s) {
    const struct ct_replay_options *options = s->replay->options;
    return (options->select.where || options->one) && !shown_call(s, s->frames.running);
}

/* Decides whether the call is in a selected function, and how far below it. */
static void place_call(const struct ct_replay_source *s, struct ct_replay_call *call,
                       const struct ct_replay_call *parent, const struct ct_cached_function *known) {
    const struct ct_replay_options *options = s->replay->options;
    bool one = options->one && options->one->thread == s->thread && options->one->sequence == s->event.sequence;
    if (!options->select.functions && !options->one) {
        call->inside = true;
        call->level = level_of(s, parent);
    } else if (parent && parent->inside) {
        call->inside = true;
        call->level = parent->level + 1;
    } else {
        call->inside = options->one ? one : known->function_fits;
    }
    call->hidden = !call->inside || !known->module_fits || (options->max_depth && call->level >= options->max_depth) ||
                   !ct_fits_call(s->replay->fits, s->thread, s->event.sequence);
    call->candidate = !call->hidden && !s->replay->trace && options->select.where;
    call->hidden |= call->candidate;
}

/* Fills in a line below the frame at `place`. */
static void fill_at(const struct ct_replay_source *s, size_t place, struct ct_replay_call *call,
                    enum ct_replay_kind kind, const struct ct_cached_function *known) {
    const struct ct_replay_call *outer = shown_call(s, place);
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

void ct_replay_fill(const struct ct_replay_source *s, struct ct_replay_call *call, enum ct_replay_kind kind,
                    const struct ct_cached_function *known) {
    fill_at(s, s->frames.running, call, kind, known);
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
    if (call->candidate)
        call->hidden = !ct_replay_fits(s, known, s->event.depth, NULL, 0, CT_TRACE_NO_DETAIL);
    if (call->hidden || is_early(s, s->event.timestamp_ns) || s->replay->options->min_ns) {
        ct_replay_discard(lines, call);
        return;
    }
    ct_replay_fill(s, call, CT_REPLAY_ENTRY, known);
    ct_replay_name_callers(s, call, s->frames.running);
    ct_replay_put(s, call);
}

/* Shows the call of a frame. */
static void begin_call(struct ct_replay_source *s, struct ct_frame *frame, const struct ct_cached_function *known) {
    struct ct_replay_lines *lines = &s->replay->lines;
    struct ct_replay_call *call = ct_replay_new(lines);
    if (!call)
        return;
    size_t caller = ct_frames_caller(&s->frames, frame);
    place_call(s, call, call_at(s, caller), known);
    if (!call->hidden) {
        fill_at(s, caller, call, CT_REPLAY_OPEN, known);
        ct_replay_name_callers(s, call, caller);
    }
    frame->user = call;
    call->open = call->is_call = true;
    if (call->hidden || is_early(s, s->event.timestamp_ns))
        return;
    call->has_children = s->replay->options->separate_ends;
    if (!s->replay->options->min_ns)
        ct_replay_keep(call);
    ct_replay_append(lines, call);
}

static void on_call(struct ct_replay_source *s) {
    const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, s->process, s->event.function_id);
    if (known && known->entry_only) {
        on_entry(s, known);
        return;
    }
    struct ct_frame *frame = known ? ct_frames_call(&s->frames, &s->event) : NULL;
    if (frame)
        begin_call(s, frame, known);
    else
        s->replay->lines.stopped = CT_ERR_NO_MEMORY;
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
    line.callers = NULL; /* the line of the call has them */
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
    uint64_t duration_ns = ct_frames_lasted(&s->frames, frame, time_ns);
    if (!call)
        return;
    if (call->candidate)
        ct_replay_late(s, frame, time_ns, end);
    if (call->hidden)
        ct_replay_discard(&s->replay->lines, call);
    else
        end_call(s, call, time_ns, duration_ns, end);
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct ct_replay_source *s = arg;
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
    if (!known || !known->function_fits || !known->module_fits || options->min_ns || options->one ||
        options->select.where || is_early(s, s->event.timestamp_ns) ||
        (options->max_depth && level_of(s, NULL) >= options->max_depth))
        return;
    append_plain(s, CT_REPLAY_END, known, end);
}

static void on_end(struct ct_replay_source *s) {
    bool left = s->event.kind == CT_TRACE_EXCEPTION;
    enum ct_replay_end end = left ? CT_REPLAY_LEFT : CT_REPLAY_RETURNED;
    struct ct_frame frame;
    if (left && s->event.function_id == 0) {
        if (!is_early(s, s->event.timestamp_ns) && !is_elsewhere(s))
            append_plain(s, CT_REPLAY_SIGNAL, NULL, end);
    } else if (!ct_frames_end(&s->frames, &s->event, &frame)) {
        on_unknown_end(s, end);
    } else {
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

void ct_replay_gaps(struct ct_replay_source *s, uint64_t sequence) {
    bool shown = !is_early(s, s->event.timestamp_ns);
    for (; s->gap < s->gap_count && s->gaps[s->gap].at <= sequence; s->gap++) {
        const struct ct_gap *gap = &s->gaps[s->gap];
        ct_frames_gap(&s->frames, 0);
        struct ct_replay_call *call = shown && !is_elsewhere(s) ? ct_replay_new(&s->replay->lines) : NULL;
        if (!call)
            continue;
        ct_replay_fill(s, call, CT_REPLAY_GAP, NULL);
        call->line.lost = gap->lost;
        call->line.reason = s->replay->trace ? gap->reason : lasting_copy(gap->reason);
        ct_replay_put(s, call);
    }
}

void ct_replay_event(struct ct_replay_source *s) {
    ct_replay_gaps(s, s->event.sequence);
    if (s->event.kind == CT_TRACE_CALL)
        on_call(s);
    else
        on_end(s);
    s->last_ns = s->event.timestamp_ns;
}

static void read_events(struct ct_replay_run *r) {
    uint64_t to_ns = r->options->select.to_ns;
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
            ct_replay_event(s);
        } else {
            ct_replay_code(s, event.timestamp_ns, &record);
        }
        ct_replay_advance(&r->lines, event.timestamp_ns);
        if (event.sequence + 1 >= s->boundary)
            ct_replay_skip_next(s, event.sequence + 1);
    }
}

/* ---- the end ---- */

static bool has_gap(const struct ct_replay_source *s) {
    return s->gap < s->gap_count;
}

static uint64_t end_of(const struct ct_replay_source *s) {
    const struct ct_replay_run *r = s->replay;
    uint64_t to_ns = r->options->select.to_ns;
    if (r->past_range)
        return to_ns;
    uint64_t end_ns = s->last_ns;
    if (!has_gap(s)) /* after the last event */
        end_ns = ct_facts_thread_end(&r->facts, r->trace, s->thread, s->last_ns, s->frames.count);
    return to_ns && end_ns > to_ns ? to_ns : end_ns;
}

void ct_replay_close_open(struct ct_replay_source *s, uint64_t end_ns) {
    struct ct_frame frame;
    while (ct_frames_take(&s->frames, end_ns, &frame))
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
            ct_replay_gaps(endings[i].source, UINT64_MAX);
        ct_replay_close_open(endings[i].source, endings[i].end_ns);
    }
    free(endings);
    return 0;
}

/* ---- setting up ---- */

struct ct_replay_source *ct_replay_add_source(struct ct_replay_run *r, size_t thread, size_t process, bool complete) {
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
    *s = (struct ct_replay_source){.replay = r, .thread = thread, .process = process, .boundary = UINT64_MAX};
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

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    struct ct_replay_source *s = arg;
    const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, process, function);
    return known && known->entry_only;
}

int ct_replay_resume(struct ct_replay_source *s) {
    for (struct ct_frame *frame = NULL; (frame = ct_frames_next(&s->frames, frame));) {
        if (frame->user)
            continue;
        const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, s->process, frame->function);
        s->event = (struct ct_trace_event){.timestamp_ns = frame->began_ns,
                                           .function_id = frame->function,
                                           .thread = s->thread,
                                           .sequence = frame->sequence,
                                           .kind = CT_TRACE_CALL,
                                           .depth = frame->called_at,
                                           .detail = frame->detail};
        if (!known)
            return CT_ERR_NO_MEMORY;
        begin_call(s, frame, known);
    }
    return 0;
}

/* Begins with the calls that are open at the beginning of the range. *first: position of the first event in it. */
static int enter_range(struct ct_replay_source *s, uint64_t *first) {
    struct ct_replay_run *r = s->replay;
    struct ct_scan scan;
    int status = ct_scan_start(&scan, &(struct ct_scan_setup){.trace = r->trace,
                                                              .facts = &r->facts,
                                                              .thread = s->thread,
                                                              .from_ns = r->options->select.from_ns,
                                                              .to_ns = r->options->select.to_ns,
                                                              .frames = &s->frames,
                                                              .timeline = &s->passed,
                                                              .lost = on_lost,
                                                              .entry_only = is_entry_only,
                                                              .arg = s});
    ct_scan_close(&scan);
    if (!status)
        status = ct_replay_resume(s);
    s->gap = scan.gap;
    s->last_ns = scan.last_ns;
    *first = scan.next;
    return status;
}

/* Opens the selected threads at the beginning of the range. */
static int open_range(struct ct_replay_run *r) {
    uint64_t *first = calloc(r->facts.thread_count + 1, sizeof *first);
    int status = first ? 0 : CT_ERR_NO_MEMORY;
    for (size_t i = 0; !status && i < r->facts.thread_count; i++) {
        first[i] = UINT64_MAX; /* no events */
        if (r->sources[i])
            status = enter_range(r->sources[i], &first[i]);
    }
    if (!status)
        status = ct_trace_cursor_open_at(&r->cursor, r->trace, first);
    for (size_t i = 0; !status && i < r->facts.thread_count; i++)
        if (r->sources[i])
            status = ct_replay_skip_open(r->sources[i], first[i]);
    free(first);
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
        if (!ct_select_thread(&r->options->select, r->trace, i) || (r->options->one && r->options->one->thread != i) ||
            (r->options->only_thread && r->options->only_thread != i + 1))
            continue;
        struct ct_replay_source *s = ct_replay_add_source(r, i, thread->process, r->facts.threads[i].complete);
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
    if (chosen && (r->options->select.from_ns || r->options->select.functions || r->fits))
        return open_range(r);
    if (chosen == 1)
        return ct_trace_cursor_open_thread(&r->cursor, r->trace, last, 0);
    return chosen ? ct_trace_cursor_open(&r->cursor, r->trace, 0) : 0;
}

void ct_replay_finish(struct ct_replay_run *r) {
    for (size_t i = 0; i < r->source_count; i++) {
        if (r->sources[i]) {
            ct_replay_skip_close(r->sources[i]);
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
    ct_fits_free(r->fits);
    ct_facts_free(&r->facts);
}

int ct_replay(struct ct_trace *trace, const struct ct_replay_options *options,
              int (*show)(void *arg, const struct ct_replay_line *line), void *arg) {
    struct ct_replay_run r = {
        .trace = trace,
        .options = options,
        .known = {.trace = trace, .select = &options->select},
        .lines = {.options = options,
                  .window = options->window ? options->window : CT_REPLAY_WINDOW,
                  .show = show,
                  .arg = arg},
    };
    int status = ct_facts_load(&r.facts, trace);
    if (!status)
        status = ct_fits_make(&r.fits, trace, &r.facts, &options->select, CT_FITS_WHERE, options->directories);
    if (!status)
        status = open_sources(&r);
    if (!status) {
        if (r.cursor)
            read_events(&r);
        status = close_all(&r);
        ct_replay_flush(&r.lines);
        status = status ? status : r.lines.stopped;
    }
    ct_replay_finish(&r);
    return status;
}
