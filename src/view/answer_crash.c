/* SPDX-License-Identifier: Apache-2.0 */
/* /api/crash: signals that processes died of, as the recorder saw them, and the last calls before. */
#include "query/calls.h"
#include "trace/reader.h"
#include "trace/signal_text.h"
#include "view/lines.h"
#include <stdlib.h>
#include <string.h>

enum { LAST_CALLS = 40 };

/* ---- the last calls of a thread ---- */

struct last {
    struct ct_call calls[LAST_CALLS]; /* by time */
    size_t count;
};

static void keep(struct last *l, const struct ct_call *call) {
    size_t at = l->count;
    while (at && l->calls[at - 1].began_ns > call->began_ns)
        at--;
    if (l->count == LAST_CALLS) {
        if (!at)
            return;
        memmove(&l->calls[0], &l->calls[1], (at - 1) * sizeof *call);
        at--;
    } else {
        memmove(&l->calls[at + 1], &l->calls[at], (l->count - at) * sizeof *call);
        l->count++;
    }
    l->calls[at] = *call;
}

static int read_last(struct ct_view_answer *a, size_t thread, uint64_t time_ns, struct last *l) {
    struct ct_source *s = a->reader->source;
    struct ct_index *index = &s->trace->threads[thread].index;
    uint64_t end = ct_summary_position(s->trace, thread, time_ns + 1), first = index->first;
    struct ct_call_reader *r = calloc(1, sizeof *r);
    struct ct_ask ask;
    ct_ask_all(&ask);
    first = end > first + 4 * LAST_CALLS ? end - 4 * LAST_CALLS : first;
    ask.ranges[CT_ASK_ID] =
        (struct ct_ask_range){ct_source_call_id(thread, first), ct_source_call_id(thread, end ? end - 1 : 0)};
    int status = r ? ct_call_reader_open(r, s, &ask) : CT_ERR_NO_MEMORY;
    while (!status && (status = ct_call_reader_next(r)) > 0) {
        keep(l, &r->call);
        status = 0;
    }
    if (r)
        ct_call_reader_close(r);
    free(r);
    return status;
}

static void put_last(struct ct_view_answer *a, size_t thread, uint64_t time_ns) {
    struct ct_source *s = a->reader->source;
    struct ct_argument_reader *reader = ct_source_arguments(s);
    struct ct_arguments *values = malloc(sizeof *values);
    struct last *l = calloc(1, sizeof *l);
    size_t process = ct_trace_thread_at(s->trace, thread)->process;
    char text[1024];
    ct_json_begin(&a->json, "last", '[');
    if (l && !read_last(a, thread, time_ns, l))
        for (size_t i = 0; i < l->count; i++) {
            const struct ct_call *call = &l->calls[i];
            const struct ct_view_name *name =
                ct_view_names_get(&a->trace->names, ct_view_function(a, process, call->function));
            ct_json_begin(&a->json, NULL, '{');
            ct_json_signed(&a->json, "id", ct_source_call_id(thread, call->sequence));
            ct_json_string(&a->json, "name", name ? name->name : "");
            ct_view_put_time(a, "start", call->began_ns);
            ct_json_signed(&a->json, "duration",
                           call->end == CT_CALL_RETURNED || call->end == CT_CALL_LEFT ? (int64_t)call->duration_ns
                                                                                      : -1);
            ct_json_number(&a->json, "depth", call->depth);
            ct_json_string(&a->json, "ended", ct_call_end_name(call->end));
            if (values && reader && call->detail != CT_TRACE_NO_DETAIL &&
                !ct_arguments_read(reader, thread, call->detail, values)) {
                ct_arguments_text(values, text, sizeof text);
                ct_json_string(&a->json, "arguments", text);
            }
            if (values && reader && call->end_detail != CT_TRACE_NO_DETAIL &&
                !ct_arguments_read(reader, thread, call->end_detail, values)) {
                ct_arguments_result(values, text, sizeof text);
                ct_json_string(&a->json, "result", text);
            }
            ct_json_end(&a->json, '}');
        }
    ct_json_end(&a->json, ']');
    free(values);
    free(l);
}

/* ---- signals of the manifest ---- */

size_t ct_view_thread_of(const struct ct_trace *trace, size_t process, uint64_t tid) {
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_trace_thread_at(trace, i)->process == process && ct_trace_thread_at(trace, i)->tid == tid)
            return i;
    return SIZE_MAX;
}

/* The function at an address in a module, and how far into it that is. */
static const struct ct_trace_function *function_at(struct ct_view_answer *a, size_t process, const char *path,
                                                   uint64_t pc, uint64_t *into) {
    const struct ct_trace *trace = a->reader->trace;
    for (size_t i = 0; i < ct_trace_module_count(trace); i++) {
        const struct ct_trace_module *m = ct_trace_module_at(trace, i);
        if (m->process != process || pc < m->base || strcmp(m->path, path) != 0)
            continue;
        const struct ct_trace_function *f = ct_trace_place(trace, process, m->id, pc - m->base).function;
        *into = f ? pc - m->base - f->offset : 0;
        return f;
    }
    return NULL;
}

/* Of all frames but the innermost one the address is that after the call. */
static void put_frame(struct ct_view_answer *a, size_t process, const struct ct_json_node *frame, bool innermost) {
    const char *module = ct_json_text(ct_json_get(frame, "module", NULL), "");
    uint64_t offset = ct_json_u64(ct_json_get(frame, "offset", NULL), 0), into = 0;
    uint64_t pc = ct_json_u64(ct_json_get(frame, "pc", NULL), 0);
    const struct ct_trace_function *f = function_at(a, process, module, innermost || !pc ? pc : pc - 1, &into);
    const char *name = ct_json_text(ct_json_get(frame, "function", NULL), "");
    ct_json_begin(&a->json, NULL, '{');
    ct_json_string(&a->json, "name", strlen(name) <= CT_VIEW_NAME ? name : "(a very long name)");
    ct_json_string(&a->json, "module", module);
    ct_json_number(&a->json, "offset", offset);
    ct_json_node_put(&a->json, "pc", ct_json_get(frame, "pc", NULL));
    ct_view_put_line(a, process, f, into);
    ct_json_end(&a->json, '}');
}

static void put_stacks(struct ct_view_answer *a, size_t process, const struct ct_json_node *stacks) {
    ct_json_begin(&a->json, "threads", '[');
    for (const struct ct_json_node *stack = ct_json_first(stacks); stack; stack = stack->next) {
        uint64_t tid = ct_json_u64(ct_json_get(stack, "tid", NULL), 0);
        size_t thread = ct_view_thread_of(a->reader->trace, process, tid);
        ct_json_begin(&a->json, NULL, '{');
        ct_json_signed(&a->json, "thread", thread == SIZE_MAX ? -1 : (int64_t)thread + 1);
        ct_json_number(&a->json, "tid", tid);
        ct_json_string(&a->json, "name", ct_json_text(ct_json_get(stack, "name", NULL), ""));
        ct_json_begin(&a->json, "frames", '[');
        const struct ct_json_node *frame = ct_json_first(ct_json_get(stack, "frames", NULL));
        for (unsigned i = 0; frame && i < 256; frame = frame->next, i++)
            put_frame(a, process, frame, i == 0);
        ct_json_end(&a->json, ']');
        ct_json_end(&a->json, '}');
    }
    ct_json_end(&a->json, ']');
}

static void put_registers(struct ct_view_answer *a, const struct ct_json_node *registers) {
    ct_json_begin(&a->json, "registers", '[');
    for (const struct ct_json_node *r = ct_json_first(registers); r; r = r->next) {
        ct_json_begin(&a->json, NULL, '[');
        ct_json_string(&a->json, NULL, r->key ? r->key : "");
        ct_json_string(&a->json, NULL, ct_json_text(r, ""));
        ct_json_end(&a->json, ']');
    }
    ct_json_end(&a->json, ']');
}

static void put_signal(struct ct_view_answer *a, size_t process, const struct ct_json_node *signal) {
    size_t thread =
        ct_view_thread_of(a->reader->trace, process, ct_json_u64(ct_json_get(signal, "tid", NULL), UINT64_MAX));
    uint64_t end = ct_trace_process_at(a->reader->trace, process)->time_end_ns;
    uint64_t time = ct_json_u64(ct_json_get(signal, "time_ns", NULL), end);
    ct_json_begin(&a->json, NULL, '{');
    ct_json_number(&a->json, "process", process + 1);
    ct_json_signed(&a->json, "thread", thread == SIZE_MAX ? -1 : (int64_t)thread + 1);
    ct_json_string(&a->json, "signal", ct_json_text(ct_json_get(signal, "name", NULL), ""));
    ct_json_number(&a->json, "number", ct_json_u64(ct_json_get(signal, "signal", NULL), 0));
    ct_json_node_put(&a->json, "code", ct_json_get(signal, "code", NULL));
    ct_json_node_put(&a->json, "address", ct_json_get(signal, "fault_address", NULL));
    ct_view_put_time(a, "time", time);
    put_registers(a, ct_json_get(signal, "registers", NULL));
    put_stacks(a, process, ct_json_get(signal, "stacks", NULL));
    if (thread != SIZE_MAX)
        put_last(a, thread, time);
    ct_json_end(&a->json, '}');
}

void ct_view_answer_crash(struct ct_view_answer *a) {
    enum { MOST = 64 };
    const struct ct_facts *facts = &a->reader->source->facts;
    size_t count = 0;
    ct_json_begin(&a->json, "crashes", '[');
    for (size_t i = 0; i < facts->process_count; i++) {
        const struct ct_json_node *signals = ct_json_get(ct_json_root(facts->trees[i]), "signals", NULL);
        for (const struct ct_json_node *s = ct_json_first(signals); s && count < MOST; s = s->next)
            if (ct_json_flag(ct_json_get(s, "fatal", NULL), false)) {
                put_signal(a, i, s);
                count++;
            }
    }
    ct_json_end(&a->json, ']');
}
