/* SPDX-License-Identifier: Apache-2.0 */
/* A server for pages that show traces (docs/VIEW.md has its HTTP interface).
 *
 * It reads, and answers with at most a screenful: what is asked is a part of the time and a width in pixels. Any number
 * of requests run at once: each borrows a reader, which has the trace open for itself. */
#ifndef CT_VIEW_VIEW_H
#define CT_VIEW_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CT_VIEW_TRACES = 8 };

/* Keeps levels where the server itself may not write. Any thread. */
struct ct_view_keep {
    /* An empty file for a thread of a trace, to read and write, which the caller closes; -1: none. `process`: the
     * directory of its process. */
    int (*file)(void *arg, size_t trace, const char *process, uint32_t thread);
    /* It has all that it will have. */
    void (*complete)(void *arg, size_t trace, const char *process, uint32_t thread);
    void *arg;
};

struct ct_view_options {
    const char *const *paths;       /* of traces, NULL-terminated, CT_VIEW_TRACES at most */
    const char *const *directories; /* further places of binaries and debug files; NULL: none */
    uint16_t port;                  /* 0: any that is free */
    const char *token;
    const char *cookie; /* a name that other servers of this machine do not have */
    const char *once;   /* opens the page once, for a process of this user (http/http.h); NULL: none */
    uid_t once_uid;
    unsigned jobs;                   /* processors for levels; 0: all */
    const struct ct_view_keep *keep; /* lives as long as the server; NULL: none */
};

struct ct_view;
/* Begins to serve. Returns 0 or a negative status: those of ct_trace_open, with a sentence in `error`, and of
 * ct_http_open. */
int ct_view_open(struct ct_view **out, const struct ct_view_options *options, char *error, size_t error_size);
uint16_t ct_view_port(const struct ct_view *view);
/* Ends requests and streams. */
void ct_view_close(struct ct_view *view);

#endif
