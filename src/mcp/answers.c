/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: their frame, which depends on the revision of the protocol, and the pages of what a tool has found. */
#include "mcp/server.h"
#include <contrail/contrail.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_BYTES = 4, LEAST_TOKENS = 100, MOST_TOKENS = 100000 };

/* ---- the frame ---- */

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

char *ct_mcp_end_message(struct ct_json *json) {
    ct_json_end(json, '}');
    if (json->failed) {
        ct_json_free(json);
        return NULL;
    }
    return json->text;
}

static void begin_answer(struct ct_json *json, const struct ct_json_node *id) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "jsonrpc", "2.0");
    ct_mcp_put_id(json, "id", id);
}

void ct_mcp_begin_error(struct ct_json *json, struct ct_mcp_request *request, int code, const char *text) {
    request->error = code;
    begin_answer(json, request->id);
    ct_json_begin(json, "error", '{');
    ct_json_signed(json, "code", code);
    ct_json_string(json, "message", text);
}

char *ct_mcp_error(struct ct_mcp_request *request, int code, const char *text) {
    struct ct_json json = {0};
    ct_mcp_begin_error(&json, request, code, text);
    return ct_mcp_end_result(&json);
}

void ct_mcp_put_server(struct ct_json *json, const char *key) {
    ct_json_begin(json, key, '{');
    ct_json_string(json, "name", "contrail");
    ct_json_string(json, "title", "Contrail, a flight recorder for native programs");
    ct_json_string(json, "version", ct_version());
    ct_json_end(json, '}');
}

void ct_mcp_begin_result(struct ct_json *json, const struct ct_mcp_request *request, bool keeps) {
    begin_answer(json, request->id);
    ct_json_begin(json, "result", '{');
    if (!request->alone)
        return;
    ct_json_string(json, "resultType", "complete");
    if (keeps) { /* new traces may come at any time */
        ct_json_number(json, "ttlMs", 0);
        ct_json_string(json, "cacheScope", "private");
    }
    ct_json_begin(json, "_meta", '{');
    ct_mcp_put_server(json, "io.modelcontextprotocol/serverInfo");
    ct_json_end(json, '}');
}

char *ct_mcp_end_result(struct ct_json *json) {
    ct_json_end(json, '}');
    return ct_mcp_end_message(json);
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

char *ct_mcp_tool_error(const struct ct_mcp_request *request, const char *text) {
    struct ct_json json = {0};
    ct_mcp_begin_result(&json, request, false);
    ct_json_begin(&json, "content", '[');
    put_text(&json, text);
    ct_json_end(&json, ']');
    ct_json_bool(&json, "isError", true);
    return ct_mcp_end_result(&json);
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

char *ct_mcp_tool_answer(const struct ct_mcp_call *call, const struct ct_mcp_result *r) {
    const struct ct_json_node *tokens = ct_json_get(call->arguments, "tokens", NULL);
    uint64_t most = ct_json_u64(tokens, call->tool->tokens),
             number = ct_json_u64(ct_json_get(call->arguments, "page", NULL), 1);
    most = most < LEAST_TOKENS ? LEAST_TOKENS : most > MOST_TOKENS ? MOST_TOKENS : most;
    struct page page = page_of(r->text, r->length, (size_t)most * TOKEN_BYTES, number ? (size_t)number : 1);
    struct ct_json json = {0};
    ct_mcp_begin_result(&json, call->request, false);
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
    return ct_mcp_end_result(&json);
}
