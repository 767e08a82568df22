/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on this machine alone, for programs and pages of its user.
 *
 * It listens on 127.0.0.1. A request is answered only when it names us (Host: a loopback name and our port, which stops
 * pages of other sites whose name was bound to 127.0.0.1 later), when it does not come from a page of another origin,
 * and when it has the token. Each connection has a thread.
 *
 * With `cookie` it serves pages: GET /?token=TOKEN sets a cookie, which all other requests need (or the header
 * Authorization); Host may have any port, as through `ssh -L`; and pages may load nothing that is not ours. `once` is
 * another token for that one request, for command lines, which everybody reads. */
#ifndef CT_HTTP_HTTP_H
#define CT_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CT_HTTP_TOKEN = 32, CT_HTTP_TEXT = 128 };

struct ct_http_request {
    const char *method, *path;
    const char *body; /* ends with a NUL */
    size_t length;
    const char *accept;  /* "": none */
    const char *session; /* the header Mcp-Session-Id; "" */
    const char *version; /* the header MCP-Protocol-Version; "" */
    void *connection;    /* for ct_http_argument and ct_http_header */
};
/* The value of NAME in ?NAME=VALUE, decoded; NULL: it is not there. Lives as long as the request. */
const char *ct_http_argument(const struct ct_http_request *request, const char *name);
/* A header; "": it is not there. */
const char *ct_http_header(const struct ct_http_request *request, const char *name);

/* A body that is sent as it comes. */
struct ct_http_stream {
    /* Fills `to`, and may take up to a second. 0: nothing yet; negative: the end. */
    long (*more)(void *arg, char *to, size_t room);
    void (*end)(void *arg); /* the last call, also when the client has gone */
    void *arg;
};

/* What is answered. Zeroed: 200 without a body. */
struct ct_http_answer {
    unsigned status;
    const char *type;             /* of the body */
    char *body;                   /* malloc'ed; the server frees it */
    size_t length;                /* of the body; 0: it ends with a NUL */
    const void *lasting;          /* instead of `body`: bytes that live as long as the server */
    struct ct_http_stream stream; /* instead of both, when `more` is set */
    char session[CT_HTTP_TEXT];   /* a header; "": none */
};

struct ct_http_options {
    uint16_t port;            /* 0: any that is free */
    const char *token;        /* what requests must have; NULL: any request of this machine will do */
    const char *const *paths; /* NULL-terminated; others are not found. NULL: `answer` knows */
    const char *cookie;       /* its name; NULL: programs ask, and no pages */
    const char *once;         /* with `cookie`: a token that is good once, for a process of this user; NULL: none */
    uid_t once_uid;
    size_t most_bytes;                                                                               /* of a body */
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
