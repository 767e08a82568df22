/* SPDX-License-Identifier: Apache-2.0 */
/* /api/live: tells a page how a trace grows; /api/ctl: what `contrail ctl` does.
 *
 * Whoever listens first looks at the trace, twice a second; the others see the same. */
#include "base/json_read.h"
#include "trace/reader.h"
#include "view/answer.h"
#include <contrail/session.h>
#include <contrail/status.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_MS = 400, MOST_ANSWER = 256 << 10 };

struct stream {
    struct ct_view_trace *trace;
    uint64_t generation, events, last_ns; /* that were told last */
    bool told, ended;
};

/* ---- status ---- */

struct totals {
    uint64_t events, lost, end_ns;
};

static struct totals totals_of(const struct ct_view_reader *reader) {
    struct totals t = {.end_ns = reader->source->start_ns};
    const struct ct_trace *trace = reader->trace;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        t.events += ct_trace_thread_at(trace, i)->event_count;
        t.lost += ct_trace_thread_at(trace, i)->lost;
    }
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t end = ct_trace_process_at(trace, i)->time_end_ns;
        t.end_ns = end > t.end_ns ? end : t.end_ns;
    }
    return t;
}

static size_t put_status(struct stream *s, const struct ct_view_reader *reader, char *to, size_t room) {
    struct totals t = totals_of(reader);
    uint64_t now = ct_view_now();
    double seconds = s->told ? (double)(now - s->last_ns) / 1e9 : 0;
    double rate = seconds > 0 && t.events > s->events ? (double)(t.events - s->events) / seconds : 0;
    int length = snprintf(to, room,
                          "event: status\ndata: {\"end\":%llu,\"events\":%llu,\"lost\":%llu,\"rate\":%.0f,"
                          "\"threads\":%zu,\"processes\":%zu,\"generation\":%llu,\"live\":%s}\n\n",
                          (unsigned long long)(t.end_ns - reader->source->start_ns), (unsigned long long)t.events,
                          (unsigned long long)t.lost, rate, ct_trace_thread_count(reader->trace),
                          ct_trace_process_count(reader->trace), (unsigned long long)reader->generation,
                          reader->of->live ? "true" : "false");
    s->generation = reader->generation;
    s->events = t.events;
    s->last_ns = now;
    s->told = true;
    return length > 0 && (size_t)length < room ? (size_t)length : 0;
}

static long more(void *arg, char *to, size_t room) {
    static const char ended[] = "event: ended\ndata: {}\n\n", nothing[] = ": \n\n";
    struct stream *s = arg;
    if (s->ended || s->trace->view->stopping)
        return -1;
    if (s->told)
        poll(NULL, 0, ROUND_MS);
    ct_view_look(s->trace);
    pthread_mutex_lock(&s->trace->lock);
    bool live = s->trace->live, changed = !s->told || s->generation != s->trace->generation;
    pthread_mutex_unlock(&s->trace->lock);
    if (changed) {
        struct ct_view_reader *reader = ct_view_take(s->trace);
        size_t length = reader ? put_status(s, reader, to, room) : 0;
        if (reader)
            ct_view_give(reader);
        if (length)
            return (long)length;
    }
    s->ended = !live;
    size_t length = live ? sizeof nothing - 1 : sizeof ended - 1;
    if (room < length)
        return 0;
    memcpy(to, live ? nothing : ended, length);
    return (long)length;
}

static void end(void *arg) {
    free(arg);
}

bool ct_view_live(struct ct_view_trace *trace, struct ct_http_answer *out) {
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return false;
    s->trace = trace;
    out->stream = (struct ct_http_stream){.more = more, .end = end, .arg = s};
    return true;
}

/* ---- control ---- */

/* Commands that a page may give: all but the one that ends the recording. */
static bool is_allowed(const char *command) {
    static const char *const words[] = {
#define WORDS(name, words, operand, help) words,
        CT_SESSION_COMMAND_LIST(WORDS)
#undef WORDS
    };
    if (strpbrk(command, "\r\n"))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (i != CT_SESSION_COMMAND_STOP && !strncmp(words[i], command, length) &&
            (!command[length] || command[length] == ' '))
            return true;
    }
    return false;
}

void ct_view_answer_ctl(struct ct_view_answer *a) {
    const char *command = ct_json_text(ct_json_get(a->body, "command", NULL), "");
    char *answer = NULL;
    int pid = a->trace->pid; /* it may end meanwhile */
    if (!pid)
        ct_view_refuse(a, 409, "nobody records this trace any more");
    else if (!is_allowed(command))
        ct_view_refuse(a, 400, "a page cannot give this command");
    else if (!(answer = calloc(1, MOST_ANSWER)))
        ct_view_fail(a, CT_ERR_NO_MEMORY);
    if (!answer)
        return;
    int status = ct_session_control(pid, command, answer, MOST_ANSWER);
    ct_json_bool(&a->json, "ok", status >= 0);
    ct_json_string(&a->json, "answer", *answer ? answer : status < 0 ? ct_status_text(status) : "");
    free(answer);
}
