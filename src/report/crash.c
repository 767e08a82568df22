/* SPDX-License-Identifier: Apache-2.0 */
/* Signals and crashes: see crash.h. */
#include "report/crash.h"
#include "trace/frames.h"
#include "base/json_write.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- open calls ---- */

static void copy_calls(const struct ct_frames *frames, size_t thread, struct ct_open_calls *out) {
    out->thread = thread;
    out->count = out->shown = 0;
    const struct ct_frame *frame = ct_frames_known(frames, frames->running);
    for (; frame; frame = ct_frames_known(frames, ct_frames_caller(frames, frame))) {
        out->count++;
        size_t place = out->shown < CT_CRASH_FRAMES ? out->shown++ : CT_CRASH_FRAMES - 1;
        out->functions[place] = frame->function;
    }
}

static int by_time(const void *a, const void *b) {
    const struct ct_crash_signal *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* Drops the earliest signal when there are too many. */
static struct ct_crash_signal *new_signal(struct ct_crash *crash) {
    crash->all_signals++;
    if (crash->signal_count < CT_CRASH_SIGNALS)
        return &crash->signals[crash->signal_count++];
    struct ct_crash_signal *earliest = &crash->signals[0];
    for (size_t i = 1; i < crash->signal_count; i++)
        if (crash->signals[i].time_ns < earliest->time_ns)
            earliest = &crash->signals[i];
    return earliest;
}

static void on_signal(struct ct_crash *crash, struct ct_trace *trace, const struct ct_frames *frames,
                      const struct ct_trace_event *event) {
    struct ct_crash_signal *signal = new_signal(crash);
    signal->time_ns = event->timestamp_ns;
    copy_calls(frames, event->thread, &signal->calls);
    signal->detail.size = sizeof signal->detail;
    signal->has_detail = ct_trace_detail(trace, event->thread, event->detail, &signal->detail) == 0 &&
                         signal->detail.type == CT_TRACE_DETAIL_SIGNAL;
}

static void ignore_lost(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame;
}

static void on_event(struct ct_crash *crash, struct ct_trace *trace, size_t process, struct ct_frames *frames,
                     const struct ct_trace_event *event) {
    struct ct_frame closed;
    if (event->kind == CT_TRACE_EXCEPTION && !event->function_id) {
        on_signal(crash, trace, frames, event);
    } else if (event->kind != CT_TRACE_CALL) {
        ct_frames_end(frames, event, &closed);
    } else {
        const struct ct_trace_function *f = ct_trace_function(trace, process, event->function_id);
        if (!f || !f->entry_only)
            ct_frames_call(frames, event);
        else
            (void)ct_frames_entry(frames, event);
    }
}

/* Adds calls from before the oldest event that was kept. */
static void inherit_calls(struct ct_trace *trace, size_t thread, struct ct_frames *frames) {
    uint64_t *functions;
    size_t count;
    if (ct_trace_open_calls(trace, thread, &functions, &count) == 0)
        ct_frames_inherit(frames, functions, count, ct_trace_process_at(trace, 0)->time_start_ns);
    free(functions);
}

static int read_thread(struct ct_crash *crash, struct ct_trace *trace, const struct ct_facts *facts, size_t thread,
                       bool killed) {
    const struct ct_thread_facts *known = &facts->threads[thread];
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    struct ct_frames frames = {0};
    size_t gap = 0, process = ct_trace_thread_at(trace, thread)->process;
    int status = ct_trace_cursor_open_thread(&cursor, trace, thread, 0);
    if (status)
        return status;
    ct_frames_begin(&frames, known->complete, ignore_lost, NULL);
    inherit_calls(trace, thread, &frames);
    while (ct_trace_cursor_next(cursor, &event)) {
        for (; gap < known->gap_count && known->gaps[gap].at <= event.sequence; gap++)
            ct_frames_gap(&frames, 0);
        on_event(crash, trace, process, &frames, &event);
    }
    if (killed && !known->end_ns && frames.count)
        copy_calls(&frames, thread, &crash->threads[crash->thread_count++]);
    status = frames.no_memory ? CT_ERR_NO_MEMORY : 0;
    ct_trace_cursor_close(cursor);
    ct_frames_free(&frames);
    return status;
}

/* ---- a process ---- */

/* A trace that was not finished may end with a crash. */
static bool may_have_signals(const struct ct_trace *trace, const struct ct_facts *facts, size_t process, bool killed) {
    const struct ct_json_node *root = ct_json_root(facts->trees[process]);
    bool detail = false;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        detail |= ct_trace_thread_at(trace, i)->process == process && ct_trace_thread_at(trace, i)->has_detail;
    bool listed = ct_json_first(ct_json_get(root, "signals", NULL)) != NULL;
    return killed || listed || (detail && !ct_trace_process_at(trace, process)->complete);
}

int ct_crash_make(struct ct_crash **out, struct ct_trace *trace, const struct ct_facts *facts, size_t process) {
    size_t threads = ct_trace_thread_count(trace);
    struct ct_crash *crash = *out = calloc(1, sizeof *crash);
    if (!crash)
        return CT_ERR_NO_MEMORY;
    crash->process = process;
    const struct ct_json_node *reason = ct_json_get(ct_json_root(facts->trees[process]), "end", "reason", NULL);
    bool killed = strcmp(ct_json_text(reason, ""), "signal") == 0;
    if (!may_have_signals(trace, facts, process, killed))
        return 0;
    int status = 0;
    crash->signals = calloc(CT_CRASH_SIGNALS, sizeof *crash->signals);
    crash->threads = calloc(ct_trace_process_at(trace, process)->thread_count + 1, sizeof *crash->threads);
    if (!crash->signals || !crash->threads)
        status = CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < threads && !status; i++)
        if (ct_trace_thread_at(trace, i)->process == process)
            status = read_thread(crash, trace, facts, i, killed);
    if (status) {
        ct_crash_free(crash);
        *out = NULL;
        return status;
    }
    qsort(crash->signals, crash->signal_count, sizeof *crash->signals, by_time);
    return 0;
}

void ct_crash_free(struct ct_crash *crash) {
    if (!crash)
        return;
    free(crash->signals);
    free(crash->threads);
    free(crash);
}

/* ---- as JSON ---- */

static void calls_json(const struct ct_open_calls *calls, const struct ct_trace *trace, size_t process,
                       struct ct_json *json) {
    ct_json_begin(json, "frames", '[');
    for (size_t i = 0; i < calls->shown; i++) {
        const struct ct_trace_function *f = ct_trace_function(trace, process, calls->functions[i]);
        char number[32];
        snprintf(number, sizeof number, "%" PRIx64, calls->functions[i]);
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "function", f ? f->name : number);
        ct_json_string(json, "module", f ? f->module : "");
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
    ct_json_number(json, "open_calls", calls->count);
}

static void hex_json(struct ct_json *json, const char *key, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, value);
    ct_json_string(json, key, text);
}

static void detail_json(const struct ct_trace_detail *detail, const struct ct_trace *trace, size_t process,
                        struct ct_json *json) {
    char text[1024];
    const char *name = sigabbrev_np((int)detail->signal);
    snprintf(text, sizeof text, "SIG%s", name ? name : "?");
    ct_json_number(json, "signal", detail->signal);
    ct_json_string(json, "name", text);
    ct_json_signed(json, "code", detail->code);
    hex_json(json, "fault_address", detail->fault_address);
    ct_signal_text(trace, process, detail, text, sizeof text);
    ct_json_string(json, "text", text);
    ct_json_begin(json, "registers", '{');
    for (unsigned i = 0; ct_cpu_register(detail, i); i++)
        hex_json(json, ct_cpu_register(detail, i), detail->cpu[i]);
    ct_json_end(json, '}');
}

void ct_crash_json(const struct ct_crash *crash, const struct ct_trace *trace, struct ct_json *json) {
    size_t process = crash->process;
    ct_json_begin(json, "signals", '[');
    for (size_t i = 0; i < crash->signal_count; i++) {
        const struct ct_crash_signal *signal = &crash->signals[i];
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "time_ns", signal->time_ns);
        ct_json_number(json, "tid", ct_trace_thread_at(trace, signal->calls.thread)->tid);
        if (signal->has_detail)
            detail_json(&signal->detail, trace, process, json);
        calls_json(&signal->calls, trace, process, json);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
    ct_json_begin(json, "open_calls", '[');
    for (size_t i = 0; i < crash->thread_count; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "tid", ct_trace_thread_at(trace, crash->threads[i].thread)->tid);
        calls_json(&crash->threads[i], trace, process, json);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}
