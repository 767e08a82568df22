/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol: requests, their answers, and tools that are cancelled. JSON-RPC 2.0; one message at a time. */
#include "mcp/server.h"
#include "mcp/prompts.h"
#include "mcp/traces.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define META "io.modelcontextprotocol/"

/* Revisions with `initialize`, the newest first: what a client gets that asks for another one. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", NULL};
/* The revision without. */
static const char newest[] = "2026-07-28";

bool ct_mcp_is_alone(const char *version) {
    return !strcmp(version, newest);
}

bool ct_mcp_is_version(const char *version) {
    bool known = !strcmp(version, newest);
    for (size_t i = 0; versions[i]; i++)
        known |= !strcmp(version, versions[i]);
    return known;
}

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

/* ---- initialize ---- */

static const char instructions[] =
    "Traces of native programs: every call of every function, with times, and arguments where detail was kept. "
    "list_traces, then summarize, then explain_crash for a crash, functions for time, find_calls and call_tree for "
    "single calls, sql for everything else. Each answer names the command line that gives it again. Longer answers "
    "have "
    "pages.";

/* What the server can do, and how to begin. */
static void put_abilities(struct ct_json *json) {
    static const char *const kinds[] = {"tools", "resources", "prompts"};
    ct_json_begin(json, "capabilities", '{');
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ct_json_begin(json, kinds[i], '{');
        ct_json_end(json, '}');
    }
    ct_json_end(json, '}');
    ct_json_string(json, "instructions", instructions);
}

static char *initialize(const struct ct_mcp_request *r) {
    const char *asked = ct_json_text(ct_json_get(r->params, "protocolVersion", NULL), "");
    const char *version = versions[0];
    struct ct_json json = {0};
    for (size_t i = 0; versions[i]; i++)
        if (!strcmp(asked, versions[i]))
            version = versions[i];
    ct_mcp_begin_result(&json, r, false);
    ct_json_string(&json, "protocolVersion", version);
    put_abilities(&json);
    ct_mcp_put_server(&json, "serverInfo");
    return ct_mcp_end_result(&json);
}

static void put_versions(struct ct_json *json, const char *key) {
    ct_json_begin(json, key, '[');
    ct_json_string(json, NULL, newest);
    for (size_t i = 0; versions[i]; i++)
        ct_json_string(json, NULL, versions[i]);
    ct_json_end(json, ']');
}

static char *discover(const struct ct_mcp_request *r) {
    struct ct_json json = {0};
    ct_mcp_begin_result(&json, r, true);
    put_versions(&json, "supportedVersions");
    put_abilities(&json);
    return ct_mcp_end_result(&json);
}

static char *list_tools(const struct ct_mcp_server *s, const struct ct_mcp_request *r) {
    struct ct_json json = {0};
    const struct ct_mcp_tool *tool;
    ct_mcp_begin_result(&json, r, true);
    ct_json_begin(&json, "tools", '[');
    for (size_t i = 0; (tool = ct_mcp_tool_at(i)); i++)
        if (s->options.allow_record || !tool->records)
            ct_mcp_tool_describe(tool, &json);
    ct_json_end(&json, ']');
    return ct_mcp_end_result(&json);
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
        if (call->request->peer->client == peer->client &&
            same_id(call->request->id, ct_json_get(params, "requestId", NULL)))
            ct_mcp_cancel(&call->run);
    pthread_mutex_unlock(&s->lock);
}

void ct_mcp_cancel_client(struct ct_mcp_server *s, const void *client) {
    pthread_mutex_lock(&s->lock);
    for (struct ct_mcp_call *call = s->calls; call; call = call->next)
        if (call->request->peer->client == client)
            ct_mcp_cancel(&call->run);
    pthread_mutex_unlock(&s->lock);
}

static void report_progress(void *arg, unsigned seconds) {
    struct ct_mcp_call *call = arg;
    struct ct_json json = {0};
    char text[64];
    struct ct_mcp_peer *peer = call->request->peer;
    if (!call->progress || !peer->send)
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
    char *message = ct_mcp_end_message(&json);
    if (message)
        peer->send(peer, message);
    free(message);
}

static char *run_tool(struct ct_mcp_server *s, struct ct_mcp_call *call) {
    struct ct_mcp_result result;
    char *answer;
    ct_mcp_call_run(s, call, &result);
    if (call->run.cancelled)
        answer = NULL; /* nobody waits for it */
    else if (*result.problem)
        answer = ct_mcp_tool_error(call->request, result.problem);
    else
        answer = ct_mcp_tool_answer(call, &result);
    ct_mcp_result_free(&result);
    return answer;
}

static char *call_tool(struct ct_mcp_server *s, struct ct_mcp_request *r) {
    const char *name = ct_json_text(ct_json_get(r->params, "name", NULL), "");
    struct ct_mcp_call call = {.request = r,
                               .tool = ct_mcp_tool_find(name),
                               .arguments = ct_json_get(r->params, "arguments", NULL),
                               .progress = ct_json_get(r->params, "_meta", "progressToken", NULL)};
    char text[160];
    if (!call.tool) {
        snprintf(text, sizeof text, "there is no tool \"%.60s\"; tools/list lists them", name);
        return ct_mcp_error(r, CT_MCP_INVALID_PARAMS, text);
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

static char *unknown_method(struct ct_mcp_request *r, const char *method) {
    char text[120];
    snprintf(text, sizeof text, "there is no method \"%.60s\"", method);
    return ct_mcp_error(r, CT_MCP_NO_METHOD, text);
}

static char *list_of(const struct ct_mcp_request *r, const char *key,
                     void (*put)(const struct ct_mcp_options *, struct ct_json *), const struct ct_mcp_server *s) {
    struct ct_json json = {0};
    ct_mcp_begin_result(&json, r, true);
    ct_json_begin(&json, key, '[');
    put(&s->options, &json);
    ct_json_end(&json, ']');
    return ct_mcp_end_result(&json);
}

/* An answer that `put` writes, or CT_MCP_INVALID_PARAMS with its sentence. */
static char *one_of(struct ct_mcp_request *r, bool keeps, const struct ct_mcp_server *s,
                    bool (*put)(const struct ct_mcp_options *, const struct ct_json_node *, struct ct_json *, char *,
                                size_t)) {
    struct ct_json json = {0};
    char problem[200] = "";
    ct_mcp_begin_result(&json, r, keeps);
    if (put(&s->options, r->params, &json, problem, sizeof problem))
        return ct_mcp_end_result(&json);
    ct_json_free(&json);
    return ct_mcp_error(r, CT_MCP_INVALID_PARAMS, problem);
}

static char *answer_request(struct ct_mcp_server *s, struct ct_mcp_request *r, const char *method) {
    if (!strcmp(method, "tools/list"))
        return list_tools(s, r);
    if (!strcmp(method, "tools/call"))
        return call_tool(s, r);
    if (!strcmp(method, "resources/list"))
        return list_of(r, "resources", ct_mcp_list_resources, s);
    if (!strcmp(method, "resources/templates/list"))
        return list_of(r, "resourceTemplates", ct_mcp_list_templates, s);
    if (!strcmp(method, "resources/read"))
        return one_of(r, true, s, ct_mcp_read_resource);
    if (!strcmp(method, "prompts/list"))
        return list_of(r, "prompts", ct_mcp_list_prompts, s);
    if (!strcmp(method, "prompts/get"))
        return one_of(r, false, s, ct_mcp_get_prompt);
    return unknown_method(r, method);
}

static char *unknown_version(struct ct_mcp_request *r, const char *asked) {
    struct ct_json json = {0};
    ct_mcp_begin_error(&json, r, CT_MCP_UNKNOWN_VERSION, "this revision of the protocol is not known");
    ct_json_begin(&json, "data", '{');
    put_versions(&json, "supported");
    ct_json_string(&json, "requested", asked);
    ct_json_end(&json, '}');
    return ct_mcp_end_result(&json);
}

/* A request that says of which revision it is. */
static char *answer_alone(struct ct_mcp_server *s, struct ct_mcp_request *r, const char *method) {
    const char *version = ct_json_text(ct_json_get(r->params, "_meta", META "protocolVersion", NULL), "");
    const struct ct_json_node *abilities = ct_json_get(r->params, "_meta", META "clientCapabilities", NULL);
    r->alone = true;
    if (strcmp(version, newest) != 0)
        return unknown_version(r, version);
    if (!abilities || abilities->type != CT_JSON_OBJECT)
        return ct_mcp_error(r, CT_MCP_INVALID_PARAMS, "_meta has no " META "clientCapabilities");
    return strcmp(method, "server/discover") != 0 ? answer_request(s, r, method) : discover(r);
}

static char *handle(struct ct_mcp_server *s, struct ct_mcp_request *r, const struct ct_json_node *message) {
    const char *method = ct_json_text(ct_json_get(message, "method", NULL), NULL);
    const struct ct_json_node *id = ct_json_get(message, "id", NULL);
    bool known = id && (id->type == CT_JSON_STRING || id->type == CT_JSON_NUMBER);
    struct ct_json json = {0};
    r->id = known ? id : NULL;
    r->params = ct_json_get(message, "params", NULL);
    if (strcmp(ct_json_text(ct_json_get(message, "jsonrpc", NULL), ""), "2.0") != 0)
        return ct_mcp_error(r, CT_MCP_INVALID_REQUEST, "a message is an object of JSON-RPC 2.0");
    if (!method) /* an answer: we ask nothing */
        return ct_json_get(message, "result", NULL) || ct_json_get(message, "error", NULL)
                   ? NULL
                   : ct_mcp_error(r, CT_MCP_INVALID_REQUEST, "a request has a method");
    if (!id) {
        if (!strcmp(method, "notifications/cancelled"))
            cancel(s, r->peer, r->params);
        return NULL;
    }
    if (!known)
        return ct_mcp_error(r, CT_MCP_INVALID_REQUEST, "an id is a text or a number");
    if (ct_json_get(r->params, "_meta", META "protocolVersion", NULL))
        return answer_alone(s, r, method);
    if (!strcmp(method, "initialize"))
        return initialize(r);
    if (strcmp(method, "ping") != 0)
        return answer_request(s, r, method);
    ct_mcp_begin_result(&json, r, false);
    return ct_mcp_end_result(&json);
}

char *ct_mcp_handle(struct ct_mcp_server *s, struct ct_mcp_peer *peer, const char *text, size_t length, int *error) {
    struct ct_mcp_request request = {.peer = peer};
    struct ct_json_tree *tree = NULL;
    int status = ct_json_parse(&tree, text, length, NULL);
    char *answer = status ? ct_mcp_error(&request, status == CT_ERR_NO_MEMORY ? CT_MCP_INTERNAL : CT_MCP_PARSE_ERROR,
                                         "the message is not JSON")
                          : handle(s, &request, ct_json_root(tree));
    ct_json_tree_free(tree);
    if (error)
        *error = request.error;
    return answer;
}
