/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol: requests, their answers, and tools that are cancelled. JSON-RPC 2.0; one message at a time. */
#include "mcp/server.h"
#include "mcp/prompts.h"
#include "mcp/traces.h"
#include <contrail/contrail.h>
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARSE_ERROR = -32700, INVALID_REQUEST = -32600, NO_METHOD = -32601, INVALID_PARAMS = -32602, INTERNAL = -32603 };
enum { TOKEN_BYTES = 4, LEAST_TOKENS = 100, MOST_TOKENS = 100000 };

/* The newest first: what a client gets that asks for another one. */
static const char *const versions[] = {"2025-11-25", "2025-06-18"};

/* ---- server ---- */

struct ct_mcp_server *ct_mcp_open(const struct ct_mcp_options *options) {
    struct ct_mcp_server *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->options = *options;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    return s;
}

void ct_mcp_stop(struct ct_mcp_server *s) {
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    for (struct ct_mcp_call *call = s->calls; call; call = call->next)
        ct_mcp_cancel(&call->run);
    pthread_mutex_unlock(&s->lock);
}

void ct_mcp_close(struct ct_mcp_server *s) {
    if (!s)
        return;
    ct_mcp_stop(s);
    pthread_mutex_lock(&s->lock);
    while (s->calls)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- answers ---- */

void ct_mcp_put_id(struct ct_json *json, const char *key, const struct ct_json_node *id) {
    if (id && id->type == CT_JSON_STRING)
        ct_json_string(json, key, id->text);
    else if (id && id->type == CT_JSON_NUMBER && id->integer)
        ct_json_signed(json, key, ct_json_i64(id, 0));
    else if (id && id->type == CT_JSON_NUMBER)
        ct_json_real(json, key, id->real);
    else
        ct_json_null(json, key);
}

static void begin_answer(struct ct_json *json, const struct ct_json_node *id) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "jsonrpc", "2.0");
    ct_mcp_put_id(json, "id", id);
}

/* Ends the object. Returns its text, or NULL: out of memory. */
static char *finish(struct ct_json *json) {
    ct_json_end(json, '}');
    if (json->failed) {
        ct_json_free(json);
        return NULL;
    }
    return json->text;
}

static char *error_answer(const struct ct_json_node *id, int code, const char *text) {
    struct ct_json json = {0};
    begin_answer(&json, id);
    ct_json_begin(&json, "error", '{');
    ct_json_signed(&json, "code", code);
    ct_json_string(&json, "message", text);
    ct_json_end(&json, '}');
    return finish(&json);
}

static char *empty_answer(const struct ct_json_node *id) {
    struct ct_json json = {0};
    begin_answer(&json, id);
    ct_json_begin(&json, "result", '{');
    ct_json_end(&json, '}');
    return finish(&json);
}

/* ---- initialize ---- */

static const char instructions[] =
    "Traces of native programs: every call of every function, with times, and arguments where detail was kept. "
    "list_traces, then summarize, then explain_crash for a crash, functions for time, find_calls and call_tree for "
    "single calls, sql for everything else. Each answer names the command line that gives it again. Longer answers "
    "have "
    "pages.";

static char *initialize(const struct ct_json_node *id, const struct ct_json_node *params) {
    const char *asked = ct_json_text(ct_json_get(params, "protocolVersion", NULL), "");
    const char *version = versions[0];
    struct ct_json json = {0};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (!strcmp(asked, versions[i]))
            version = versions[i];
    begin_answer(&json, id);
    ct_json_begin(&json, "result", '{');
    ct_json_string(&json, "protocolVersion", version);
    ct_json_begin(&json, "capabilities", '{');
    static const char *const kinds[] = {"tools", "resources", "prompts"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ct_json_begin(&json, kinds[i], '{');
        ct_json_end(&json, '}');
    }
    ct_json_end(&json, '}');
    ct_json_begin(&json, "serverInfo", '{');
    ct_json_string(&json, "name", "contrail");
    ct_json_string(&json, "title", "Contrail, a flight recorder for native programs");
    ct_json_string(&json, "version", ct_version());
    ct_json_end(&json, '}');
    ct_json_string(&json, "instructions", instructions);
    ct_json_end(&json, '}');
    return finish(&json);
}

static char *list_tools(const struct ct_mcp_server *s, const struct ct_json_node *id) {
    struct ct_json json = {0};
    const struct ct_mcp_tool *tool;
    begin_answer(&json, id);
    ct_json_begin(&json, "result", '{');
    ct_json_begin(&json, "tools", '[');
    for (size_t i = 0; (tool = ct_mcp_tool_at(i)); i++)
        if (s->options.allow_record || !tool->records)
            ct_mcp_tool_describe(tool, &json);
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    return finish(&json);
}

/* ---- calls of tools ---- */

/* Notes a call, so that it can be cancelled. False: the server is being closed. */
static bool begin_call(struct ct_mcp_server *s, struct ct_mcp_call *call) {
    pthread_mutex_lock(&s->lock);
    bool open = !s->closing;
    if (open) {
        call->next = s->calls;
        s->calls = call;
    }
    pthread_mutex_unlock(&s->lock);
    return open;
}

static void end_call(struct ct_mcp_server *s, struct ct_mcp_call *call) {
    pthread_mutex_lock(&s->lock);
    struct ct_mcp_call **at = &s->calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static bool same_id(const struct ct_json_node *a, const struct ct_json_node *b) {
    if (!a || !b || a->type != b->type)
        return false;
    return a->type == CT_JSON_STRING ? !strcmp(a->text, b->text) : a->real == b->real;
}

/* Of the client's own calls. */
static void cancel(struct ct_mcp_server *s, const struct ct_mcp_peer *peer, const struct ct_json_node *params) {
    pthread_mutex_lock(&s->lock);
    for (struct ct_mcp_call *call = s->calls; call; call = call->next)
        if (call->peer == peer && same_id(call->id, ct_json_get(params, "requestId", NULL)))
            ct_mcp_cancel(&call->run);
    pthread_mutex_unlock(&s->lock);
}

static void report_progress(void *arg, unsigned seconds) {
    struct ct_mcp_call *call = arg;
    struct ct_json json = {0};
    char text[64];
    if (!call->progress || !call->peer->send)
        return;
    snprintf(text, sizeof text, "%u s", seconds);
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "jsonrpc", "2.0");
    ct_json_string(&json, "method", "notifications/progress");
    ct_json_begin(&json, "params", '{');
    ct_mcp_put_id(&json, "progressToken", call->progress);
    ct_json_number(&json, "progress", seconds);
    ct_json_string(&json, "message", text);
    ct_json_end(&json, '}');
    char *message = finish(&json);
    if (message)
        call->peer->send(call->peer, message);
    free(message);
}

/* ---- pages ---- */

struct page {
    const char *from;
    size_t length, number, count;
};

/* Whole lines, unless one is longer than a page. */
static size_t page_end(const char *text, size_t length, size_t from, size_t size) {
    if (length - from <= size)
        return length;
    for (size_t end = from + size; end > from + size / 2; end--)
        if (text[end - 1] == '\n')
            return end;
    size_t end = from + size;
    while (end > from && ((uint8_t)text[end] & 0xc0) == 0x80) /* whole characters */
        end--;
    return end;
}

static struct page page_of(const char *text, size_t length, size_t size, size_t wanted) {
    struct page page = {text, 0, 0, 0};
    size_t from = 0;
    do {
        size_t end = page_end(text, length, from, size);
        if (++page.count == wanted || (wanted > page.count && end == length)) {
            page.from = text + from;
            page.length = end - from;
            page.number = page.count;
        }
        from = end;
    } while (from < length);
    return page;
}

/* ---- results ---- */

static void put_text(struct ct_json *json, const char *text) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "type", "text");
    ct_json_string(json, "text", text);
    ct_json_end(json, '}');
}

static char *tool_error(const struct ct_json_node *id, const char *text) {
    struct ct_json json = {0};
    begin_answer(&json, id);
    ct_json_begin(&json, "result", '{');
    ct_json_begin(&json, "content", '[');
    put_text(&json, text);
    ct_json_end(&json, ']');
    ct_json_bool(&json, "isError", true);
    ct_json_end(&json, '}');
    return finish(&json);
}

/* The page, and where it is from. */
static void put_page(struct ct_json *json, const struct page *page, const char *command, bool cut) {
    char *text = strndup(page->from, page->length), *about = NULL;
    const char *more = page->number < page->count ? "; ask again with \"page\" for the others" : "";
    int done = page->count > 1 ? asprintf(&about, "[page %zu of %zu%s%s: %s]", page->number, page->count, more,
                                          cut ? "; the command prints even more: ask for less" : "", command)
                               : asprintf(&about, "[%s]", command);
    put_text(json, text ? text : "out of memory");
    if (done >= 0)
        put_text(json, about);
    free(text);
    free(about);
}

static char *result_answer(const struct ct_mcp_call *call, const struct ct_mcp_result *r) {
    const struct ct_json_node *tokens = ct_json_get(call->arguments, "tokens", NULL);
    uint64_t most = ct_json_u64(tokens, call->tool->tokens),
             number = ct_json_u64(ct_json_get(call->arguments, "page", NULL), 1);
    most = most < LEAST_TOKENS ? LEAST_TOKENS : most > MOST_TOKENS ? MOST_TOKENS : most;
    struct page page = page_of(r->text, r->length, (size_t)most * TOKEN_BYTES, number ? (size_t)number : 1);
    struct ct_json json = {0};
    begin_answer(&json, call->id);
    ct_json_begin(&json, "result", '{');
    ct_json_begin(&json, "content", '[');
    put_page(&json, &page, r->command, r->cut);
    ct_json_end(&json, ']');
    ct_json_begin(&json, "structuredContent", '{');
    ct_json_string(&json, "command", r->command);
    ct_json_signed(&json, "exit", r->exit);
    ct_json_number(&json, "page", page.number);
    ct_json_number(&json, "pages", page.count);
    if (call->tool->json && page.count == 1 && r->data)
        ct_json_node_put(&json, "data", r->data);
    ct_json_end(&json, '}');
    ct_json_bool(&json, "isError", r->failed);
    ct_json_end(&json, '}');
    return finish(&json);
}

static char *run_tool(struct ct_mcp_server *s, struct ct_mcp_call *call) {
    struct ct_mcp_result result;
    char *answer;
    ct_mcp_call_run(s, call, &result);
    if (call->run.cancelled)
        answer = NULL; /* nobody waits for it */
    else if (*result.problem)
        answer = tool_error(call->id, result.problem);
    else
        answer = result_answer(call, &result);
    ct_mcp_result_free(&result);
    return answer;
}

static char *call_tool(struct ct_mcp_server *s, struct ct_mcp_peer *peer, const struct ct_json_node *id,
                       const struct ct_json_node *params) {
    const char *name = ct_json_text(ct_json_get(params, "name", NULL), "");
    struct ct_mcp_call call = {.tool = ct_mcp_tool_find(name),
                               .arguments = ct_json_get(params, "arguments", NULL),
                               .id = id,
                               .peer = peer,
                               .progress = ct_json_get(params, "_meta", "progressToken", NULL)};
    char text[160];
    if (!call.tool) {
        snprintf(text, sizeof text, "there is no tool \"%.60s\"; tools/list lists them", name);
        return error_answer(id, INVALID_PARAMS, text);
    }
    ct_mcp_run_init(&call.run);
    call.run.timeout_s = s->options.timeout_s;
    call.run.tick = report_progress;
    call.run.arg = &call;
    char *answer = NULL;
    if (begin_call(s, &call)) {
        answer = run_tool(s, &call);
        end_call(s, &call);
    }
    ct_mcp_run_free(&call.run);
    return answer;
}

/* ---- messages ---- */

static char *unknown_method(const struct ct_json_node *id, const char *method) {
    char text[120];
    snprintf(text, sizeof text, "there is no method \"%.60s\"", method);
    return error_answer(id, NO_METHOD, text);
}

static char *list_of(const struct ct_json_node *id, const char *key,
                     void (*put)(const struct ct_mcp_options *, struct ct_json *), const struct ct_mcp_server *s) {
    struct ct_json json = {0};
    begin_answer(&json, id);
    ct_json_begin(&json, "result", '{');
    ct_json_begin(&json, key, '[');
    if (put)
        put(&s->options, &json);
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    return finish(&json);
}

/* An answer that `put` writes, or INVALID_PARAMS with its sentence. */
static char *one_of(const struct ct_json_node *id, const struct ct_json_node *params, const struct ct_mcp_server *s,
                    bool (*put)(const struct ct_mcp_options *, const struct ct_json_node *, struct ct_json *, char *,
                                size_t)) {
    struct ct_json json = {0};
    char problem[200] = "";
    begin_answer(&json, id);
    ct_json_begin(&json, "result", '{');
    if (!put(&s->options, params, &json, problem, sizeof problem)) {
        ct_json_free(&json);
        return error_answer(id, INVALID_PARAMS, problem);
    }
    ct_json_end(&json, '}');
    return finish(&json);
}

static char *answer_request(struct ct_mcp_server *s, struct ct_mcp_peer *peer, const char *method,
                            const struct ct_json_node *id, const struct ct_json_node *params) {
    if (!strcmp(method, "ping"))
        return empty_answer(id);
    if (!strcmp(method, "tools/list"))
        return list_tools(s, id);
    if (!strcmp(method, "tools/call"))
        return call_tool(s, peer, id, params);
    if (!strcmp(method, "resources/list"))
        return list_of(id, "resources", ct_mcp_list_resources, s);
    if (!strcmp(method, "resources/templates/list"))
        return list_of(id, "resourceTemplates", ct_mcp_list_templates, s);
    if (!strcmp(method, "resources/read"))
        return one_of(id, params, s, ct_mcp_read_resource);
    if (!strcmp(method, "prompts/list"))
        return list_of(id, "prompts", ct_mcp_list_prompts, s);
    if (!strcmp(method, "prompts/get"))
        return one_of(id, params, s, ct_mcp_get_prompt);
    return unknown_method(id, method);
}

static char *handle(struct ct_mcp_server *s, struct ct_mcp_peer *peer, const struct ct_json_node *message,
                    bool *initialized) {
    const char *method = ct_json_text(ct_json_get(message, "method", NULL), NULL);
    const struct ct_json_node *id = ct_json_get(message, "id", NULL), *params = ct_json_get(message, "params", NULL);
    if (strcmp(ct_json_text(ct_json_get(message, "jsonrpc", NULL), ""), "2.0") != 0)
        return error_answer(id, INVALID_REQUEST, "a message is an object of JSON-RPC 2.0");
    if (!method) /* an answer: we ask nothing */
        return ct_json_get(message, "result", NULL) || ct_json_get(message, "error", NULL)
                   ? NULL
                   : error_answer(id, INVALID_REQUEST, "a request has a method");
    if (!id) {
        if (!strcmp(method, "notifications/cancelled"))
            cancel(s, peer, params);
        return NULL;
    }
    if (id->type != CT_JSON_STRING && id->type != CT_JSON_NUMBER)
        return error_answer(NULL, INVALID_REQUEST, "an id is a text or a number");
    if (!strcmp(method, "initialize")) {
        if (initialized)
            *initialized = true;
        return initialize(id, params);
    }
    return answer_request(s, peer, method, id, params);
}

char *ct_mcp_handle(struct ct_mcp_server *s, struct ct_mcp_peer *peer, const char *text, size_t length,
                    bool *initialized) {
    struct ct_json_tree *tree = NULL;
    int status = ct_json_parse(&tree, text, length, NULL);
    if (status)
        return error_answer(NULL, status == CT_ERR_NO_MEMORY ? INTERNAL : PARSE_ERROR, "the message is not JSON");
    char *answer = handle(s, peer, ct_json_root(tree), initialized);
    ct_json_tree_free(tree);
    return answer;
}
