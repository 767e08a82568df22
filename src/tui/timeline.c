/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline: a row for each thread, with the innermost function at the beginning of each column. Each cell is a
 * look into the trace where the column begins, so that a screen costs the same for any trace; what is between is not
 * seen. */
#include "report/select.h"
#include "trace/reader.h"
#include "tui/tui_internal.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 24, WIDEST = 400, STACK_ROWS = 8 };

struct cell {
    bool known; /* it was looked at */
    char glyph;
    unsigned colour;
};

struct row {
    int64_t thread;
    struct cell cells[WIDEST];
};

struct timeline {
    struct row *rows;
    struct ct_tui_list list;
    int64_t from, to;    /* what is seen */
    int64_t first, last; /* what there is */
    int column, width;
};

static int64_t time_of(const struct timeline *v, int column) {
    return v->from + (v->to - v->from) / v->width * column + (v->to - v->from) % v->width * column / v->width;
}

static void forget_cells(struct timeline *v) {
    for (size_t i = 0; i < v->list.count; i++)
        memset(v->rows[i].cells, 0, sizeof v->rows[i].cells);
}

static void show_span(struct timeline *v, int64_t from, int64_t to) {
    int64_t length = to - from < v->width ? v->width : to - from;
    if (length > v->last - v->first)
        length = v->last - v->first;
    from = from < v->first ? v->first : from > v->last - length ? v->last - length : from;
    v->from = from;
    v->to = from + length;
    forget_cells(v);
}

static int open_timeline(struct ct_tui *t) {
    struct timeline *v = t->views[CT_TUI_TIMELINE] = calloc(1, sizeof *v);
    const struct ct_trace *trace = t->options->trace;
    size_t threads = ct_trace_thread_count(trace);
    if (!v || !(v->rows = calloc(threads + 1, sizeof *v->rows)))
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < threads; i++)
        if (ct_select_thread(t->options->select, trace, i) && ct_trace_thread_at(trace, i)->event_count)
            v->rows[v->list.count++].thread = (int64_t)i + 1;
    v->first = t->from > 0 ? t->from : 0;
    v->last = t->to;
    if (t->to == INT64_MAX && ct_tui_ask(t, "SELECT max(stop) FROM processes") && ct_tui_next(t))
        v->last = ct_tui_number(t, 0);
    v->last = v->last > v->first ? v->last : v->first + 1;
    v->width = 1;
    show_span(v, v->first, v->last);
    return 0;
}

/* ---- drawing ---- */

static unsigned hash_of(const char *text) {
    unsigned hash = 2166136261u;
    while (*text)
        hash = (hash ^ (unsigned char)*text++) * 16777619u;
    return hash;
}

static void look_at(struct ct_tui *t, struct timeline *v, struct row *row, int column) {
    struct cell *cell = &row->cells[column];
    *cell = (struct cell){.known = true, .glyph = '.'};
    if (!ct_tui_ask(t, "SELECT function FROM stack_at(%lld, %lld) WHERE level = 0", (long long)row->thread,
                    (long long)time_of(v, column)) ||
        !ct_tui_next(t))
        return;
    const char *name = ct_tui_text(t, 0), *first = name + strspn(name, "_");
    cell->glyph = *first > ' ' && *first < 127 ? *first : '#';
    cell->colour = hash_of(name) % CT_COLOURS + 1;
}

/* Looks at cells until all are known or a key is pressed. Returns that key. */
static int fill(struct ct_tui *t, struct timeline *v, int rows) {
    for (int step = 16; step; step /= 4) /* a coarse picture first */
        for (int i = 0; i < rows && v->list.top + (size_t)i < v->list.count; i++) {
            struct row *row = &v->rows[v->list.top + (size_t)i];
            for (int column = 0; column < v->width; column += step)
                if (!row->cells[column].known) {
                    look_at(t, v, row, column);
                    ct_screen_format(CT_TUI_TOP + i, NAME + column, row->cells[column].colour * CT_LOOK_COLOUR, "%c",
                                     row->cells[column].glyph);
                }
            ct_screen_show();
            int key = ct_screen_key(0);
            if (key != CT_KEY_NONE)
                return key;
        }
    return CT_KEY_NONE;
}

static void draw_row(const struct ct_tui *t, const struct timeline *v, size_t number, int at) {
    const struct row *row = &v->rows[number];
    const struct ct_trace_thread *thread = ct_trace_thread_at(t->options->trace, (size_t)row->thread - 1);
    ct_screen_format(at, 0, ct_tui_look(&v->list, number), "%-*.*s", NAME - 1, NAME - 1, thread->name);
    for (int column = 0; column < v->width; column++) {
        unsigned look = row->cells[column].colour * CT_LOOK_COLOUR;
        if (column == v->column)
            look |= CT_LOOK_CHOSEN;
        ct_screen_format(at, NAME + column, look, "%c", row->cells[column].known ? row->cells[column].glyph : ' ');
    }
}

/* The calls that are open at the cursor. */
static void draw_stack(struct ct_tui *t, const struct timeline *v) {
    int row = ct_screen_height() - 1 - STACK_ROWS;
    char at[CT_TUI_TIME], from[CT_TUI_TIME], to[CT_TUI_TIME];
    ct_screen_fill(row, CT_LOOK_DIM);
    ct_screen_format(row, 0, CT_LOOK_BOLD, "at %s of %s to %s:", ct_tui_moment(at, time_of(v, v->column)),
                     ct_tui_moment(from, v->from), ct_tui_moment(to, v->to));
    if (v->list.at >= v->list.count ||
        !ct_tui_ask(t, "SELECT function, start FROM stack_at(%lld, %lld)", (long long)v->rows[v->list.at].thread,
                    (long long)time_of(v, v->column)))
        return;
    for (int i = 1; i < STACK_ROWS && ct_tui_next(t); i++)
        ct_screen_format(row + i, 2, CT_LOOK_PLAIN, "%s (since %s)", ct_tui_text(t, 0),
                         ct_tui_moment(at, ct_tui_number(t, 1)));
}

static void draw(struct ct_tui *t) {
    struct timeline *v = t->views[CT_TUI_TIMELINE];
    int width = ct_screen_width() - NAME, rows = ct_screen_height() - CT_TUI_TOP - STACK_ROWS - 1;
    width = width < 1 ? 1 : width > WIDEST ? WIDEST : width;
    if (width != v->width) {
        v->width = width;
        show_span(v, v->from, v->to);
    }
    v->column = v->column < width ? v->column : width - 1;
    ct_tui_scroll(&v->list);
    if (rows > 0 && v->list.at >= v->list.top + (size_t)rows)
        v->list.top = v->list.at - (size_t)rows + 1;
    ct_screen_put(1, 0, CT_LOOK_BOLD, "THREAD");
    ct_screen_put(1, NAME, CT_LOOK_BOLD, "first letter of the innermost function; . none");
    for (int i = 0; i < rows && v->list.top + (size_t)i < v->list.count; i++)
        draw_row(t, v, v->list.top + (size_t)i, CT_TUI_TOP + i);
    draw_stack(t, v);
    int key = fill(t, v, rows);
    if (key != CT_KEY_NONE)
        t->pressed = key;
}

/* ---- keys ---- */

static void zoom(struct timeline *v, bool in) {
    int64_t at = time_of(v, v->column), length = v->to - v->from;
    length = in ? length / 4 : length > (v->last - v->first) / 5 ? v->last - v->first : length * 4;
    show_span(v, at - length / 2, at + length - length / 2);
    v->column = (int)((at - v->from) * v->width / (v->to - v->from));
    v->column = v->column < v->width ? v->column : v->width - 1;
}

static void enter_call(struct ct_tui *t, const struct timeline *v) {
    int64_t call = -1;
    if (v->list.at < v->list.count &&
        ct_tui_ask(t, "SELECT id FROM stack_at(%lld, %lld) WHERE level = 0", (long long)v->rows[v->list.at].thread,
                   (long long)time_of(v, v->column)) &&
        ct_tui_next(t))
        call = ct_tui_number(t, 0);
    if (call >= 0)
        ct_tui_show_call(t, call);
    else
        snprintf(t->message, sizeof t->message, "the thread is in no call that was recorded there");
}

static bool on_key(struct ct_tui *t, int key) {
    struct timeline *v = t->views[CT_TUI_TIMELINE];
    int64_t half = (v->to - v->from) / 2;
    if (key == CT_KEY_LEFT && v->column)
        v->column--;
    else if (key == CT_KEY_RIGHT && v->column + 1 < v->width)
        v->column++;
    else if (key == CT_KEY_LEFT || key == '[')
        show_span(v, v->from - half, v->to - half);
    else if (key == CT_KEY_RIGHT || key == ']')
        show_span(v, v->from + half, v->to + half);
    else if (key == '+' || key == '=' || key == '-')
        zoom(v, key != '-');
    else if (key == CT_KEY_ENTER)
        enter_call(t, v);
    else
        return ct_tui_move(&v->list, key);
    return true;
}

void ct_tui_show_moment(struct ct_tui *t, int64_t thread, int64_t time) {
    struct timeline *v = t->views[CT_TUI_TIMELINE];
    int64_t length = (v->last - v->first) / 16 + v->width;
    for (size_t i = 0; i < v->list.count; i++)
        if (v->rows[i].thread == thread)
            v->list.at = i;
    show_span(v, time - length / 2, time + length / 2);
    v->column = (int)((time - v->from) * v->width / (v->to - v->from));
    v->column = v->column < 0 ? 0 : v->column < v->width ? v->column : v->width - 1;
    t->view = CT_TUI_TIMELINE;
}

static void close_timeline(struct ct_tui *t) {
    struct timeline *v = t->views[CT_TUI_TIMELINE];
    if (v)
        free(v->rows);
    free(v);
}

const struct ct_tui_class ct_tui_timeline = {.name = "timeline",
                                             .keys = "arrows move  + - zoom  [ ] pan  Enter to the call",
                                             .open = open_timeline,
                                             .draw = draw,
                                             .key = on_key,
                                             .close = close_timeline};
