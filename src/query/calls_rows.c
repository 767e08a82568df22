/* SPDX-License-Identifier: Apache-2.0 */
/* The tables `calls` and subtree(call), which has the same columns that are shown. */
#include "query/calls.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rows {
    struct ct_rows rows;
    struct ct_call_reader reader;
    struct ct_arguments *values; /* of the record that was read last */
    uint64_t values_id;          /* row and side plus one; 0: none was read */
    bool found;
    char text[1024];
};

_Static_assert((int)CT_SUBTREE_id == (int)CT_CALLS_id && (int)CT_SUBTREE_error == (int)CT_CALLS_error,
               "the columns of calls come first");

static int open_rows(struct ct_rows *rows, const struct ct_ask *ask) {
    struct rows *r = (struct rows *)rows;
    r->reader.below = rows->table == CT_TABLE_SUBTREE;
    return ct_call_reader_open(&r->reader, rows->source, ask);
}

static int next_row(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    int status = ct_call_reader_next(&r->reader);
    rows->id = ct_source_call_id(r->reader.thread, r->reader.call.sequence);
    return status;
}

/* Arguments of the call, or its result; NULL: not known. */
static const struct ct_arguments *values_of(struct rows *r, uint32_t detail, bool result) {
    uint64_t id = ((uint64_t)r->rows.id << 1 | result) + 1;
    struct ct_argument_reader *reader = ct_source_arguments(r->rows.source);
    if (detail == CT_TRACE_NO_DETAIL || !reader)
        return NULL;
    if (!r->values)
        r->values = malloc(sizeof *r->values);
    if (!r->values)
        return NULL;
    if (r->values_id != id)
        r->found = ct_arguments_read(reader, r->reader.thread, detail, r->values) == 0;
    r->values_id = id;
    return r->found ? r->values : NULL;
}

static void text_cell(struct rows *r, struct ct_cell *cell) {
    cell->type = CT_CELL_TEXT;
    cell->lasts = false;
    cell->text = r->text;
}

static void arguments_cell(struct rows *r, struct ct_cell *cell) {
    const struct ct_arguments *values = values_of(r, r->reader.call.detail, false);
    if (!values)
        return;
    ct_arguments_text(values, r->text, sizeof r->text);
    text_cell(r, cell);
}

static void result_cell(struct rows *r, bool error, struct ct_cell *cell) {
    const struct ct_call *call = &r->reader.call;
    const struct ct_arguments *values = values_of(r, call->end_detail, true);
    if (!values || (error ? !values->error : !values->count))
        return;
    const char *name = error ? strerrorname_np((int)values->error) : NULL;
    if (name)
        snprintf(r->text, sizeof r->text, "%s", name);
    else if (error)
        snprintf(r->text, sizeof r->text, "%u", values->error);
    else
        snprintf(r->text, sizeof r->text, "%s", values->at[0].text);
    text_cell(r, cell);
}

const char *ct_call_end_name(enum ct_call_end end) {
    static const char *const names[] = {"returned", "left", "open", "lost", "entry"};
    return names[end];
}

static void name_cell(struct rows *r, bool module, struct ct_cell *cell) {
    const struct ct_cached_function *known =
        ct_function_cache_get(&r->rows.source->names, r->reader.process, r->reader.call.function);
    if (known)
        ct_cell_text(cell, module ? known->module : known->name);
}

static void hidden_cell(struct rows *r, int column, struct ct_cell *cell) {
    const struct ct_trace *trace = r->rows.source->trace;
    switch (column) {
    case CT_CALLS_pid:
        return ct_cell_integer(cell, ct_trace_process_at(trace, r->reader.process)->pid);
    case CT_CALLS_tid:
        return ct_cell_integer(cell, ct_trace_thread_at(trace, r->reader.thread)->tid);
    case CT_CALLS_function_id:
        return ct_cell_integer(cell, (int64_t)r->reader.call.function);
    default:
        return;
    }
}

static void get_cell(struct ct_rows *rows, int column, struct ct_cell *cell) {
    struct rows *r = (struct rows *)rows;
    const struct ct_call *call = &r->reader.call;
    bool timed = call->end != CT_CALL_LOST && call->end != CT_CALL_ENTRY;
    cell->type = CT_CELL_NULL;
    switch (column) {
    case CT_CALLS_id:
        return ct_cell_integer(cell, rows->id);
    case CT_CALLS_process:
        return ct_cell_integer(cell, (int64_t)r->reader.process + 1);
    case CT_CALLS_thread:
        return ct_cell_integer(cell, (int64_t)r->reader.thread + 1);
    case CT_CALLS_function:
    case CT_CALLS_module:
        return name_cell(r, column == CT_CALLS_module, cell);
    case CT_CALLS_start:
        return ct_cell_integer(cell, ct_source_time(rows->source, call->began_ns));
    case CT_CALLS_duration:
    case CT_CALLS_self:
        if (timed)
            ct_cell_integer(cell, (int64_t)(column == CT_CALLS_self ? call->self_ns : call->duration_ns));
        return;
    case CT_CALLS_depth:
        return ct_cell_integer(cell, call->depth);
    case CT_CALLS_parent:
        if (call->parent != CT_CALL_NO_PARENT)
            ct_cell_integer(cell, ct_source_call_id(r->reader.thread, call->parent));
        return;
    case CT_CALLS_ended:
        return ct_cell_text(cell, ct_call_end_name(call->end));
    case CT_CALLS_arguments:
        return arguments_cell(r, cell);
    case CT_CALLS_result:
    case CT_CALLS_error:
        return result_cell(r, column == CT_CALLS_error, cell);
    default:
        if (rows->table == CT_TABLE_CALLS)
            hidden_cell(r, column, cell);
        return;
    }
}

static void close_rows(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    ct_call_reader_close(&r->reader);
    free(r->values);
}

const struct ct_rows_class ct_rows_calls = {
    .size = sizeof(struct rows), .open = open_rows, .next = next_row, .cell = get_cell, .close = close_rows};
