/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the terminal: keys, and the view that is shown. */
#include "tui/tui_internal.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 50000000 /* events */

static const struct ct_tui_class *const classes[CT_TUI_VIEWS] = {&ct_tui_functions, &ct_tui_edges, &ct_tui_tree,
                                                                 &ct_tui_timeline, &ct_tui_moments};

/* ---- lists ---- */

int ct_tui_rows(void) {
    int rows = ct_screen_height() - CT_TUI_TOP - 1;
    return rows > 1 ? rows : 1;
}

bool ct_tui_move(struct ct_tui_list *list, int key) {
    size_t page = (size_t)ct_tui_rows(), last = list->count ? list->count - 1 : 0;
    switch (key) {
    case CT_KEY_DOWN:
    case 'j':
        list->at += list->at < last;
        return true;
    case CT_KEY_UP:
    case 'k':
        list->at -= list->at > 0;
        return true;
    case CT_KEY_PAGE_DOWN:
        list->at = list->at + page < last ? list->at + page : last;
        return true;
    case CT_KEY_PAGE_UP:
        list->at = list->at > page ? list->at - page : 0;
        return true;
    case CT_KEY_HOME:
    case 'g':
        list->at = 0;
        return true;
    case CT_KEY_END:
    case 'G':
        list->at = last;
        return true;
    default:
        return false;
    }
}

void ct_tui_scroll(struct ct_tui_list *list) {
    size_t rows = (size_t)ct_tui_rows();
    if (list->at >= list->count)
        list->at = list->count ? list->count - 1 : 0;
    if (list->at < list->top)
        list->top = list->at;
    if (list->at >= list->top + rows)
        list->top = list->at - rows + 1;
}

unsigned ct_tui_look(const struct ct_tui_list *list, size_t row) {
    return row == list->at ? CT_LOOK_CHOSEN : CT_LOOK_PLAIN;
}

const char *ct_tui_time(const struct ct_tui *t, char buffer[CT_TUI_TIME], int64_t ns) {
    return ns < 0 ? "" : t->options->time_text(buffer, (uint64_t)ns);
}

const char *ct_tui_moment(char buffer[CT_TUI_TIME], int64_t ns) {
    snprintf(buffer, CT_TUI_TIME, "%lld.%09lld", (long long)(ns / 1000000000), (long long)(ns % 1000000000));
    return buffer;
}

bool ct_tui_fits(const struct ct_tui *t, const char *name) {
    return !*t->search || strstr(name, t->search);
}

/* ---- the screen ---- */

static void draw_frame(struct ct_tui *t) {
    int column = 0;
    for (int i = 0; i < CT_TUI_VIEWS; i++) {
        unsigned look = i == (int)t->view ? CT_LOOK_CHOSEN : CT_LOOK_PLAIN;
        ct_screen_format(0, column, look, " %d %s ", i + 1, classes[i]->name);
        column += (int)strlen(classes[i]->name) + 5;
    }
    ct_screen_put(0, column, CT_LOOK_DIM, t->options->name);
}

static void draw_foot(struct ct_tui *t) {
    int row = ct_screen_height() - 1;
    if (*t->message)
        ct_screen_format(row, 0, CT_LOOK_BOLD, "%s", t->message);
    else if (*t->search)
        ct_screen_format(row, 0, CT_LOOK_DIM, "/%s  %s  / search  q leave", t->search, classes[t->view]->keys);
    else
        ct_screen_format(row, 0, CT_LOOK_DIM, "%s  / search  q leave", classes[t->view]->keys);
}

static void draw(struct ct_tui *t) {
    ct_screen_erase();
    draw_frame(t);
    draw_foot(t);
    classes[t->view]->draw(t);
    ct_screen_show();
}

/* ---- keys ---- */

/* Reads what to search for. Escape: nothing. */
static void read_search(struct ct_tui *t) {
    char text[CT_TUI_NAME] = "";
    for (size_t length = 0; !t->options->stopped();) {
        int row = ct_screen_height() - 1;
        ct_screen_fill(row, CT_LOOK_PLAIN);
        ct_screen_format(row, 0, CT_LOOK_BOLD, "/%s", text);
        ct_screen_show();
        int key = ct_screen_key(500);
        if (key == CT_KEY_ESCAPE || key == CT_KEY_STOP)
            text[0] = 0;
        if (key == CT_KEY_ENTER || key == CT_KEY_ESCAPE || key == CT_KEY_STOP)
            break;
        if (key == CT_KEY_BACKSPACE && length)
            text[--length] = 0;
        if (key >= ' ' && key < 256 && key != 127 && length + 1 < sizeof text) {
            text[length++] = (char)key;
            text[length] = 0;
        }
    }
    snprintf(t->search, sizeof t->search, "%s", text);
    if (*text && t->view == CT_TUI_TREE)
        (void)classes[CT_TUI_TREE]->key(t, 'n');
}

/* False: the user leaves. */
static bool on_key(struct ct_tui *t, int key) {
    if (key == CT_KEY_NONE || key == CT_KEY_RESIZE)
        return true;
    t->message[0] = 0;
    if (key == 'q' || key == CT_KEY_STOP)
        return false;
    if (key > '0' && key <= '0' + CT_TUI_VIEWS)
        t->view = (enum ct_tui_view)(key - '1');
    else if (key == '\t')
        t->view = (enum ct_tui_view)((t->view + 1) % CT_TUI_VIEWS);
    else if (key == '/')
        read_search(t);
    else
        (void)classes[t->view]->key(t, key);
    return true;
}

/* ---- all ---- */

/* Counting all calls of a large trace takes seconds: the tree is there at once. */
static enum ct_tui_view first_view(const struct ct_trace *trace) {
    uint64_t events = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        events += ct_trace_thread_at(trace, i)->event_count;
    return events > LARGE ? CT_TUI_TREE : CT_TUI_FUNCTIONS;
}

static int run(struct ct_tui *t) {
    int status = 0;
    for (int i = 0; i < CT_TUI_VIEWS && !status; i++)
        status = classes[i]->open(t);
    t->view = first_view(t->options->trace);
    bool stay = !status;
    while (stay && !t->options->stopped()) {
        t->pressed = CT_KEY_NONE;
        draw(t);
        stay = on_key(t, t->pressed != CT_KEY_NONE ? t->pressed : ct_screen_key(500));
    }
    for (int i = 0; i < CT_TUI_VIEWS; i++)
        classes[i]->close(t);
    return status;
}

static void set_span(struct ct_tui *t) {
    const struct ct_select *select = t->options->select;
    t->from = select->from_ns ? ct_source_time(t->source, select->from_ns) : INT64_MIN;
    t->to = select->to_ns ? ct_source_time(t->source, select->to_ns) : INT64_MAX;
}

int ct_tui_run(const struct ct_tui_options *options) {
    struct ct_tui *t = calloc(1, sizeof *t);
    if (!t)
        return CT_ERR_NO_MEMORY;
    t->options = options;
    int status = ct_source_open(
        &t->source,
        &(struct ct_source_setup){.trace = options->trace, .often = true, .poll = ct_tui_poll, .poll_arg = t});
    if (!status)
        status = ct_query_open(
            &t->query,
            &(struct ct_query_setup){.sources = &t->source, .source_count = 1, .poll = ct_tui_poll, .poll_arg = t});
    if (!status && !(status = ct_screen_open(options->out, options->in))) {
        set_span(t);
        status = run(t);
        ct_screen_close();
    }
    ct_query_close(t->query);
    ct_source_close(t->source);
    free(t);
    return status;
}
