/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the views: SQL over the trace. */
#include "trace/reader.h"
#include "tui/tui_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGE 10000000 /* events */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int ct_tui_poll(void *arg) {
    struct ct_tui *t = arg;
    uint64_t passed = now_ns() - t->began_ns;
    if (t->stop || t->options->stopped())
        return 1;
    if (passed < 300000000)
        return 0;
    ct_screen_format(ct_screen_height() - 1, 0, CT_LOOK_CHOSEN, " reading, %.1f s; Escape stops ",
                     (double)passed / 1e9);
    ct_screen_show();
    int key = ct_screen_key(0);
    t->stop = key == CT_KEY_ESCAPE || key == CT_KEY_STOP;
    return t->stop;
}

/* A large thread without a summary is read as a whole before the first answer about it, and nothing can stop that. */
static void say_what_takes_long(const struct ct_tui *t) {
    const struct ct_source *s = t->source;
    bool missing = false;
    for (size_t i = 0; i < ct_trace_thread_count(s->trace); i++)
        missing |= !s->summaries[i] && ct_trace_thread_at(s->trace, i)->event_count >= LARGE;
    if (!missing)
        return;
    ct_screen_put(ct_screen_height() - 1, 0, CT_LOOK_CHOSEN, " reading all events: the trace has no summary ");
    ct_screen_show();
}

bool ct_tui_ask(struct ct_tui *t, const char *format, ...) {
    struct ct_query_error error;
    const char *rest;
    char *sql = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&sql, format, arguments);
    va_end(arguments);
    say_what_takes_long(t);
    t->began_ns = now_ns();
    t->stop = false;
    int ready = length < 0 ? 0 : ct_query_prepare(t->query, sql, &rest, &error);
    if (ready < 0)
        snprintf(t->message, sizeof t->message, "%.200s", error.text);
    if (length >= 0)
        free(sql);
    return ready > 0;
}

bool ct_tui_next(struct ct_tui *t) {
    struct ct_query_error error;
    int status = ct_query_step(t->query, &error);
    if (status < 0)
        snprintf(t->message, sizeof t->message, "%.200s", error.stopped ? "stopped" : error.text);
    return status > 0;
}

int64_t ct_tui_number(struct ct_tui *t, int column) {
    struct ct_cell cell;
    ct_query_value(t->query, column, &cell);
    return cell.type == CT_CELL_INTEGER ? cell.integer : cell.type == CT_CELL_REAL ? (int64_t)cell.real : -1;
}

const char *ct_tui_text(struct ct_tui *t, int column) {
    struct ct_cell cell;
    ct_query_value(t->query, column, &cell);
    return cell.type == CT_CELL_TEXT ? cell.text : "";
}

char *ct_tui_quote(const char *text) {
    char *quoted = malloc(2 * strlen(text) + 3), *to = quoted;
    if (!quoted)
        return NULL;
    *to++ = '\'';
    for (; *text; text++) {
        if (*text == '\'')
            *to++ = '\'';
        *to++ = *text;
    }
    *to++ = '\'';
    *to = 0;
    return quoted;
}
