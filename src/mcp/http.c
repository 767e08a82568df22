/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over HTTP: each POST has a message, and its answer is the body of the response. The answer of a tool comes
 * as server-sent events to clients that take them and want to see progress.
 *
 * The server says nothing that was not asked, so GET is refused, as the protocol allows. In revisions with
 * `initialize`, a session has a name from there on; a request without one, or with one that is not known, is refused.
 * In the revision without, a request says all about itself, in headers too, and closing the response cancels it. */
#include "http/http.h"
#include "mcp/server.h"
#include "mcp/stream.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 256, MOST_BYTES = 16 << 20, ID = CT_HTTP_TOKEN + 1 };
enum { ACCEPTED = 202, BAD_REQUEST = 400, NOT_FOUND = 404, NO_SUCH_METHOD = 405, NOT_ACCEPTABLE = 406, FAILED = 500 };

/* What a client speaks that does not say, and what some say that ask for a later one: its requests are the same. */
#define FIRST_VERSION "2025-03-26"

struct session {
    char id[ID];   /* "": free */
    uint64_t used; /* when, in requests */
};

struct ct_mcp_http {
    struct ct_mcp_server *server;
    struct ct_http *http;
    pthread_mutex_t lock; /* of what follows */
    struct session sessions[SESSIONS];
    uint64_t requests;
};

/* ---- sessions ---- */

/* The session with this name; NULL: there is none. */
static struct session *find_session(struct ct_mcp_http *h, const char *id) {
    struct session *found = NULL;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; *id && i < SESSIONS; i++)
        if (!strcmp(h->sessions[i].id, id))
            found = &h->sessions[i];
    if (found)
        found->used = ++h->requests;
    pthread_mutex_unlock(&h->lock);
    return found;
}

/* A new session; the one that was not used for longest ends when there are too many. */
static struct session *new_session(struct ct_mcp_http *h) {
    struct session *oldest = &h->sessions[0];
    char id[ID];
    if (!ct_http_make_token(id))
        return NULL;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < SESSIONS; i++)
        if (!*h->sessions[i].id) {
            oldest = &h->sessions[i];
            break;
        } else if (h->sessions[i].used < oldest->used) {
            oldest = &h->sessions[i];
        }
    memcpy(oldest->id, id, sizeof id);
    oldest->used = ++h->requests;
    pthread_mutex_unlock(&h->lock);
    return oldest;
}

/* ---- requests ---- */

static void refuse(struct ct_http_answer *a, unsigned status, const char *text) {
    a->status = status;
    a->type = "text/plain; charset=utf-8";
    a->body = strdup(text);
}

/* What a message says about itself. */
struct message {
    struct ct_json_tree *tree;
    const struct ct_json_node *id, *params;
    const char *method, *version; /* "": it does not say */
};

static void look_at(struct message *m, const struct ct_http_request *r) {
    *m = (struct message){0};
    (void)ct_json_parse(&m->tree, r->body, r->length, NULL);
    const struct ct_json_node *root = m->tree ? ct_json_root(m->tree) : NULL;
    m->id = ct_json_get(root, "id", NULL);
    m->params = ct_json_get(root, "params", NULL);
    m->method = ct_json_text(ct_json_get(root, "method", NULL), "");
    m->version = ct_json_text(ct_json_get(m->params, "_meta", "io.modelcontextprotocol/protocolVersion", NULL), "");
}

/* Are its messages sent as they come? Those of `alone` are always, because closing the response cancels the call. */
static bool is_streamed(const struct message *m, const struct ct_http_request *r, bool alone) {
    return m->id && !strcmp(m->method, "tools/call") && strstr(r->accept, "text/event-stream") &&
           (alone || ct_json_get(m->params, "_meta", "progressToken", NULL));
}

static void start_stream(struct ct_mcp_http *h, const struct ct_http_request *r, const void *client,
                         struct ct_http_answer *a) {
    a->type = "text/event-stream";
    if (!ct_mcp_stream_open(&a->stream, h->server, client, r->body, r->length))
        refuse(a, FAILED, "out of memory\n");
}

/* ---- the revision without `initialize` ---- */

static unsigned status_of(int error) {
    switch (error) {
    case CT_MCP_NO_METHOD:
        return NOT_FOUND;
    case CT_MCP_PARSE_ERROR:
    case CT_MCP_INVALID_REQUEST:
    case CT_MCP_WRONG_HEADER:
    case CT_MCP_UNKNOWN_VERSION:
        return BAD_REQUEST;
    default:
        return 0;
    }
}

/* A header repeats a part of the message for those on the way; what is not plain is written in base64. */
static bool is_same(const char *header, const char *said) {
    return !strcmp(header, said) || (!strncmp(header, "=?base64?", 9) && *said);
}

/* The header that does not say what the message says; NULL: all do. */
static const char *wrong_header(const struct message *m, const struct ct_http_request *r) {
    bool uri = !strcmp(m->method, "resources/read");
    bool named = uri || !strcmp(m->method, "tools/call") || !strcmp(m->method, "prompts/get");
    const char *name = ct_json_text(ct_json_get(m->params, uri ? "uri" : "name", NULL), "");
    if (strcmp(r->version, m->version) != 0)
        return "MCP-Protocol-Version";
    if (strcmp(ct_http_header(r, "Mcp-Method"), m->method) != 0)
        return "Mcp-Method";
    return named && !is_same(ct_http_header(r, "Mcp-Name"), name) ? "Mcp-Name" : NULL;
}

static void post_alone(struct ct_mcp_http *h, const struct ct_http_request *r, const struct message *m,
                       struct ct_http_answer *a) {
    struct ct_mcp_request request = {.id = m->id};
    struct ct_mcp_peer peer = {.client = a};
    const char *wrong = m->id ? wrong_header(m, r) : NULL;
    char text[80];
    int error = 0;
    if (!wrong && ct_mcp_is_alone(m->version) && is_streamed(m, r, true)) {
        start_stream(h, r, NULL, a);
        return;
    }
    snprintf(text, sizeof text, "the header %s is not what the message says", wrong ? wrong : "");
    a->body = wrong ? ct_mcp_error(&request, error = CT_MCP_WRONG_HEADER, text)
                    : ct_mcp_handle(h->server, &peer, r->body, r->length, &error);
    a->type = a->body ? "application/json" : NULL;
    a->status = a->body ? status_of(error) : ACCEPTED;
}

/* ---- revisions with sessions ---- */

static void post_session(struct ct_mcp_http *h, const struct ct_http_request *r, const struct message *m,
                         struct ct_http_answer *a) {
    bool first = !strcmp(m->method, "initialize");
    if (!first && !*r->session) {
        refuse(a, BAD_REQUEST, "the header Mcp-Session-Id is missing: `initialize` comes first\n");
        return;
    }
    if (!first && *r->version && strcmp(r->version, FIRST_VERSION) != 0 && !ct_mcp_is_version(r->version)) {
        refuse(a, BAD_REQUEST, "this MCP-Protocol-Version is not known\n");
        return;
    }
    struct session *session = first ? new_session(h) : find_session(h, r->session);
    if (!session) {
        refuse(a, first ? FAILED : NOT_FOUND, "there is no such session: initialize again\n");
        return;
    }
    if (first)
        snprintf(a->session, sizeof a->session, "%s", session->id);
    if (is_streamed(m, r, false)) {
        start_stream(h, r, session, a);
        return;
    }
    struct ct_mcp_peer peer = {.client = session};
    a->body = ct_mcp_handle(h->server, &peer, r->body, r->length, NULL);
    a->type = a->body ? "application/json" : NULL;
    a->status = a->body ? 0 : ACCEPTED;
}

static bool accepts_json(const char *accept) {
    return strstr(accept, "application/json") || strstr(accept, "*/*");
}

static void post(struct ct_mcp_http *h, const struct ct_http_request *r, struct ct_http_answer *a) {
    struct message m;
    if (!accepts_json(r->accept)) {
        refuse(a, NOT_ACCEPTABLE, "answers are application/json; Accept must have it\n");
        return;
    }
    look_at(&m, r);
    if (*m.version || ct_mcp_is_alone(r->version))
        post_alone(h, r, &m, a);
    else
        post_session(h, r, &m, a);
    ct_json_tree_free(m.tree);
}

static void end_session(struct ct_mcp_http *h, const struct ct_http_request *r, struct ct_http_answer *a) {
    struct session *session = find_session(h, r->session);
    if (!session) {
        refuse(a, NOT_FOUND, "there is no such session\n");
        return;
    }
    pthread_mutex_lock(&h->lock);
    *session->id = 0;
    pthread_mutex_unlock(&h->lock);
    ct_mcp_cancel_client(h->server, session);
}

static void answer(void *arg, const struct ct_http_request *r, struct ct_http_answer *a) {
    if (!strcmp(r->method, "POST"))
        post(arg, r, a);
    else if (!strcmp(r->method, "DELETE"))
        end_session(arg, r, a);
    else
        refuse(a, NO_SUCH_METHOD, "messages are sent by POST\n");
}

int ct_mcp_serve_http(struct ct_mcp_http **out, struct ct_mcp_server *server, uint16_t port, const char *token) {
    static const char *const paths[] = {"/mcp", NULL};
    struct ct_mcp_http *h = *out = calloc(1, sizeof *h);
    if (!h)
        return CT_ERR_NO_MEMORY;
    h->server = server;
    pthread_mutex_init(&h->lock, NULL);
    int status = ct_http_open(
        &h->http,
        &(struct ct_http_options){
            .port = port, .token = token, .paths = paths, .most_bytes = MOST_BYTES, .answer = answer, .arg = h});
    if (status) {
        ct_mcp_http_close(h);
        *out = NULL;
    }
    return status;
}

uint16_t ct_mcp_http_port(const struct ct_mcp_http *h) {
    return ct_http_port(h->http);
}

void ct_mcp_http_close(struct ct_mcp_http *h) {
    if (!h)
        return;
    ct_http_close(h->http);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
