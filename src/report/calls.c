/* SPDX-License-Identifier: Apache-2.0 */
/* Single calls of a selection: see calls.h. */
#include "report/calls.h"
#include "base/json_write.h"
#include "report/fits.h"
#include "report/output.h"
#include "report/scan_skip.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct ct_calls *calls;
    struct ct_trace *trace;
    const struct ct_fits *fits;
    enum ct_calls_order order;
    size_t most;
    struct ct_frames frames;
    uint64_t least_ns; /* shorter calls are not among them */
    size_t thread, process;
    bool failed; /* out of memory */
};

/* ---- the best ones: a heap with the worst of them first ---- */

/* Ties: the earlier call, then the thread and the position. */
static bool comes_before(const struct search *s, const struct ct_found_call *a, const struct ct_found_call *b) {
    bool last = s->order == CT_CALLS_LAST;
    if (s->order == CT_CALLS_SLOWEST && a->duration_ns != b->duration_ns)
        return a->duration_ns > b->duration_ns;
    if (a->began_ns != b->began_ns)
        return (a->began_ns < b->began_ns) != last;
    if (a->thread != b->thread)
        return (a->thread < b->thread) != last;
    return (a->sequence < b->sequence) != last;
}

static void sift_down(const struct search *s, size_t count) {
    struct ct_found_call *at = s->calls->at, moving = at[0];
    size_t place = 0;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= count)
            break;
        if (child + 1 < count && comes_before(s, &at[child], &at[child + 1]))
            child++;
        if (!comes_before(s, &moving, &at[child]))
            break;
        at[place] = at[child];
        place = child;
    }
    at[place] = moving;
}

static void sift_up(const struct search *s, size_t place) {
    struct ct_found_call *at = s->calls->at, moving = at[place];
    for (; place && comes_before(s, &at[(place - 1) / 2], &moving); place = (place - 1) / 2)
        at[place] = at[(place - 1) / 2];
    at[place] = moving;
}

static void offer(struct search *s, const struct ct_found_call *call) {
    struct ct_calls *calls = s->calls;
    calls->fitting++;
    if (calls->count < s->most) {
        calls->at[calls->count++] = *call;
        sift_up(s, calls->count - 1);
    } else if (comes_before(s, call, &calls->at[0])) {
        calls->at[0] = *call;
        sift_down(s, calls->count);
    }
}

/* Takes the worst out, again and again: the best is first then. */
static void sort_calls(const struct search *s) {
    struct ct_found_call *at = s->calls->at;
    for (size_t n = s->calls->count; n > 1; n--) {
        struct ct_found_call worst = at[0];
        at[0] = at[n - 1];
        sift_down(s, n - 1);
        at[n - 1] = worst;
    }
}

/* ---- events ---- */

/* `end_ns` 0: its end is not known. */
static void on_call_end(struct search *s, const struct ct_frame *frame, uint64_t end_ns, bool open) {
    if (!ct_fits_call(s->fits, s->thread, frame->sequence) || (!end_ns && s->order == CT_CALLS_SLOWEST))
        return;
    struct ct_found_call call = {
        .thread = s->thread,
        .sequence = frame->sequence,
        .began_ns = frame->began_ns,
        .duration_ns = end_ns > frame->began_ns ? end_ns - frame->began_ns : 0,
        .self_ns = frame->self_ns,
        .known = ct_function_cache_get(&s->calls->names, s->process, frame->function),
        .open = open,
        .timed = end_ns != 0,
    };
    if (call.known)
        offer(s, &call);
    else
        s->failed = true;
}

static void on_lost(void *arg, struct ct_frame *frame) {
    on_call_end(arg, frame, 0, false);
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    struct search *s = arg;
    const struct ct_cached_function *known = ct_function_cache_get(&s->calls->names, process, function);
    return known && known->entry_only;
}

static void on_event(struct search *s, const struct ct_trace_event *event) {
    struct ct_frame frame;
    if (event->kind == CT_TRACE_CALL) {
        if (is_entry_only(s, s->process, event->function_id)) {
            (void)ct_frames_entry(&s->frames, event);
            frame = (struct ct_frame){
                .function = event->function_id, .began_ns = event->timestamp_ns, .sequence = event->sequence};
            on_call_end(s, &frame, 0, false);
        } else if (!ct_frames_call(&s->frames, event)) {
            s->failed = true;
        }
    } else if ((event->kind != CT_TRACE_EXCEPTION || event->function_id) && ct_frames_end(&s->frames, event, &frame)) {
        on_call_end(s, &frame, event->timestamp_ns, false);
    }
}

static bool is_needed(void *arg, const struct ct_summary *summary, size_t span) {
    const struct search *s = arg;
    return ct_fits_between(s->fits, s->thread, ct_summary_span(summary, span)->first_seq,
                           ct_summary_span_end(summary, span));
}

static int read_thread(struct search *s, const struct ct_facts *facts, const struct ct_select *select, size_t thread) {
    static const struct ct_scan_spans spans = {.needed = is_needed};
    struct ct_scan scan;
    struct ct_trace_event event;
    struct ct_frame frame;
    s->thread = thread;
    s->process = ct_trace_thread_at(s->trace, thread)->process;
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = s->trace,
                                                             .facts = facts,
                                                             .thread = thread,
                                                             .from_ns = select->from_ns,
                                                             .to_ns = select->to_ns,
                                                             .frames = &s->frames,
                                                             .lost = on_lost,
                                                             .entry_only = is_entry_only,
                                                             .arg = s,
                                                             .spans = s->fits ? &spans : NULL,
                                                             .least_ns = s->least_ns});
    while (!status && !s->failed && ct_scan_next(&scan, &event))
        on_event(s, &event);
    uint64_t end_ns = status ? 0 : ct_scan_end(&scan);
    while (!status && ct_frames_take(&s->frames, end_ns, &frame))
        on_call_end(s, &frame, end_ns, true);
    s->calls->fitting += s->fits ? 0 : scan.left_out;
    ct_scan_close(&scan);
    return status ? status : s->failed ? CT_ERR_NO_MEMORY : 0;
}

static int read_threads(struct search *s, const struct ct_select *select, const char *const *directories) {
    struct ct_facts facts;
    struct ct_fits *fits = NULL;
    int status = ct_facts_load(&facts, s->trace);
    if (status)
        return status;
    status = ct_fits_make(&fits, s->trace, &facts, select, CT_FITS_FUNCTIONS, directories);
    s->fits = fits;
    if (!status && !fits && s->order == CT_CALLS_SLOWEST && !select->from_ns && !select->to_ns)
        status = ct_scan_nth_longest(s->trace, &facts, select, s->most, &s->least_ns);
    for (size_t i = 0; i < ct_trace_thread_count(s->trace) && !status; i++)
        if (ct_select_thread(select, s->trace, i))
            status = read_thread(s, &facts, select, i);
    ct_fits_free(fits);
    ct_facts_free(&facts);
    ct_frames_free(&s->frames);
    return status;
}

int ct_calls_find(struct ct_calls **out, struct ct_trace *trace, const struct ct_select *select,
                  enum ct_calls_order order, size_t most, const char *const *directories) {
    struct ct_calls *calls = *out = calloc(1, sizeof *calls);
    if (!calls)
        return CT_ERR_NO_MEMORY;
    calls->names = (struct ct_function_cache){.trace = trace, .select = select};
    calls->at = calloc(most, sizeof *calls->at);
    struct search s = {.calls = calls, .trace = trace, .order = order, .most = most};
    int status = calls->at ? read_threads(&s, select, directories) : CT_ERR_NO_MEMORY;
    if (!status)
        sort_calls(&s);
    if (status) {
        ct_calls_free(calls);
        *out = NULL;
    }
    return status;
}

void ct_calls_free(struct ct_calls *calls) {
    if (!calls)
        return;
    ct_function_cache_free(&calls->names);
    free(calls->at);
    free(calls);
}

/* ---- names of calls ---- */

static const char *directory_of(const struct ct_trace *trace, size_t process) {
    const char *directory = ct_trace_process_at(trace, process)->directory, *slash = strrchr(directory, '/');
    return slash ? slash + 1 : directory;
}

void ct_calls_name(const struct ct_trace *trace, size_t thread, uint64_t sequence, char text[CT_CALLS_NAME]) {
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    bool several = ct_trace_process_count(trace) > 1;
    snprintf(text, CT_CALLS_NAME, "call=%.256s%s%u:%" PRIu64, several ? directory_of(trace, info->process) : "",
             several ? "/" : "", info->id, sequence);
}

bool ct_calls_parse(const struct ct_trace *trace, const char *text, size_t *thread, uint64_t *sequence) {
    const char *slash = strrchr(text, '/'), *number = slash ? slash + 1 : text;
    size_t length = slash ? (size_t)(slash - text) : 0;
    unsigned id;
    int end = 0;
    if (sscanf(number, "%u:%" SCNu64 "%n", &id, sequence, &end) != 2 || number[end])
        return false;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        const struct ct_trace_thread *info = ct_trace_thread_at(trace, i);
        const char *directory = directory_of(trace, info->process);
        if (info->id == id && (!slash || (strlen(directory) == length && !strncmp(directory, text, length)))) {
            *thread = i;
            return true;
        }
    }
    return false;
}

uint64_t ct_calls_time(struct ct_trace *trace, size_t thread, uint64_t sequence) {
    struct atf_index_event event;
    return ct_index_read(&trace->threads[thread].index, sequence, &event, 1) ? event.timestamp_ns : 0;
}

/* ---- JSON ---- */

void ct_calls_json(const struct ct_calls *calls, const struct ct_trace *trace, const struct ct_wall *wall,
                   void (*command)(const struct ct_trace *trace, const struct ct_found_call *call, char *text,
                                   size_t size),
                   struct ct_json *json) {
    char text[8192];
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "trace", ct_trace_path(trace));
    ct_json_number(json, "fitting", calls->fitting);
    ct_json_begin(json, "calls", '[');
    for (size_t i = 0; i < calls->count; i++) {
        const struct ct_found_call *call = &calls->at[i];
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, call->thread);
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "time_ns", call->began_ns);
        ct_output_wall_json(json, "time", wall, call->began_ns);
        ct_json_signed(json, "pid", ct_trace_process_at(trace, thread->process)->pid);
        ct_json_number(json, "tid", thread->tid);
        ct_json_number(json, "duration_ns", call->duration_ns);
        ct_json_number(json, "self_ns", call->self_ns);
        ct_json_bool(json, "open", call->open);
        ct_json_string(json, "function", call->known->name);
        ct_json_string(json, "module", call->known->module);
        command(trace, call, text, sizeof text);
        ct_json_string(json, "replay", text);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
    ct_json_end(json, '}');
}
