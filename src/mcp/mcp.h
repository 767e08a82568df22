/* SPDX-License-Identifier: Apache-2.0 */
/* The Model Context Protocol: tools by which an assistant reads traces, over standard input and output or HTTP.
 *
 * Each tool is a command of contrail, run as a child process: its answer is what the command prints, cut to a number of
 * tokens, with the command line that makes it again. A trace that harms its reader harms the child only. */
#ifndef CT_MCP_MCP_H
#define CT_MCP_MCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_mcp_options {
    const char *program;   /* path of contrail itself */
    const char *directory; /* where traces are, and new ones go */
    bool allow_record;     /* tools that start, change and end recordings */
    unsigned timeout_s;    /* a command that takes longer is ended; 0: never */
};

struct ct_mcp_server;

/* NULL: out of memory. */
struct ct_mcp_server *ct_mcp_open(const struct ct_mcp_options *options);
/* Ends the commands that run, and runs no more. */
void ct_mcp_stop(struct ct_mcp_server *server);
/* Does so too, and waits for them. */
void ct_mcp_close(struct ct_mcp_server *server);

/* A client, as far as the server sees it: where messages go that are no answers. */
struct ct_mcp_peer {
    void (*send)(struct ct_mcp_peer *peer, const char *message); /* any thread; NULL: they are dropped */
    const void *client; /* the same of all peers of one client: what it may cancel */
};

/* Handles a message. Returns the answer, malloc'ed, or NULL for a notification; takes as long as its tool takes. Any
 * number of threads. *error (may be NULL) becomes the code of an answer that is an error, or 0. */
char *ct_mcp_handle(struct ct_mcp_server *server, struct ct_mcp_peer *peer, const char *text, size_t length,
                    int *error);

/* Serves a client on two descriptors, a message on each line, until the input ends or `stopped` returns true. Answers
 * come when they are ready, not in the order of their questions. */
int ct_mcp_serve_lines(struct ct_mcp_server *server, int in, int out, bool (*stopped)(void));

struct ct_mcp_http;
/* Serves any number of clients over HTTP ("streamable HTTP") at http://127.0.0.1:PORT/mcp, with a token. Returns 0 or a
 * negative status, as ct_http_open. */
int ct_mcp_serve_http(struct ct_mcp_http **out, struct ct_mcp_server *server, uint16_t port, const char *token);
uint16_t ct_mcp_http_port(const struct ct_mcp_http *http);
void ct_mcp_http_close(struct ct_mcp_http *http);

#endif
