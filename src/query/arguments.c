/* SPDX-License-Identifier: Apache-2.0 */
/* The table `arguments`: arguments and results of calls, one row each. A row's number is that of its call, times 32,
 * plus its place: arguments first, then the result. */
#include "query/calls.h"
#include <stdlib.h>

enum { PLACES_BITS = 5 }; /* CT_ARGUMENT_LIMIT and a result */
_Static_assert(CT_ARGUMENT_LIMIT < 1 << PLACES_BITS, "places of a call");

struct rows {
    struct ct_rows rows;
    struct ct_call_reader reader;
    struct ct_arguments *values; /* of the call, or of its return */
    size_t at;                   /* of the values: the row */
    bool result, call;           /* the values are a result; there is a call whose return was not looked at */
};

static int open_rows(struct ct_rows *rows, const struct ct_ask *ask) {
    struct rows *r = (struct rows *)rows;
    r->values = malloc(sizeof *r->values);
    if (!r->values)
        return CT_ERR_NO_MEMORY;
    r->values->count = 0;
    return ct_call_reader_open(&r->reader, rows->source, ask);
}

/* Reads the values of a record. No record: there are none. */
static void read_values(struct rows *r, uint32_t detail, bool result) {
    struct ct_argument_reader *reader = ct_source_arguments(r->rows.source);
    r->at = 0;
    r->result = result;
    if (detail == CT_TRACE_NO_DETAIL || !reader || ct_arguments_read(reader, r->reader.thread, detail, r->values) != 0)
        r->values->count = 0;
}

static int next_row(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    int status = 1;
    r->at++;
    while (status > 0 && r->at >= r->values->count) {
        if (r->call) {
            r->call = false;
            read_values(r, r->reader.call.end_detail, true);
        } else {
            status = ct_call_reader_next(&r->reader);
            r->call = status > 0;
            if (r->call)
                read_values(r, r->reader.call.detail, false);
        }
    }
    uint64_t place = r->result ? CT_ARGUMENT_LIMIT : r->at;
    rows->id = (int64_t)((uint64_t)ct_source_call_id(r->reader.thread, r->reader.call.sequence) << PLACES_BITS | place);
    return status;
}

static bool is_whole(enum ct_value_kind kind) {
    return kind == CT_VALUE_SIGNED || kind == CT_VALUE_UNSIGNED || kind == CT_VALUE_BOOL || kind == CT_VALUE_POINTER ||
           kind == CT_VALUE_STRING || kind == CT_VALUE_NAME;
}

static void value_cell(const struct ct_argument *value, int column, struct ct_cell *cell) {
    cell->lasts = false;
    switch (column) {
    case CT_ARGUMENTS_value:
        cell->type = CT_CELL_TEXT;
        cell->text = value->text;
        return;
    case CT_ARGUMENTS_number:
        if (is_whole(value->kind))
            ct_cell_integer(cell, (int64_t)value->number);
        return;
    case CT_ARGUMENTS_real:
        if (value->kind == CT_VALUE_REAL) {
            cell->type = CT_CELL_REAL;
            cell->real = value->real;
        }
        return;
    case CT_ARGUMENTS_string:
        if (value->kind == CT_VALUE_STRING) {
            cell->type = CT_CELL_TEXT;
            cell->text = value->string;
        }
        return;
    default:
        if (*value->name) {
            cell->type = CT_CELL_TEXT;
            cell->text = value->name;
        }
    }
}

static void get_cell(struct ct_rows *rows, int column, struct ct_cell *cell) {
    struct rows *r = (struct rows *)rows;
    const struct ct_cached_function *known;
    cell->type = CT_CELL_NULL;
    switch (column) {
    case CT_ARGUMENTS_call:
        return ct_cell_integer(cell, ct_source_call_id(r->reader.thread, r->reader.call.sequence));
    case CT_ARGUMENTS_process:
        return ct_cell_integer(cell, (int64_t)r->reader.process + 1);
    case CT_ARGUMENTS_thread:
        return ct_cell_integer(cell, (int64_t)r->reader.thread + 1);
    case CT_ARGUMENTS_function:
        known = ct_function_cache_get(&rows->source->names, r->reader.process, r->reader.call.function);
        return known ? ct_cell_text(cell, known->name) : (void)0;
    case CT_ARGUMENTS_position:
        return ct_cell_integer(cell, r->result ? -1 : (int64_t)r->at);
    default:
        value_cell(&r->values->at[r->at], column, cell);
    }
}

static void close_rows(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    ct_call_reader_close(&r->reader);
    free(r->values);
}

const struct ct_rows_class ct_rows_arguments = {
    .size = sizeof(struct rows), .open = open_rows, .next = next_row, .cell = get_cell, .close = close_rows};
