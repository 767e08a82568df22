/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that did nothing for long before the recording ended: see idle.h. */
#include "report/idle.h"
#include "base/json_write.h"
#include "report/scan.h"
#include "trace/reader.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At least half a second, and a tenth of the recording; of a recording of any length, ten seconds are long. */
#define LEAST_NS    UINT64_C(500000000)
#define ALWAYS_LONG UINT64_C(10000000000)
#define TENTH       10u

static bool is_long(uint64_t idle_ns, uint64_t recording_ns) {
    return idle_ns >= ALWAYS_LONG || (idle_ns >= LEAST_NS && idle_ns >= recording_ns / TENTH);
}

/* Functions were switched off (`contrail ctl`): threads may do anything. */
static bool is_switched_off(const struct ct_json_node *root) {
    const struct ct_json_node *last = NULL, *node = ct_json_first(ct_json_get(root, "policies", NULL));
    for (; node; node = node->next)
        last = node;
    return strstr(ct_json_text(ct_json_get(last, "text", NULL), ""), "record off\n") != NULL;
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    const struct ct_trace_function *f = ct_trace_function(arg, process, function);
    return f && f->entry_only;
}

static void ignore_lost(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame;
}

/* ---- one thread ---- */

static uint32_t module_of(uint64_t function) {
    return (uint32_t)(function >> 32);
}

/* What programs wait in is deep inside these: which of their functions the program has called says more. */
static bool is_of_system(const struct ct_trace *trace, size_t process, uint64_t function) {
    static const char *const names[] = {"libc.", "libc-", "libpthread", "ld-", "libstdc++.", "libc++.", "libgcc_s."};
    const struct ct_trace_function *f = ct_trace_function(trace, process, function);
    for (size_t i = 0; f && i < sizeof names / sizeof names[0]; i++)
        if (!strncmp(f->module, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Of calls inside one library of the system only the outermost is named. */
static void name_calls(struct ct_idle *idle, const struct ct_trace *trace, const struct ct_frames *frames) {
    size_t process = ct_trace_thread_at(trace, idle->thread)->process;
    const struct ct_frame *frame = ct_frames_top(frames), *first = frame;
    const struct ct_frame *caller = first ? ct_frames_at(frames, ct_frames_caller(frames, first)) : NULL;
    bool of_system = true;
    for (; frame && (of_system || idle->call_count < 2);
         frame = ct_frames_at(frames, ct_frames_caller(frames, frame))) {
        uint64_t *last = idle->call_count ? &idle->calls[idle->call_count - 1] : NULL;
        bool inside = last && of_system && module_of(*last) == module_of(frame->function);
        if (!inside && idle->call_count == CT_IDLE_CALLS)
            break;
        of_system = is_of_system(trace, process, frame->function);
        if (inside)
            *last = frame->function;
        else
            idle->calls[idle->call_count++] = frame->function;
    }
    if (first && idle->call_count == 1) { /* it never left that library */
        idle->calls[0] = first->function;
        if (caller)
            idle->calls[idle->call_count++] = caller->function;
    }
    idle->innermost = first ? first->function : 0;
}

/* Finds the calls that are open after the thread's last event. */
static int read_calls(struct ct_idle *idle, struct ct_trace *trace, const struct ct_facts *facts) {
    struct ct_frames frames = {0};
    struct ct_scan scan;
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = trace,
                                                             .facts = facts,
                                                             .thread = idle->thread,
                                                             .from_ns = idle->since_ns + 1,
                                                             .frames = &frames,
                                                             .lost = ignore_lost,
                                                             .entry_only = is_entry_only,
                                                             .arg = trace});
    if (!status) {
        name_calls(idle, trace, &frames);
        idle->open = frames.count;
        idle->unknown = idle->open && !idle->call_count;
    }
    ct_scan_close(&scan);
    ct_frames_free(&frames);
    return status;
}

/* Its last event says which call it is in, if that is a call. */
static void guess_calls(struct ct_idle *idle, const struct atf_index_event *last, bool entry_only) {
    idle->unknown = true;
    if (last->event_kind != CT_TRACE_CALL || entry_only)
        return;
    idle->calls[idle->call_count++] = idle->innermost = last->function_id;
    idle->open = 1;
    idle->unknown = false;
}

/* Returns 1 if the thread is idle, 0 if not. */
static int look_at_thread(struct ct_idle *idle, struct ct_trace *trace, const struct ct_facts *facts, size_t thread,
                          uint64_t most) {
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    const struct ct_trace_process *process = ct_trace_process_at(trace, info->process);
    const struct ct_thread_facts *known = &facts->threads[thread];
    struct ct_index *index = &trace->threads[thread].index;
    struct atf_index_event last;
    if (known->end_ns || !index->count || ct_index_read(index, index->end - 1, &last, 1) != 1)
        return 0;
    bool in_gap = known->gap_count && known->gaps[known->gap_count - 1].at >= index->end;
    uint64_t end_ns = process->recording_end_ns;
    *idle = (struct ct_idle){.thread = thread, .since_ns = last.timestamp_ns};
    idle->idle_ns = end_ns > idle->since_ns ? end_ns - idle->since_ns : 0;
    if (in_gap || !is_long(idle->idle_ns, end_ns - process->recording_start_ns))
        return 0;
    bool entry_only = last.event_kind == CT_TRACE_CALL && is_entry_only(trace, info->process, last.function_id);
    idle->inside = entry_only ? last.function_id : 0;
    int status = 0;
    if (info->event_count > most)
        guess_calls(idle, &last, entry_only);
    else
        status = read_calls(idle, trace, facts);
    size_t open = idle->unknown ? SIZE_MAX : idle->open;
    bool lives = ct_facts_thread_end(facts, trace, thread, idle->since_ns, open) >= end_ns;
    return status ? status : lives;
}

/* ---- all of them ---- */

static int by_time(const void *a, const void *b) {
    const struct ct_idle *x = a, *y = b;
    if (x->since_ns != y->since_ns)
        return x->since_ns < y->since_ns ? -1 : 1;
    return x->thread < y->thread ? -1 : 1;
}

int ct_idle_find(struct ct_idle_list *out, struct ct_trace *trace, const struct ct_facts *facts, size_t process,
                 uint64_t most) {
    *out = (struct ct_idle_list){0};
    if (is_switched_off(ct_json_root(facts->trees[process])))
        return 0;
    out->items = calloc(ct_trace_process_at(trace, process)->thread_count + 1, sizeof *out->items);
    if (!out->items)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        if (ct_trace_thread_at(trace, i)->process != process)
            continue;
        int result = look_at_thread(&out->items[out->count], trace, facts, i, most);
        if (result < 0) {
            ct_idle_free(out);
            return result;
        }
        out->count += result > 0;
    }
    qsort(out->items, out->count, sizeof *out->items, by_time);
    return 0;
}

void ct_idle_free(struct ct_idle_list *list) {
    free(list->items);
    *list = (struct ct_idle_list){0};
}

/* ---- as JSON ---- */

static void function_json(struct ct_json *json, const char *key, const struct ct_trace *trace, size_t process,
                          uint64_t function) {
    const struct ct_trace_function *f = ct_trace_function(trace, process, function);
    char number[32];
    snprintf(number, sizeof number, "%" PRIx64, function);
    ct_json_begin(json, key, '{');
    ct_json_string(json, "function", f ? f->name : number);
    ct_json_string(json, "module", f ? f->module : "");
    ct_json_end(json, '}');
}

void ct_idle_json(const struct ct_idle_list *list, const struct ct_trace *trace, size_t process, struct ct_json *json) {
    ct_json_begin(json, "idle", '[');
    for (size_t i = 0; i < list->count; i++) {
        const struct ct_idle *idle = &list->items[i];
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, idle->thread);
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "id", thread->id);
        ct_json_number(json, "tid", thread->tid);
        ct_json_string(json, "name", thread->name);
        ct_json_number(json, "since_ns", idle->since_ns);
        ct_json_number(json, "idle_ns", idle->idle_ns);
        ct_json_bool(json, "known", !idle->unknown);
        ct_json_number(json, "open_calls", idle->open);
        ct_json_begin(json, "calls", '[');
        for (size_t k = 0; k < idle->call_count; k++)
            function_json(json, NULL, trace, process, idle->calls[k]);
        ct_json_end(json, ']');
        if (idle->innermost)
            function_json(json, "innermost", trace, process, idle->innermost);
        if (idle->inside)
            function_json(json, "inside", trace, process, idle->inside);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}
