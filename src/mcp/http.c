/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over HTTP: each POST has a message, and its answer is the body of the response.
 *
 * There is no stream from the server: it says nothing that was not asked, so GET is refused, as the protocol allows. A
 * session has a name from `initialize` on; a request without one, or with one that is not known, is refused. */
#include "http/http.h"
#include "mcp/server.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 256, MOST_BYTES = 16 << 20, ID = CT_HTTP_TOKEN + 1 };
enum { ACCEPTED = 202, BAD_REQUEST = 400, NOT_FOUND = 404, NO_SUCH_METHOD = 405, NOT_ACCEPTABLE = 406, FAILED = 500 };

struct session {
    struct ct_mcp_peer peer; /* first */
    char id[ID];             /* "": free */
    uint64_t used;           /* when, in requests */
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

static bool is_initialize(const struct ct_http_request *r) {
    struct ct_json_tree *tree = NULL;
    bool is = ct_json_parse(&tree, r->body, r->length, NULL) == 0 &&
              !strcmp(ct_json_text(ct_json_get(ct_json_root(tree), "method", NULL), ""), "initialize");
    ct_json_tree_free(tree);
    return is;
}

static bool accepts_json(const char *accept) {
    return strstr(accept, "application/json") || strstr(accept, "*/*");
}

static void post(struct ct_mcp_http *h, const struct ct_http_request *r, struct ct_http_answer *a) {
    bool first = is_initialize(r);
    if (!accepts_json(r->accept)) {
        refuse(a, NOT_ACCEPTABLE, "answers are application/json; Accept must have it\n");
        return;
    }
    if (!first && !*r->session) {
        refuse(a, BAD_REQUEST, "the header Mcp-Session-Id is missing: `initialize` comes first\n");
        return;
    }
    struct session *session = first ? new_session(h) : find_session(h, r->session);
    if (!session) {
        refuse(a, first ? FAILED : NOT_FOUND, "there is no such session: initialize again\n");
        return;
    }
    if (first)
        snprintf(a->session, sizeof a->session, "%s", session->id);
    a->body = ct_mcp_handle(h->server, &session->peer, r->body, r->length, NULL);
    a->type = a->body ? "application/json" : NULL;
    a->status = a->body ? 0 : ACCEPTED;
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
