/* SPDX-License-Identifier: Apache-2.0 */
/* What the views of the terminal share. */
#ifndef CT_TUI_TUI_INTERNAL_H
#define CT_TUI_TUI_INTERNAL_H

#include "query/query.h"
#include "tui/screen.h"
#include "tui/tui.h"

enum { CT_TUI_NAME = 160, CT_TUI_TOP = 2, CT_TUI_TIME = 32 };
enum ct_tui_view { CT_TUI_FUNCTIONS, CT_TUI_EDGES, CT_TUI_TREE, CT_TUI_TIMELINE, CT_TUI_MOMENTS, CT_TUI_VIEWS };

/* Where a list is. */
struct ct_tui_list {
    size_t count, at, top;
};

struct ct_tui {
    const struct ct_tui_options *options;
    struct ct_source *source;
    struct ct_query *query;
    enum ct_tui_view view;
    char message[256];
    char search[CT_TUI_NAME]; /* "": nothing is searched for */
    uint64_t began_ns;        /* of the question that runs */
    bool stop;                /* the user wants no answer to it */
    int pressed;              /* a key that came while the screen was drawn */
    int64_t from, to;         /* what is selected, counted from the beginning of the trace */
    void *views[CT_TUI_VIEWS];
};

/* How a view works. */
struct ct_tui_class {
    const char *name, *keys;         /* keys: what it knows besides the common ones */
    int (*open)(struct ct_tui *tui); /* makes views[...]; 0 or a status */
    void (*draw)(struct ct_tui *tui);
    bool (*key)(struct ct_tui *tui, int key); /* false: it does not know it */
    void (*close)(struct ct_tui *tui);
};
extern const struct ct_tui_class ct_tui_functions, ct_tui_edges, ct_tui_tree, ct_tui_timeline, ct_tui_moments;

/* ---- questions (ask.c) ---- */

/* Begins a question. False: it is wrong, and `message` says why. */
bool ct_tui_ask(struct ct_tui *tui, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True: there is a row. */
bool ct_tui_next(struct ct_tui *tui);
int64_t ct_tui_number(struct ct_tui *tui, int column); /* NULL: -1 */
/* Lives until the next row; NULL: "". */
const char *ct_tui_text(struct ct_tui *tui, int column);
/* A name as SQL writes it, in quotes; free it. NULL: out of memory. Names may be long: C++ has names of kilobytes. */
char *ct_tui_quote(const char *text);
/* Called while rows are read. Not 0: the user has pressed Escape or Ctrl-C. */
int ct_tui_poll(void *tui);

/* ---- lists (tui.c) ---- */

/* Rows of the screen that a list has. */
int ct_tui_rows(void);
/* Moves the list. False: the key moves nothing. */
bool ct_tui_move(struct ct_tui_list *list, int key);
/* The first row to be drawn, and the look of a row. */
void ct_tui_scroll(struct ct_tui_list *list);
unsigned ct_tui_look(const struct ct_tui_list *list, size_t row);
/* "" for times that are not known. */
const char *ct_tui_time(const struct ct_tui *tui, char buffer[CT_TUI_TIME], int64_t ns);
/* A moment to the nanosecond: 1.000000500. */
const char *ct_tui_moment(char buffer[CT_TUI_TIME], int64_t ns);
bool ct_tui_fits(const struct ct_tui *tui, const char *name); /* what is searched for is in it */

/* ---- from one view to another ---- */

void ct_tui_show_edges(struct ct_tui *tui, const char *function);
/* The function that is chosen in the first view; NULL: none. */
const char *ct_tui_chosen_function(const struct ct_tui *tui);
/* The call in the tree, with those around it. */
void ct_tui_show_call(struct ct_tui *tui, int64_t call);
/* The slowest call of a function. */
void ct_tui_show_slowest(struct ct_tui *tui, const char *function);
void ct_tui_show_moment(struct ct_tui *tui, int64_t thread, int64_t time);

#endif
