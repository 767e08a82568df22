/* SPDX-License-Identifier: Apache-2.0 */
/* Callers and callees of a function. */
#include "base/grow.h"
#include "tui/tui_internal.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct edge {
    int64_t calls, total, self;
    bool calls_it; /* the function calls it */
    char *name;
};

struct edges {
    char *function; /* NULL: none was chosen */
    struct edge *items;
    size_t room;
    struct ct_tui_list list;
};

static int open_edges(struct ct_tui *t) {
    return (t->views[CT_TUI_EDGES] = calloc(1, sizeof(struct edges))) ? 0 : CT_ERR_NO_MEMORY;
}

static void clear(struct edges *e) {
    while (e->list.count)
        free(e->items[--e->list.count].name);
    e->list = (struct ct_tui_list){0};
}

static void load(struct ct_tui *t, struct edges *e) {
    char *name = ct_tui_quote(e->function);
    clear(e);
    bool asked =
        name &&
        ct_tui_ask(t,
                   "SELECT 0, coalesce(caller, '(not recorded)'), sum(calls), sum(total), sum(self) FROM edges "
                   "WHERE callee = %s GROUP BY caller UNION ALL "
                   "SELECT 1, callee, sum(calls), sum(total), sum(self) FROM edges WHERE caller = %s GROUP BY callee "
                   "ORDER BY 1, 4 DESC, 3 DESC, 2",
                   name, name);
    free(name);
    if (!asked)
        return;
    while (ct_tui_next(t)) {
        if (!ct_grow(&e->items, &e->room, e->list.count, sizeof *e->items, 64))
            return;
        struct edge *edge = &e->items[e->list.count++];
        edge->calls_it = ct_tui_number(t, 0) > 0;
        edge->calls = ct_tui_number(t, 2);
        edge->total = ct_tui_number(t, 3);
        edge->self = ct_tui_number(t, 4);
        edge->name = strdup(ct_tui_text(t, 1));
        if (!edge->name) {
            e->list.count--;
            return;
        }
    }
}

void ct_tui_show_edges(struct ct_tui *t, const char *function) {
    struct edges *e = t->views[CT_TUI_EDGES];
    char *name = strdup(function); /* it may be one of ours */
    if (!name)
        return;
    free(e->function);
    e->function = name;
    t->view = CT_TUI_EDGES;
    load(t, e);
}

static void draw(struct ct_tui *t) {
    struct edges *e = t->views[CT_TUI_EDGES];
    char total[CT_TUI_TIME], self[CT_TUI_TIME];
    if (!e->function && ct_tui_chosen_function(t))
        ct_tui_show_edges(t, ct_tui_chosen_function(t));
    if (!e->function) {
        ct_screen_put(CT_TUI_TOP, 2, CT_LOOK_DIM, "choose a function among the functions (1) with Enter");
        return;
    }
    ct_tui_scroll(&e->list);
    bool narrow = ct_screen_width() < 80;
    ct_screen_format(1, 0, CT_LOOK_BOLD, "%12s %10s%s  callers (<-) and callees (->) of %s", "CALLS", "TOTAL",
                     narrow ? "" : "       SELF", e->function);
    for (int i = 0; i < ct_tui_rows() && e->list.top + (size_t)i < e->list.count; i++) {
        const struct edge *edge = &e->items[e->list.top + (size_t)i];
        unsigned look = ct_tui_look(&e->list, e->list.top + (size_t)i);
        char own[CT_TUI_TIME + 16] = "";
        if (!narrow)
            snprintf(own, sizeof own, " %10s", ct_tui_time(t, self, edge->self));
        ct_screen_format(CT_TUI_TOP + i, 0, look, "%12lld %10s%s  %s %s", (long long)edge->calls,
                         ct_tui_time(t, total, edge->total), own, edge->calls_it ? "->" : "<-", edge->name);
    }
}

static bool on_key(struct ct_tui *t, int key) {
    struct edges *e = t->views[CT_TUI_EDGES];
    if (ct_tui_move(&e->list, key))
        return true;
    if (e->list.at >= e->list.count || (key != CT_KEY_ENTER && key != 'c'))
        return false;
    if (key == CT_KEY_ENTER)
        ct_tui_show_edges(t, e->items[e->list.at].name);
    else
        ct_tui_show_slowest(t, e->items[e->list.at].name);
    return true;
}

static void close_edges(struct ct_tui *t) {
    struct edges *e = t->views[CT_TUI_EDGES];
    if (e) {
        clear(e);
        free(e->items);
        free(e->function);
    }
    free(e);
}

const struct ct_tui_class ct_tui_edges = {.name = "callers",
                                          .keys = "Enter go to it  c slowest call",
                                          .open = open_edges,
                                          .draw = draw,
                                          .key = on_key,
                                          .close = close_edges};
