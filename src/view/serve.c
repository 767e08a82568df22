/* SPDX-License-Identifier: Apache-2.0 */
/* Takes requests, and finds who answers them. */
#include "base/json_read.h"
#include "view/answer.h"
#include "view/files.h"
#include "view/lines.h"
#include <contrail/contrail.h>
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 }; /* of a request */

/* ---- files ---- */

static const char *type_of(const char *name) {
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".js", "text/javascript; charset=utf-8"},
                                           {".css", "text/css; charset=utf-8"},
                                           {".svg", "image/svg+xml"}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (!strcmp(dot, types[i][0]))
            return types[i][1];
    return "application/octet-stream";
}

static void answer_file(const char *path, struct ct_http_answer *answer) {
    const char *name = !strcmp(path, "/") ? "index.html" : !strncmp(path, "/app/", 5) ? path + 5 : "";
    for (const struct ct_view_file *file = ct_view_files; file->name; file++)
        if (!strcmp(file->name, name)) {
            answer->type = type_of(name);
            answer->lasting = file->bytes;
            answer->length = (size_t)(file->end - file->bytes);
            return;
        }
    answer->status = 404;
    answer->type = "text/plain; charset=utf-8";
    answer->body = strdup("there is nothing here\n");
}

/* ---- answers ---- */

static void answer_traces(struct ct_view_answer *a) {
    ct_json_string(&a->json, "version", ct_version());
    ct_json_begin(&a->json, "traces", '[');
    for (size_t i = 0; i < a->view->trace_count; i++) {
        struct ct_view_trace *t = a->view->traces[i];
        ct_json_begin(&a->json, NULL, '{');
        ct_json_number(&a->json, "trace", i);
        ct_json_string(&a->json, "path", t->path);
        ct_json_string(&a->json, "name", t->name);
        ct_json_string(&a->json, "program", t->program ? t->program : "");
        ct_json_bool(&a->json, "live", t->live);
        ct_json_end(&a->json, '}');
    }
    ct_json_end(&a->json, ']');
}

struct route {
    const char *path;
    void (*answer)(struct ct_view_answer *a);
    bool post;
    bool alone; /* it reads no trace, or takes the readers itself */
};

static const struct route routes[] = {
    {"/api/traces", answer_traces, .alone = true},
    {"/api/info", ct_view_answer_info},
    {"/api/map", ct_view_answer_map},
    {"/api/cells", ct_view_answer_cells},
    {"/api/call", ct_view_answer_call},
    {"/api/at", ct_view_answer_at},
    {"/api/search", ct_view_answer_search},
    {"/api/hits", ct_view_answer_hits},
    {"/api/flame", ct_view_answer_flame},
    {"/api/functions", ct_view_answer_functions},
    {"/api/latency", ct_view_answer_latency},
    {"/api/select", ct_view_answer_select},
    {"/api/compare", ct_view_answer_compare},
    {"/api/compare/flame", ct_view_answer_compare_flame},
    {"/api/crash", ct_view_answer_crash},
    {"/api/blocks", ct_view_answer_blocks},
    {"/api/block", ct_view_answer_block},
    {"/api/sql", ct_view_answer_sql, .post = true, .alone = true},
    {"/api/ctl", ct_view_answer_ctl, .post = true, .alone = true},
};

static const struct route *find_route(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(routes[i].path, path))
            return &routes[i];
    return NULL;
}

/* The trace that the request names: a number, or nothing for the first. */
static void find_trace(struct ct_view_answer *a) {
    uint64_t number = a->body ? ct_json_u64(ct_json_get(a->body, "trace", NULL), 0) : ct_view_number(a, "trace", 0);
    if (number >= a->view->trace_count) {
        ct_view_refuse(a, 404, "there is no such trace");
        return;
    }
    a->trace = a->view->traces[number];
}

static void run(struct ct_view_answer *a, const struct route *route) {
    find_trace(a);
    if (a->error)
        return;
    if (!route->alone && !(a->reader = ct_view_take(a->trace))) {
        ct_view_refuse(a, 503, "the trace cannot be read any more");
        return;
    }
    if (a->reader)
        a->reader->deadline_ns = ct_view_now() + CT_VIEW_PATIENCE_NS;
    ct_json_begin(&a->json, NULL, '{');
    route->answer(a);
    ct_json_end(&a->json, '}');
    if (a->reader)
        ct_view_give(a->reader);
    if (!a->error && a->json.failed)
        ct_view_fail(a, CT_ERR_NO_MEMORY);
}

/* Exchanges what was written so far for an object with the sentence. */
static void put_error(struct ct_view_answer *a) {
    ct_json_free(&a->json);
    a->json = (struct ct_json){0};
    ct_json_begin(&a->json, NULL, '{');
    ct_json_string(&a->json, "error", a->error);
    ct_json_end(&a->json, '}');
}

static void answer_live(struct ct_view_answer *a, struct ct_http_answer *out) {
    find_trace(a);
    out->type = "text/event-stream";
    if (!a->error && ct_view_live(a->trace, out))
        return;
    out->status = a->error ? a->status : 500;
    out->body = strdup("");
}

static void read_body(struct ct_view_answer *a, const struct route *route, struct ct_json_tree **tree) {
    if (strcmp(a->request->method, route->post ? "POST" : "GET") != 0)
        ct_view_refuse(a, 405, route->post ? "this is asked by POST" : "this is asked by GET");
    else if (route->post && ct_json_parse(tree, a->request->body, a->request->length, NULL) != 0)
        ct_view_refuse(a, 400, "the request is not JSON");
    a->body = ct_json_root(*tree);
}

static void answer(void *arg, const struct ct_http_request *request, struct ct_http_answer *out) {
    struct ct_view_answer a = {.view = arg, .request = request};
    struct ct_json_tree *tree = NULL;
    const struct route *route = find_route(request->path);
    if (!strcmp(request->path, "/api/live")) {
        answer_live(&a, out);
        return;
    }
    if (!route) {
        answer_file(request->path, out);
        return;
    }
    read_body(&a, route, &tree);
    if (!a.error)
        run(&a, route);
    if (a.error)
        put_error(&a);
    ct_json_tree_free(tree);
    out->status = a.status;
    out->type = "application/json";
    out->body = a.json.text;
    out->length = a.json.length;
}

/* ---- the server ---- */

int ct_view_open(struct ct_view **out, const struct ct_view_options *options, char *error, size_t error_size) {
    struct ct_view *view = *out = calloc(1, sizeof *view);
    int status = view ? 0 : CT_ERR_NO_MEMORY;
    if (!view)
        return status;
    view->options = *options;
    ct_view_lines_begin(&view->lines);
    for (; !status && options->paths[view->trace_count] && view->trace_count < CT_VIEW_TRACES; view->trace_count++) {
        size_t i = view->trace_count;
        status = ct_view_trace_open(&view->traces[i], view, options->paths[i], error, error_size);
        if (status)
            break;
        view->traces[i]->number = i;
        status = ct_view_maker_start(view->traces[i]);
    }
    if (!status) {
        *error = 0;
        status = ct_http_open(&view->http, &(struct ct_http_options){.port = options->port,
                                                                     .token = options->token,
                                                                     .cookie = options->cookie,
                                                                     .once = options->once,
                                                                     .once_uid = options->once_uid,
                                                                     .most_bytes = MOST_BYTES,
                                                                     .answer = answer,
                                                                     .arg = view});
    }
    if (status) {
        ct_view_close(view);
        *out = NULL;
    }
    return status;
}

uint16_t ct_view_port(const struct ct_view *view) {
    return ct_http_port(view->http);
}

void ct_view_close(struct ct_view *view) {
    if (!view)
        return;
    view->stopping = true;
    ct_http_close(view->http);
    bool all = true;
    for (size_t i = 0; i < view->trace_count; i++)
        all &= ct_view_trace_close(view->traces[i]);
    if (!all) /* a maker goes on, which knows it */
        return;
    ct_view_lines_free(&view->lines);
    free(view);
}
