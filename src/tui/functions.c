/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a trace, as `report` counts them. */
#include "report/functions.h"
#include "tui/tui_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct functions {
    struct ct_report *report;
    const struct ct_report_row **rows; /* that fit what is searched for */
    struct ct_tui_list list;
    unsigned order;
    char search[CT_TUI_NAME]; /* that the rows fit */
};

static const struct {
    enum ct_report_sort sort;
    const char *name;
} orders[] = {{CT_REPORT_BY_TOTAL, "total"},
              {CT_REPORT_BY_SELF, "self"},
              {CT_REPORT_BY_CALLS, "calls"},
              {CT_REPORT_BY_MAX, "max"},
              {CT_REPORT_BY_NAME, "name"}};
enum { ORDERS = sizeof orders / sizeof *orders };

static void choose_rows(struct ct_tui *t, struct functions *f) {
    f->list = (struct ct_tui_list){0};
    snprintf(f->search, sizeof f->search, "%s", t->search);
    for (size_t i = 0; i < f->report->row_count; i++)
        if (ct_tui_fits(t, f->report->rows[i].name))
            f->rows[f->list.count++] = &f->report->rows[i];
}

static int compute(struct ct_tui *t, struct functions *f) {
    const struct ct_report_options options = {.select = *t->options->select, .sort = orders[f->order].sort};
    struct ct_report *report;
    ct_screen_put(ct_screen_height() - 1, 0, CT_LOOK_CHOSEN, " counting all calls ");
    ct_screen_show();
    int status = ct_report_make(&report, t->options->trace, &options);
    if (status)
        return status;
    ct_report_free(f->report);
    free(f->rows);
    f->report = report;
    f->rows = calloc(report->row_count + 1, sizeof *f->rows);
    if (f->rows)
        choose_rows(t, f);
    return f->rows ? 0 : CT_ERR_NO_MEMORY;
}

static int open_functions(struct ct_tui *t) {
    struct functions *f = t->views[CT_TUI_FUNCTIONS] = calloc(1, sizeof *f);
    (void)t;
    return f ? 0 : CT_ERR_NO_MEMORY;
}

/* Numbers beside a name: fewer where the terminal is narrow, so that there is room for the name. */
static int put_numbers(char *text, size_t size, const char *calls, const char *total, const char *self,
                       const char *most) {
    int width = ct_screen_width();
    if (width < 50)
        return snprintf(text, size, "%9s  ", total);
    if (width < 80)
        return snprintf(text, size, "%12s %10s  ", calls, total);
    return snprintf(text, size, "%12s %10s %10s %10s  ", calls, total, self, most);
}

static void draw_row(const struct ct_tui *t, const struct ct_report_row *row, int at, unsigned look) {
    char total[CT_TUI_TIME], self[CT_TUI_TIME], most[CT_TUI_TIME], calls[24], numbers[128];
    snprintf(calls, sizeof calls, "%llu", (unsigned long long)row->calls);
    put_numbers(numbers, sizeof numbers, calls, ct_tui_time(t, total, (int64_t)row->total_ns),
                ct_tui_time(t, self, (int64_t)row->self_ns), ct_tui_time(t, most, (int64_t)row->max_ns));
    ct_screen_format(at, 0, look, "%s%s [%s]", numbers, row->name, row->module);
}

static void draw(struct ct_tui *t) {
    struct functions *f = t->views[CT_TUI_FUNCTIONS];
    char head[128];
    if (!f->report && compute(t, f)) {
        snprintf(t->message, sizeof t->message, "the calls cannot be counted");
        return;
    }
    if (strcmp(f->search, t->search) != 0)
        choose_rows(t, f);
    ct_tui_scroll(&f->list);
    put_numbers(head, sizeof head, "CALLS", "TOTAL", "SELF", "MAX");
    ct_screen_format(1, 0, CT_LOOK_BOLD, "%sFUNCTION (%zu, by %s)", head, f->list.count, orders[f->order].name);
    for (int i = 0; i < ct_tui_rows() && f->list.top + (size_t)i < f->list.count; i++)
        draw_row(t, f->rows[f->list.top + (size_t)i], CT_TUI_TOP + i, ct_tui_look(&f->list, f->list.top + (size_t)i));
}

const char *ct_tui_chosen_function(const struct ct_tui *t) {
    const struct functions *f = t->views[CT_TUI_FUNCTIONS];
    return f && f->list.at < f->list.count ? f->rows[f->list.at]->name : NULL;
}

static bool on_key(struct ct_tui *t, int key) {
    struct functions *f = t->views[CT_TUI_FUNCTIONS];
    const struct ct_report_row *row = f->list.at < f->list.count ? f->rows[f->list.at] : NULL;
    if (ct_tui_move(&f->list, key))
        return true;
    if (key == 's') {
        f->order = (f->order + 1) % ORDERS;
        if (compute(t, f))
            snprintf(t->message, sizeof t->message, "out of memory");
        return true;
    }
    if ((key != CT_KEY_ENTER && key != 'c') || !row)
        return false;
    if (key == CT_KEY_ENTER)
        ct_tui_show_edges(t, row->name);
    else
        ct_tui_show_slowest(t, row->name);
    return true;
}

static void close_functions(struct ct_tui *t) {
    struct functions *f = t->views[CT_TUI_FUNCTIONS];
    if (!f)
        return;
    ct_report_free(f->report);
    free(f->rows);
    free(f);
}

const struct ct_tui_class ct_tui_functions = {.name = "functions",
                                              .keys = "Enter callers and callees  c slowest call  s order",
                                              .open = open_functions,
                                              .draw = draw,
                                              .key = on_key,
                                              .close = close_functions};
