/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as lines on two descriptors: the protocol's transport over standard input and output.
 *
 * Each request has a thread, so that a long one holds up nobody and can be cancelled. */
#include "mcp/server.h"
#include "base/grow.h"
#include <contrail/status.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 64 << 10, MOST_LINE = 16 << 20, MOST_THREADS = 32, POLL_MS = 200 };

struct lines {
    struct ct_mcp_peer peer; /* first */
    struct ct_mcp_server *server;
    int out;
    bool broken; /* nobody reads our answers */
    pthread_mutex_t write_lock;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    unsigned running;
};

struct request {
    struct lines *lines;
    size_t length;
    char text[];
};

/* ---- writing ---- */

static bool write_all(int fd, const char *bytes, size_t size) {
    while (size) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* JSON has no line break outside of texts, and escapes those inside. */
static void send_line(struct ct_mcp_peer *peer, const char *message) {
    struct lines *l = (struct lines *)peer;
    pthread_mutex_lock(&l->write_lock);
    if (!l->broken)
        l->broken = !write_all(l->out, message, strlen(message)) || !write_all(l->out, "\n", 1);
    pthread_mutex_unlock(&l->write_lock);
}

/* ---- requests ---- */

static void *run_request(void *arg) {
    struct request *request = arg;
    struct lines *l = request->lines;
    char *answer = ct_mcp_handle(l->server, &l->peer, request->text, request->length, NULL);
    if (answer)
        send_line(&l->peer, answer);
    free(answer);
    free(request);
    pthread_mutex_lock(&l->lock);
    l->running--;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* A thread of its own for each request that may take long; everything else is answered at once, in order. */
static bool is_long(const char *text, size_t length) {
    return memmem(text, length, "tools/call", 10) || memmem(text, length, "resources/read", 14);
}

static void take_line(struct lines *l, const char *text, size_t length) {
    pthread_t thread;
    if (!length || (length == 1 && *text == '\r'))
        return;
    struct request *request = malloc(sizeof *request + length);
    if (!request)
        return;
    request->lines = l;
    request->length = length;
    memcpy(request->text, text, length);
    pthread_mutex_lock(&l->lock);
    while (l->running >= MOST_THREADS)
        pthread_cond_wait(&l->changed, &l->lock);
    l->running++;
    pthread_mutex_unlock(&l->lock);
    if (!is_long(text, length) || pthread_create(&thread, NULL, run_request, request))
        run_request(request);
    else
        pthread_detach(thread);
}

/* ---- reading ---- */

struct input {
    char *bytes;
    size_t used, room;
};

/* Takes the whole lines out of the input. */
static void take_lines(struct lines *l, struct input *in) {
    size_t from = 0;
    char *end;
    while ((end = memchr(in->bytes + from, '\n', in->used - from))) {
        size_t length = (size_t)(end - in->bytes) - from;
        take_line(l, in->bytes + from, length);
        from += length + 1;
    }
    memmove(in->bytes, in->bytes + from, in->used - from);
    in->used -= from;
}

/* False: the input has ended. */
static bool read_more(int fd, struct input *in, int *status) {
    if (in->used > MOST_LINE || !ct_grow(&in->bytes, &in->room, in->used + PIECE, 1, 2 * PIECE)) {
        *status = CT_ERR_NO_MEMORY;
        return false;
    }
    ssize_t n = read(fd, in->bytes + in->used, PIECE);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    in->used += (size_t)n;
    return n > 0;
}

int ct_mcp_serve_lines(struct ct_mcp_server *server, int in, int out, bool (*stopped)(void)) {
    struct lines l = {.peer = {.send = send_line, .client = &l}, .server = server, .out = out};
    struct input input = {0};
    int status = 0;
    pthread_mutex_init(&l.write_lock, NULL);
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.changed, NULL);
    for (bool more = true; more && !stopped() && !l.broken;) {
        struct pollfd polled = {in, POLLIN, 0};
        if (poll(&polled, 1, POLL_MS) <= 0)
            continue;
        more = read_more(in, &input, &status);
        if (input.used)
            take_lines(&l, &input);
    }
    ct_mcp_stop(server);
    pthread_mutex_lock(&l.lock);
    while (l.running)
        pthread_cond_wait(&l.changed, &l.lock);
    pthread_mutex_unlock(&l.lock);
    pthread_cond_destroy(&l.changed);
    pthread_mutex_destroy(&l.lock);
    pthread_mutex_destroy(&l.write_lock);
    free(input.bytes);
    return status;
}
