/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a trace: marks, windows of detail, signals, losses, beginnings and ends of processes. */
#include "base/grow.h"
#include "tui/tui_internal.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>

struct moment {
    int64_t time, thread;
    char kind[16], text[256];
};

struct moments {
    struct moment *items;
    size_t room;
    bool loaded;
    struct ct_tui_list list;
};

static const char question[] =
    "SELECT time, 0, 'mark', coalesce(label, '') AS text FROM marks UNION ALL "
    "SELECT coalesce(time, start), 0, 'window', coalesce(reasons, '') || ': ' || records || ' detail records' FROM "
    "windows UNION ALL "
    "SELECT time, thread, 'signal', coalesce(text, name, '') FROM signals UNION ALL "
    "SELECT time, thread, 'loss', lost || ' events: ' || coalesce(text, '') FROM losses UNION ALL "
    "SELECT start, 0, 'begin', command FROM processes UNION ALL "
    "SELECT stop, 0, 'end', program || ': ' || coalesce(ended, '') FROM processes ORDER BY 1";

static int open_moments(struct ct_tui *t) {
    return (t->views[CT_TUI_MOMENTS] = calloc(1, sizeof(struct moments))) ? 0 : CT_ERR_NO_MEMORY;
}

/* When the view is first shown: signals are among the calls, which may be many. */
static void load(struct ct_tui *t, struct moments *m) {
    m->loaded = ct_tui_ask(t, "%s", question);
    while (m->loaded && ct_tui_next(t)) {
        int64_t time = ct_tui_number(t, 0);
        if (time > t->to || (t->from > 0 && time < t->from))
            continue;
        if (!ct_grow(&m->items, &m->room, m->list.count, sizeof *m->items, 64))
            return;
        struct moment *moment = &m->items[m->list.count++];
        moment->time = time > 0 ? time : 0; /* a process begins before its first event */
        moment->thread = ct_tui_number(t, 1);
        snprintf(moment->kind, sizeof moment->kind, "%s", ct_tui_text(t, 2));
        snprintf(moment->text, sizeof moment->text, "%s", ct_tui_text(t, 3));
    }
}

static void draw(struct ct_tui *t) {
    struct moments *m = t->views[CT_TUI_MOMENTS];
    char time[CT_TUI_TIME];
    if (!m->loaded)
        load(t, m);
    ct_tui_scroll(&m->list);
    ct_screen_format(1, 0, CT_LOOK_BOLD, "%14s  %-7s %s", "TIME", "WHAT", "");
    for (int i = 0; i < ct_tui_rows() && m->list.top + (size_t)i < m->list.count; i++) {
        const struct moment *moment = &m->items[m->list.top + (size_t)i];
        ct_screen_format(CT_TUI_TOP + i, 0, ct_tui_look(&m->list, m->list.top + (size_t)i), "%14s  %-7s %s",
                         ct_tui_moment(time, moment->time), moment->kind, moment->text);
    }
}

static bool on_key(struct ct_tui *t, int key) {
    struct moments *m = t->views[CT_TUI_MOMENTS];
    if (key != CT_KEY_ENTER || m->list.at >= m->list.count)
        return ct_tui_move(&m->list, key);
    ct_tui_show_moment(t, m->items[m->list.at].thread, m->items[m->list.at].time);
    return true;
}

static void close_moments(struct ct_tui *t) {
    struct moments *m = t->views[CT_TUI_MOMENTS];
    if (m)
        free(m->items);
    free(m);
}

const struct ct_tui_class ct_tui_moments = {.name = "moments",
                                            .keys = "Enter in the timeline",
                                            .open = open_moments,
                                            .draw = draw,
                                            .key = on_key,
                                            .close = close_moments};
