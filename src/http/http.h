/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on this machine alone, for programs and pages of its user.
 *
 * It listens on 127.0.0.1. A request is answered only when it names us (Host: a loopback name and our port, which stops
 * pages of other sites whose name was bound to 127.0.0.1 later), when it does not come from a page of another origin,
 * and when it has the token. Each connection has a thread. */
#ifndef CT_HTTP_HTTP_H
#define CT_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CT_HTTP_TOKEN = 32, CT_HTTP_TEXT = 128 };

struct ct_http_request {
    const char *method, *path;
    const char *body; /* ends with a NUL */
    size_t length;
    const char *accept;  /* "": none */
    const char *session; /* the header Mcp-Session-Id; "" */
    const char *version; /* the header MCP-Protocol-Version; "" */
};

/* What is answered. Zeroed: 200 without a body. */
struct ct_http_answer {
    unsigned status;
    const char *type;           /* of the body */
    char *body;                 /* malloc'ed; the server frees it */
    char session[CT_HTTP_TEXT]; /* a header; "": none */
};

struct ct_http_options {
    uint16_t port;            /* 0: any that is free */
    const char *token;        /* what requests must have; NULL: any request of this machine will do */
    const char *const *paths; /* NULL-terminated; others are not found */
    size_t most_bytes;        /* of a body */
    void (*answer)(void *arg, const struct ct_http_request *request, struct ct_http_answer *answer); /* any thread */
    void *arg;
};

struct ct_http;
/* Begins to listen. Returns 0 or a negative status; CT_ERR_BUSY: somebody else has the port; CT_ERR_UNSUPPORTED:
 * libmicrohttpd is not installed. */
int ct_http_open(struct ct_http **out, const struct ct_http_options *options);
uint16_t ct_http_port(const struct ct_http *http);
/* Waits for requests that are being answered. */
void ct_http_close(struct ct_http *http);

/* A new token: hexadecimal digits and a NUL. False: the system has no random numbers. */
bool ct_http_make_token(char token[CT_HTTP_TOKEN + 1]);

#endif
