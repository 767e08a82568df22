/* SPDX-License-Identifier: Apache-2.0 */
/* /api/call and /api/at: one call, with what it was called with and in. */
#include "abi/atf.h"
#include "query/calls.h"
#include "trace/reader.h"
#include "view/lines.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLERS = 1000, LINE = 16 };

/* ---- what the records say ---- */

static void put_stack(struct ct_view_answer *a, size_t thread, uint32_t record) {
    struct ct_trace_detail *detail = calloc(1, sizeof *detail);
    char line[96];
    ct_json_begin(&a->json, "stack", '[');
    if (detail) {
        detail->size = sizeof *detail;
        if (ct_trace_detail(a->reader->trace, thread, record, detail) != 0)
            detail->stack_size = 0;
        for (unsigned at = 0; at < detail->stack_size && at < sizeof detail->stack; at += LINE) {
            int used = snprintf(line, sizeof line, "%016llx ", (unsigned long long)(detail->stack_pointer + at));
            for (unsigned i = at; i < at + LINE && i < detail->stack_size; i++)
                used += snprintf(line + used, sizeof line - (size_t)used, " %02x", detail->stack[i]);
            ct_json_string(&a->json, NULL, line);
        }
    }
    ct_json_end(&a->json, ']');
    free(detail);
}

static void put_arguments(struct ct_view_answer *a, size_t thread, const struct ct_call *call) {
    struct ct_argument_reader *reader = ct_source_arguments(a->reader->source);
    struct ct_arguments *values = reader ? malloc(sizeof *values) : NULL;
    ct_json_begin(&a->json, "arguments", '[');
    if (values && call->detail != CT_TRACE_NO_DETAIL && !ct_arguments_read(reader, thread, call->detail, values))
        for (size_t i = 0; i < values->count; i++) {
            ct_json_begin(&a->json, NULL, '{');
            ct_json_string(&a->json, "name", values->at[i].name);
            ct_json_string(&a->json, "value", values->at[i].text);
            ct_json_end(&a->json, '}');
        }
    ct_json_end(&a->json, ']');
    if (values && call->end_detail != CT_TRACE_NO_DETAIL &&
        !ct_arguments_read(reader, thread, call->end_detail, values)) {
        const char *name = values->error ? strerrorname_np((int)values->error) : NULL;
        if (values->count)
            ct_json_string(&a->json, "result", values->at[0].text);
        if (name)
            ct_json_string(&a->json, "error", name);
    }
    free(values);
}

/* ---- around it ---- */

static void put_callers(struct ct_view_answer *a, int64_t id) {
    struct ct_rows *rows = NULL;
    struct ct_ask ask;
    size_t count = 0;
    ct_ask_all(&ask);
    ask.ranges[CT_ASK_FIRST] = (struct ct_ask_range){id, id};
    ct_json_begin(&a->json, "callers", '[');
    int status = ct_rows_open(&rows, a->reader->source, CT_TABLE_CALLERS, &ask);
    while (!status && count < MOST_CALLERS && ct_rows_next(rows) > 0) {
        if (!count++) /* the call itself */
            continue;
        ct_json_begin(&a->json, NULL, '{');
        ct_view_put_cell(a, "id", rows, CT_CALLERS_id);
        ct_view_put_cell(a, "name", rows, CT_CALLERS_function);
        ct_view_put_cell(a, "module", rows, CT_CALLERS_module);
        ct_view_put_cell(a, "start", rows, CT_CALLERS_start);
        ct_view_put_cell(a, "depth", rows, CT_CALLERS_depth);
        ct_json_end(&a->json, '}');
    }
    if (!status)
        ct_rows_close(rows);
    ct_json_end(&a->json, ']');
}

/* What is known of all calls of the function, when the report is there: making it may take long (make.c). */
static void put_same(struct ct_view_answer *a, size_t process, uint64_t function) {
    pthread_mutex_lock(&a->trace->lock);
    const struct ct_report *report = a->trace->report;
    pthread_mutex_unlock(&a->trace->lock);
    for (size_t i = 0; report && i < report->row_count; i++) {
        const struct ct_report_row *row = &report->rows[i];
        if (row->process != process || row->function != function || !row->timed)
            continue;
        ct_json_begin(&a->json, "same", '{');
        ct_json_number(&a->json, "calls", row->calls);
        ct_json_number(&a->json, "median", row->p50_ns);
        ct_json_number(&a->json, "p99", row->p99_ns);
        ct_json_number(&a->json, "longest", row->max_ns);
        ct_json_end(&a->json, '}');
        return;
    }
}

static void put_place(struct ct_view_answer *a, size_t process, const struct ct_cached_function *known) {
    ct_json_string(&a->json, "name", known ? known->name : "");
    ct_json_string(&a->json, "module", known ? known->module : "");
    ct_view_put_line(a, process, known ? known->function : NULL, 0);
}

static void put_call(struct ct_view_answer *a, const struct ct_call_reader *r) {
    struct ct_source *s = a->reader->source;
    const struct ct_call *call = &r->call;
    int64_t id = ct_source_call_id(r->thread, call->sequence);
    bool timed = call->end != CT_CALL_LOST && call->end != CT_CALL_ENTRY;
    ct_json_signed(&a->json, "id", id);
    ct_json_number(&a->json, "thread", r->thread + 1);
    ct_json_number(&a->json, "function", ct_view_function(a, r->process, call->function));
    put_place(a, r->process, ct_function_cache_get(&s->names, r->process, call->function));
    ct_view_put_time(a, "start", call->began_ns);
    ct_json_signed(&a->json, "duration", timed ? (int64_t)call->duration_ns : -1);
    ct_json_signed(&a->json, "self", timed ? (int64_t)call->self_ns : -1);
    ct_json_number(&a->json, "depth", call->depth);
    ct_json_signed(&a->json, "parent",
                   call->parent == CT_CALL_NO_PARENT ? -1 : ct_source_call_id(r->thread, call->parent));
    ct_json_string(&a->json, "ended", ct_call_end_name(call->end));
    ct_json_bool(&a->json, "open", call->end == CT_CALL_OPEN);
    ct_json_bool(&a->json, "detail", call->detail != CT_TRACE_NO_DETAIL);
    put_arguments(a, r->thread, call);
    if (call->detail != CT_TRACE_NO_DETAIL)
        put_stack(a, r->thread, call->detail);
    put_callers(a, id);
    put_same(a, r->process, call->function);
}

static void find_call(struct ct_view_answer *a, int64_t id) {
    struct ct_call_reader *r = calloc(1, sizeof *r);
    struct ct_ask ask;
    ct_ask_all(&ask);
    ask.ranges[CT_ASK_ID] = (struct ct_ask_range){id, id};
    int status = r ? ct_call_reader_open(r, a->reader->source, &ask) : CT_ERR_NO_MEMORY;
    if (!status)
        status = ct_call_reader_next(r);
    if (status > 0)
        put_call(a, r);
    else if (status)
        ct_view_fail(a, status);
    else
        ct_view_refuse(a, 404, "the trace has no such call");
    if (r)
        ct_call_reader_close(r);
    free(r);
}

void ct_view_answer_call(struct ct_view_answer *a) {
    find_call(a, (int64_t)ct_view_number(a, "id", INT64_MAX));
}

/* The call that is open at a time, at a depth: the innermost one when no depth is asked for. */
void ct_view_answer_at(struct ct_view_answer *a) {
    struct ct_rows *rows = NULL;
    struct ct_ask ask;
    struct ct_cell cell;
    size_t thread;
    int64_t time = (int64_t)ct_view_number(a, "time", 0), id = -1;
    uint64_t depth = ct_view_number(a, "depth", UINT64_MAX);
    if (!ct_view_thread(a, &thread))
        return;
    ct_ask_all(&ask);
    ask.ranges[CT_ASK_FIRST] = (struct ct_ask_range){(int64_t)thread + 1, (int64_t)thread + 1};
    ask.ranges[CT_ASK_SECOND] = (struct ct_ask_range){time, time};
    int status = ct_rows_open(&rows, a->reader->source, CT_TABLE_STACK_AT, &ask);
    while (!status && id < 0 && ct_rows_next(rows) > 0) {
        ct_rows_cell(rows, CT_STACK_AT_depth, &cell);
        if (depth != UINT64_MAX && (cell.type != CT_CELL_INTEGER || (uint64_t)cell.integer != depth))
            continue;
        ct_rows_cell(rows, CT_STACK_AT_id, &cell);
        id = cell.integer;
    }
    if (!status)
        ct_rows_close(rows);
    if (status)
        ct_view_fail(a, status);
    else if (id < 0)
        ct_view_refuse(a, 404, "no call is open there");
    else
        find_call(a, id);
}
