/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sql: one statement of SQL, as `contrail query` runs it; /api/blocks: executed blocks of followed runs. */
#include "query/query.h"
#include "base/json_read.h"
#include "report/blocks.h"
#include "view/answer.h"
#include <string.h>

enum { MOST_ROWS = 10000, MOST_BYTES = 8 << 20, MOST_TEXT = 4000 };
#define MEMORY (UINT64_C(256) << 20)

/* ---- sql ---- */

static void put_value(struct ct_view_answer *a, const struct ct_cell *cell) {
    char text[MOST_TEXT + 8];
    switch (cell->type) {
    case CT_CELL_INTEGER:
        return ct_json_signed(&a->json, NULL, cell->integer);
    case CT_CELL_REAL:
        return ct_json_real(&a->json, NULL, cell->real);
    case CT_CELL_TEXT:
        if (strlen(cell->text) <= MOST_TEXT)
            return ct_json_string(&a->json, NULL, cell->text);
        memcpy(text, cell->text, MOST_TEXT);
        memcpy(text + MOST_TEXT, "…", sizeof "…");
        return ct_json_string(&a->json, NULL, text);
    default:
        return ct_json_null(&a->json, NULL);
    }
}

static void put_rows(struct ct_view_answer *a, struct ct_query *query, uint64_t limit, struct ct_query_error *error) {
    struct ct_cell cell;
    uint64_t count = 0;
    int status = 0, columns = ct_query_column_count(query);
    bool more = true;
    ct_json_begin(&a->json, "columns", '[');
    for (int i = 0; i < columns; i++)
        ct_json_string(&a->json, NULL, ct_query_column(query, i));
    ct_json_end(&a->json, ']');
    ct_json_begin(&a->json, "rows", '[');
    while (more && (status = ct_query_step(query, error)) > 0) {
        more = count++ < limit && a->json.length < MOST_BYTES;
        if (!more)
            break;
        ct_json_begin(&a->json, NULL, '[');
        for (int i = 0; i < columns; i++) {
            ct_query_value(query, i, &cell);
            put_value(a, &cell);
        }
        ct_json_end(&a->json, ']');
    }
    ct_json_end(&a->json, ']');
    ct_json_bool(&a->json, "truncated", !more);
    if (status < 0)
        ct_json_string(&a->json, "error", error->stopped ? "stopped: it takes too long" : error->text);
}

static int poll_query(void *arg) {
    const struct ct_view_reader *reader = arg;
    return reader->source->setup.poll(reader->source->setup.poll_arg);
}

static void run_sql(struct ct_view_answer *a, struct ct_query *query, const char *sql) {
    struct ct_query_error error = {0};
    uint64_t limit = ct_json_u64(ct_json_get(a->body, "limit", NULL), 1000), before = a->reader->source->rows;
    const char *rest;
    int status = ct_query_prepare(query, sql, &rest, &error);
    limit = limit < MOST_ROWS ? limit : MOST_ROWS;
    if (status > 0) {
        put_rows(a, query, limit, &error);
    } else {
        ct_json_string(&a->json, "error", status ? error.text : "there is no statement");
        ct_json_signed(&a->json, "at", status ? error.at : -1);
    }
    ct_json_begin(&a->json, "counters", '{');
    ct_json_number(&a->json, "rows", a->reader->source->rows - before);
    ct_json_end(&a->json, '}');
}

static void give_all(struct ct_view_reader *const readers[], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (readers[i])
            ct_view_give(readers[i]);
}

/* The trace of the question is `a`; the others are b, c … in their order. */
void ct_view_answer_sql(struct ct_view_answer *a) {
    struct ct_view_reader *readers[CT_VIEW_TRACES] = {0};
    struct ct_source *sources[CT_VIEW_TRACES];
    struct ct_query *query = NULL;
    size_t count = 1, traces = a->view->trace_count;
    bool all = true;
    for (size_t i = 0; i < traces; i++)
        all &= (readers[i] = ct_view_take(a->view->traces[i])) != NULL;
    if (!all) {
        give_all(readers, traces);
        ct_view_refuse(a, 503, "a trace cannot be read any more");
        return;
    }
    a->reader = readers[a->trace->number];
    a->reader->deadline_ns = ct_view_now() + CT_VIEW_PATIENCE_NS;
    sources[0] = a->reader->source;
    for (size_t i = 0; i < traces; i++)
        if (readers[i] != a->reader)
            sources[count++] = readers[i]->source;
    int status = ct_query_open(
        &query,
        &(struct ct_query_setup){
            .sources = sources, .source_count = count, .memory = MEMORY, .poll = poll_query, .poll_arg = a->reader});
    if (status)
        ct_view_fail(a, status);
    else
        run_sql(a, query, ct_json_text(ct_json_get(a->body, "sql", NULL), ""));
    ct_query_close(query);
    a->reader = NULL;
    give_all(readers, traces);
}

/* ---- blocks ---- */

void ct_view_answer_blocks(struct ct_view_answer *a) {
    struct ct_block_report *report = NULL;
    uint64_t offset = ct_view_number(a, "offset", 0), limit = ct_view_number(a, "limit", 200);
    int status = ct_block_report_make(&report, a->reader->trace, &(struct ct_block_options){.lines = true});
    limit = limit < 1000 ? limit : 1000;
    if (status) {
        ct_view_fail(a, status);
        return;
    }
    ct_json_number(&a->json, "total", report->row_count);
    ct_json_number(&a->json, "executed", report->executed);
    ct_json_begin(&a->json, "blocks", '[');
    for (size_t i = (size_t)offset; i < report->row_count && i - offset < limit; i++) {
        const struct ct_block_row *row = &report->rows[i];
        ct_json_begin(&a->json, NULL, '{');
        ct_json_number(&a->json, "process", row->process + 1);
        ct_json_number(&a->json, "address", row->offset);
        ct_json_string(&a->json, "module", row->module_name);
        ct_json_number(&a->json, "module_id", row->module);
        ct_json_string(&a->json, "name", strlen(row->name) <= CT_VIEW_NAME ? row->name : "(a very long name)");
        ct_json_number(&a->json, "into", row->into);
        ct_json_number(&a->json, "size", row->size);
        ct_json_number(&a->json, "instructions", row->insns);
        ct_json_number(&a->json, "count", row->count);
        ct_json_number(&a->json, "executed", row->executed);
        ct_json_string(&a->json, "line", row->line ? row->line : "");
        ct_json_end(&a->json, '}');
    }
    ct_json_end(&a->json, ']');
    ct_block_report_free(report);
}
