/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to traces: a statement of SQL, whose rows come in batches. Reading happens in Node's pool of threads.
 *
 * A question has a trace of its own, so several may be under way. It belongs to the thread of the pool while `working`,
 * and else to JavaScript. */
#include "addon.h"
#include "query/query.h"

#include <contrail/status.h>
#include <contrail/trace.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUERY_MEMORY (UINT64_C(1) << 31)

static const napi_type_tag question_tag = {0x5e1f6ad0c44b4d51, 0xa33c0c41f4b2a9d7};

struct question {
    struct ct_trace *trace;
    struct ct_source *source;
    struct ct_query *query;
    bool working, finished, closing;
    atomic_bool stop;
    int columns;
    /* the batch under way */
    size_t wanted, rows;
    struct ct_cell *cells; /* wanted * columns; texts are our own */
    int status;
    char error[sizeof(((struct ct_query_error *)0)->text)];
    napi_deferred deferred;
    napi_async_work work;
};

static int poll_stop(void *arg) {
    return atomic_load(&((struct question *)arg)->stop);
}

static void free_cells(struct question *q) {
    for (size_t i = 0; q->cells && i < q->wanted * (size_t)q->columns; i++)
        if (q->cells[i].type == CT_CELL_TEXT)
            free((void *)(uintptr_t)q->cells[i].text);
    free(q->cells);
    q->cells = NULL;
}

static void close_question(struct question *q) {
    ct_query_close(q->query);
    if (q->source)
        ct_source_close(q->source);
    if (q->trace)
        ct_trace_close(q->trace);
    q->query = NULL;
    q->source = NULL;
    q->trace = NULL;
}

static void finalize(napi_env env, void *data, void *hint) {
    (void)env;
    (void)hint;
    close_question(data);
    free(data);
}

/* ---- asking ---- */

static int open_question(struct question *q, const char *path, const char *sql) {
    struct ct_query_error error = {0};
    const char *rest;
    int status = ct_trace_open(&q->trace, path, q->error, sizeof q->error);
    if (status)
        return status;
    status = ct_source_open(&q->source, &(struct ct_source_setup){.trace = q->trace, .poll = poll_stop, .poll_arg = q});
    if (status)
        return status;
    const struct ct_query_setup setup = {
        .sources = &q->source, .source_count = 1, .memory = QUERY_MEMORY, .poll = poll_stop, .poll_arg = q};
    status = ct_query_open(&q->query, &setup);
    if (status)
        return status;
    if (ct_query_prepare(q->query, sql, &rest, &error) > 0)
        return 0;
    snprintf(q->error, sizeof q->error, "%s", *error.text ? error.text : "there is no question in this text");
    return CT_ERR_INVALID_ARGUMENT;
}

/* traceAsk(path or null, sql): {question, columns: [name], path}. */
static napi_value ask(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    char *path = ct_node_take_text(&call), *sql = ct_node_take_text(&call);
    struct question *q = call.failed ? NULL : calloc(1, sizeof *q);
    napi_value object = NULL, external = NULL;
    if (!q)
        goto out;
    int status = open_question(q, path, sql ? sql : "");
    if (status) {
        ct_node_throw(env, status, q->error);
        finalize(env, q, NULL);
        goto out;
    }
    q->columns = ct_query_column_count(q->query);
    object = ct_node_object(env);
    if (napi_create_external(env, q, finalize, NULL, &external) != napi_ok ||
        napi_type_tag_object(env, external, &question_tag) != napi_ok)
        goto out;
    napi_value columns = ct_node_array(env, (size_t)q->columns);
    for (int i = 0; i < q->columns; i++)
        ct_node_set_at(env, columns, (size_t)i, ct_node_text(env, ct_query_column(q->query, i)));
    ct_node_set(env, object, "question", external);
    ct_node_set(env, object, "columns", columns);
    ct_node_set(env, object, "path", ct_node_text(env, ct_trace_path(q->trace)));
out:
    free(path);
    free(sql);
    return object;
}

static struct question *take_question(struct ct_node_call *call) {
    napi_value value = ct_node_take(call);
    bool is = false;
    void *data = NULL;
    if (napi_check_object_type_tag(call->env, value, &question_tag, &is) == napi_ok && is)
        napi_get_value_external(call->env, value, &data);
    if (!data) {
        call->failed = true;
        napi_throw_type_error(call->env, "ERR_INVALID_ARGUMENT", "expected a question");
    }
    return data;
}

/* ---- rows ---- */

static bool keep_cell(struct ct_cell *cell) {
    if (cell->type != CT_CELL_TEXT)
        return true;
    cell->text = strdup(cell->text);
    return cell->text != NULL;
}

/* In the pool. */
static void read_rows(napi_env env, void *data) {
    struct question *q = data;
    struct ct_query_error error = {0};
    (void)env;
    for (q->rows = 0; q->rows < q->wanted; q->rows++) {
        q->status = ct_query_step(q->query, &error);
        if (q->status < 0)
            snprintf(q->error, sizeof q->error, "%s", error.stopped ? "the question was given up" : error.text);
        if (q->status <= 0) {
            q->finished = true;
            return;
        }
        struct ct_cell *row = q->cells + q->rows * (size_t)q->columns;
        for (int i = 0; i < q->columns; i++) {
            ct_query_value(q->query, i, row + i);
            if (!keep_cell(row + i)) {
                row[i].type = CT_CELL_NULL;
                q->finished = true;
                q->status = CT_ERR_NO_MEMORY;
                snprintf(q->error, sizeof q->error, "%s", ct_status_text(CT_ERR_NO_MEMORY));
                return;
            }
        }
    }
}

/* Whole numbers that a double cannot hold exactly are BigInts. */
static napi_value cell_value(napi_env env, const struct ct_cell *cell) {
    napi_value value = NULL;
    switch (cell->type) {
    case CT_CELL_INTEGER:
        if (cell->integer > -(INT64_C(1) << 53) && cell->integer < INT64_C(1) << 53)
            return ct_node_number(env, (double)cell->integer);
        napi_create_bigint_int64(env, cell->integer, &value);
        return value;
    case CT_CELL_REAL:
        return ct_node_number(env, cell->real);
    case CT_CELL_TEXT:
        return ct_node_text(env, cell->text);
    case CT_CELL_NULL:
        break;
    }
    napi_get_null(env, &value);
    return value;
}

static napi_value batch_value(napi_env env, struct question *q) {
    napi_value rows = ct_node_array(env, q->rows);
    for (size_t r = 0; r < q->rows; r++) {
        napi_handle_scope scope;
        napi_open_handle_scope(env, &scope);
        napi_value row = ct_node_array(env, (size_t)q->columns);
        for (int i = 0; i < q->columns; i++)
            ct_node_set_at(env, row, (size_t)i, cell_value(env, q->cells + r * (size_t)q->columns + i));
        ct_node_set_at(env, rows, r, row);
        napi_close_handle_scope(env, scope);
    }
    return rows;
}

static void give_rows(napi_env env, napi_status status, void *data) {
    struct question *q = data;
    bool failed = q->status < 0 || status != napi_ok;
    napi_value rows = failed ? NULL : batch_value(env, q);
    q->working = false;
    free_cells(q);
    napi_delete_async_work(env, q->work);
    if (q->closing)
        close_question(q);
    if (failed) {
        napi_value error = NULL;
        napi_create_error(env, NULL, ct_node_text(env, q->error), &error);
        napi_reject_deferred(env, q->deferred, error);
    } else {
        napi_resolve_deferred(env, q->deferred, rows);
    }
}

/* traceNext(question, count): a promise of an array of rows; fewer than `count` of them: there are no more. The caller
 * keeps the question until then. */
static napi_value next(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    napi_value promise = NULL;
    ct_node_begin(&call, env, info);
    struct question *q = take_question(&call);
    uint32_t wanted = ct_node_take_u32(&call);
    if (call.failed)
        return NULL;
    if (q->working || !q->query || !wanted || wanted > 1 << 20)
        return ct_node_throw(env, CT_ERR_BAD_STATE, "the question is closed, or being answered");
    if (napi_create_promise(env, &q->deferred, &promise) != napi_ok)
        return NULL;
    if (q->finished) {
        napi_resolve_deferred(env, q->deferred, ct_node_array(env, 0));
        return promise;
    }
    q->wanted = wanted;
    q->cells = calloc((size_t)wanted * (size_t)q->columns, sizeof *q->cells);
    if (!q->cells)
        return ct_node_throw(env, CT_ERR_NO_MEMORY, NULL);
    q->working = true;
    napi_create_async_work(env, NULL, ct_node_text(env, "contrail.trace"), read_rows, give_rows, q, &q->work);
    napi_queue_async_work(env, q->work);
    return promise;
}

/* traceClose(question): gives it up, also while it is being answered. */
static napi_value close_it(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct question *q = take_question(&call);
    if (call.failed)
        return NULL;
    atomic_store(&q->stop, true);
    if (q->working)
        q->closing = true;
    else
        close_question(q);
    return ct_node_undefined(env);
}

void ct_node_add_trace(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {{"traceAsk", ask}, {"traceNext", next}, {"traceClose", close_it}};
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
}
