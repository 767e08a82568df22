/* SPDX-License-Identifier: Apache-2.0 */
/* The callers of a session's control socket: reads and writes never wait. A caller that is silent, or does not read its
 * answer, is disconnected. The owner's own programs may be hostile too: they can only hold up each other. */
#include "session/control_internal.h"
#include "session/manifest.h"
#include "base/json_write.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENCE_NS 2000000000ull  /* time to send a whole line */
#define ANSWER_NS  10000000000ull /* time to read an answer */
#define STOP_NS    30000000000ull /* time for the session to end */

void ct_callers_init(struct ct_control_server *c) {
    for (int i = 0; i < CT_CALLERS; i++)
        c->callers[i].fd = -1;
}

/* ---- answers ---- */

static void hang_up(struct ct_control_caller *one) {
    close(one->fd);
    free(one->answer);
    one->fd = -1;
    one->answer = NULL;
}

static void go_on_answering(struct ct_control_caller *one) {
    while (one->sent < one->length) {
        ssize_t n = send(one->fd, one->answer + one->sent, one->length - one->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            break;
        one->sent += (size_t)n;
    }
    hang_up(one);
}

/* Takes over the text and frees it later; NULL: out of memory. */
static void answer(struct ct_control_caller *one, char *text, size_t length) {
    one->state = CT_CALLER_ANSWERED;
    one->since_ns = ct_clock_now();
    one->answer = text;
    one->length = text ? length : 0;
    one->sent = 0;
    go_on_answering(one);
}

static void put_list(struct ct_json *j, const char *key, char *const *texts, size_t count) {
    ct_json_begin(j, key, '[');
    for (size_t i = 0; i < count; i++)
        ct_json_string(j, NULL, texts[i]);
    ct_json_end(j, ']');
}

static void put_policy(const struct ct_policy *p, struct ct_json *j) {
    char hash[17], *triggers[CT_POLICY_MAX];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)ct_policy_hash(p));
    for (size_t i = 0; i < p->count; i++)
        triggers[i] = p->triggers[i]->text;
    ct_json_begin(j, "policy", '{');
    ct_json_number(j, "version", p->version);
    ct_json_string(j, "hash", hash);
    ct_json_bool(j, "recording", p->recording);
    put_list(j, "triggers", triggers, p->count);
    put_list(j, "excluded", p->excluded, p->excluded_count);
    ct_json_end(j, '}');
}

/* The last marks that callers have made, in order of time. */
static void put_marks(const struct ct_control_server *c, struct ct_json *j) {
    uint64_t from = c->mark_count > CT_CONTROL_MARKS ? c->mark_count - CT_CONTROL_MARKS : 0;
    ct_json_begin(j, "manual_marks", '[');
    for (uint64_t i = from; i < c->mark_count; i++) {
        const struct ct_control_mark *m = &c->marks[i % CT_CONTROL_MARKS];
        ct_json_begin(j, NULL, '{');
        ct_json_number(j, "time_ns", m->ns);
        if (m->label[0])
            ct_json_string(j, "label", m->label);
        ct_json_end(j, '}');
    }
    ct_json_end(j, ']');
}

static void answer_status(const struct ct_control_server *c, struct ct_control_caller *one) {
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_manifest_status(c->session, &json);
    ct_json_bool(&json, "paused", c->paused);
    ct_metrics_put(&c->metrics, &json);
    put_policy(c->session->policy, &json);
    put_marks(c, &json);
    ct_json_end(&json, '}');
    if (json.failed)
        ct_json_free(&json);
    answer(one, json.text, json.length);
}

/* A refusal begins with "error" and the status. */
static void answer_command(struct ct_control_server *c, struct ct_control_caller *one, enum ct_session_command which,
                           const char *operand) {
    char *text, *refusal;
    int status = ct_command_run(c, which, operand, &text), length;
    if (!status) {
        answer(one, text, text ? strlen(text) : 0);
        return;
    }
    length = asprintf(&refusal, "error %d %s", status, text ? text : "");
    free(text);
    answer(one, length < 0 ? NULL : refusal, length < 0 ? 0 : (size_t)length);
}

/* ---- lines ---- */

/* A caller that asks for the end gets its answer when everything is done (ct_callers_end): the hooks are removed, the
 * trace is complete, and nobody listens here any more. */
static void wait_for_stop(struct ct_control_server *c, struct ct_control_caller *one) {
    one->state = CT_CALLER_STOPS;
    one->since_ns = ct_clock_now();
    __atomic_store_n(&c->session->asked_to_stop, 1, __ATOMIC_RELEASE);
}

static void run_line(struct ct_control_server *c, struct ct_control_caller *one) {
    const char *operand;
    one->line[strcspn(one->line, "\n")] = 0;
    enum ct_session_command which = ct_command_find(one->line, &operand);
    if (which == CT_SESSION_COMMAND_STATUS)
        answer_status(c, one);
    else if (which == CT_SESSION_COMMAND_STOP)
        wait_for_stop(c, one);
    else
        answer_command(c, one, which, operand);
}

/* A line ends with a line feed, or when the caller stops sending. */
static void go_on_listening(struct ct_control_server *c, struct ct_control_caller *one) {
    ssize_t n = recv(one->fd, one->line + one->length, sizeof one->line - 1 - one->length, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    one->length += n > 0 ? (size_t)n : 0;
    one->line[one->length] = 0;
    bool full = one->length == sizeof one->line - 1;
    if (n < 0 || !one->length || (full && !strchr(one->line, '\n')))
        hang_up(one);
    else if (n == 0 || strchr(one->line, '\n'))
        run_line(c, one);
}

/* ---- all callers ---- */

static void expire_caller(struct ct_control_caller *one, uint64_t now) {
    static const char late[] = "error -6 the session did not stop in time; `status` reports whether it still records";
    static const uint64_t limits[] = {
        [CT_CALLER_TALKS] = SILENCE_NS, [CT_CALLER_ANSWERED] = ANSWER_NS, [CT_CALLER_STOPS] = STOP_NS};
    if (one->fd < 0 || now - one->since_ns < limits[one->state])
        return;
    if (one->state == CT_CALLER_STOPS)
        answer(one, strdup(late), sizeof late - 1);
    else
        hang_up(one);
}

void ct_callers_serve(struct ct_control_server *c) {
    for (int i = 0; i < CT_CALLERS; i++) {
        struct ct_control_caller *one = &c->callers[i];
        if (one->fd >= 0 && one->state == CT_CALLER_TALKS)
            go_on_listening(c, one);
        else if (one->fd >= 0 && one->state == CT_CALLER_ANSWERED)
            go_on_answering(one);
        expire_caller(one, ct_clock_now());
    }
}

static bool is_owner(int connection) {
    struct ucred who;
    socklen_t size = sizeof who;
    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) && (who.uid == geteuid() || who.uid == 0);
}

/* A free place, or that of the caller that has been silent longest; NULL: all have sent their line. */
static struct ct_control_caller *find_room(struct ct_control_server *c) {
    struct ct_control_caller *oldest = NULL;
    for (int i = 0; i < CT_CALLERS; i++) {
        struct ct_control_caller *one = &c->callers[i];
        if (one->fd < 0)
            return one;
        if (one->state == CT_CALLER_TALKS && (!oldest || one->since_ns < oldest->since_ns))
            oldest = one;
    }
    if (oldest)
        hang_up(oldest);
    return oldest;
}

void ct_callers_accept(struct ct_control_server *c) {
    for (int i = 0; i < CT_CALLERS; i++) {
        int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        struct ct_control_caller *one = is_owner(fd) ? find_room(c) : NULL;
        if (!one) {
            close(fd);
            continue;
        }
        *one = (struct ct_control_caller){.fd = fd, .state = CT_CALLER_TALKS, .since_ns = ct_clock_now()};
        go_on_listening(c, one); /* most have sent their line already */
    }
}

/* A caller that hangs up while the session ends would wake us again and again. */
void ct_callers_watch(const struct ct_control_server *c, struct pollfd p[CT_CALLERS]) {
    for (int i = 0; i < CT_CALLERS; i++) {
        const struct ct_control_caller *one = &c->callers[i];
        bool wakes = one->state != CT_CALLER_STOPS;
        p[i] =
            (struct pollfd){.fd = wakes ? one->fd : -1, .events = one->state == CT_CALLER_ANSWERED ? POLLOUT : POLLIN};
    }
}

void ct_callers_end(struct ct_control_server *c) {
    for (int i = 0; i < CT_CALLERS; i++) {
        struct ct_control_caller *one = &c->callers[i];
        if (one->fd >= 0 && one->state == CT_CALLER_STOPS)
            answer(one, strdup("ok"), 2);
        if (one->fd >= 0)
            hang_up(one);
    }
}
