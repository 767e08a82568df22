/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: see stream.h. A thread handles the request; that of the connection sends what it says. While
 * there is nothing to say, a comment each second shows whether the client is still there. */
#include "mcp/stream.h"
#include "base/grow.h"
#include "mcp/server.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stream {
    struct ct_mcp_peer peer; /* first */
    struct ct_mcp_server *server;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    unsigned users; /* the request's thread, and the connection's */
    bool answered;
    char *text; /* to be sent */
    size_t used, room, sent;
    size_t length; /* of the request */
    char request[];
};

static void leave(struct stream *s) {
    pthread_mutex_lock(&s->lock);
    bool last = !--s->users;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->text);
    free(s);
}

/* ---- the request's thread ---- */

/* With the lock held. A text that finds no memory is left out. */
static void put(struct stream *s, const char *text) {
    size_t length = strlen(text);
    if (!ct_grow(&s->text, &s->room, s->used + length, 1, 1024))
        return;
    memcpy(s->text + s->used, text, length);
    s->used += length;
}

/* JSON of ours has no line breaks. */
static void put_event(struct stream *s, const char *message, bool answer) {
    pthread_mutex_lock(&s->lock);
    if (message) {
        put(s, "event: message\ndata: ");
        put(s, message);
        put(s, "\n\n");
    }
    s->answered |= answer;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void send_message(struct ct_mcp_peer *peer, const char *message) {
    put_event((struct stream *)peer, message, false);
}

static void *run_request(void *arg) {
    struct stream *s = arg;
    char *answer = ct_mcp_handle(s->server, &s->peer, s->request, s->length, NULL);
    put_event(s, answer, true);
    free(answer);
    leave(s);
    return NULL;
}

/* ---- the connection's thread ---- */

static void wait_for_text(struct stream *s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    while (s->sent == s->used && !s->answered)
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) != 0) {
            put(s, ":\n\n");
            break;
        }
}

static long send_more(void *arg, char *to, size_t room) {
    struct stream *s = arg;
    pthread_mutex_lock(&s->lock);
    wait_for_text(s);
    size_t left = s->used - s->sent, count = left < room ? left : room;
    if (count)
        memcpy(to, s->text + s->sent, count);
    s->sent += count;
    if (s->sent == s->used)
        s->sent = s->used = 0;
    bool over = !count && s->answered;
    pthread_mutex_unlock(&s->lock);
    return over ? -1 : (long)count;
}

static void end(void *arg) {
    struct stream *s = arg;
    if (s->peer.client == s)
        ct_mcp_cancel_client(s->server, s);
    leave(s);
}

bool ct_mcp_stream_open(struct ct_http_stream *out, struct ct_mcp_server *server, const void *client, const char *text,
                        size_t length) {
    pthread_t thread;
    struct stream *s = calloc(1, sizeof *s + length + 1);
    if (!s)
        return false;
    s->peer = (struct ct_mcp_peer){.send = send_message, .client = client ? client : s};
    s->server = server;
    s->users = 2;
    s->length = length;
    memcpy(s->request, text, length);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&thread, NULL, run_request, s) != 0) {
        s->users = 1;
        leave(s);
        return false;
    }
    pthread_detach(thread);
    *out = (struct ct_http_stream){.more = send_more, .end = end, .arg = s};
    return true;
}
