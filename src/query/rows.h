/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a trace, one after the other, for any engine that asks: no SQL is known here.
 *
 *   ct_rows_open(&rows, source, CT_TABLE_CALLS, &ask);
 *   while ((status = ct_rows_next(rows)) > 0)
 *       ct_rows_cell(rows, CT_CALLS_duration, &cell);
 *   ct_rows_close(rows);
 *
 * Conditions only leave rows out: the engine checks each row again. Rows of threads come thread by thread, calls in the
 * order of their ends. One owner. */
#ifndef CT_QUERY_ROWS_H
#define CT_QUERY_ROWS_H

#include "query/schema.h"
#include "query/source.h"

enum ct_cell_type { CT_CELL_NULL, CT_CELL_INTEGER, CT_CELL_REAL, CT_CELL_TEXT };

struct ct_cell {
    enum ct_cell_type type;
    bool lasts; /* TEXT: lives as long as the source; otherwise until the next cell or row */
    union {
        int64_t integer;
        double real;
        const char *text;
    };
};

/* Both included. */
struct ct_ask_range {
    int64_t low, high;
};

/* Which names fit. */
struct ct_ask_names {
    bool (*fit)(void *arg, const char *name); /* NULL: all */
    void *arg;
};

struct ct_ask {
    struct ct_ask_range ranges[CT_ASK_RANGES];
    struct ct_ask_names functions, modules;
    const char *text; /* CT_ASK_TEXT */
    uint64_t longest; /* only this many calls are needed, the longest; 0: all that fit. Not with other conditions */
};

/* No condition. */
void ct_ask_all(struct ct_ask *ask);
/* True when the condition leaves something out. */
static inline bool ct_ask_is_given(const struct ct_ask *ask, enum ct_ask_field field) {
    return ask->ranges[field].low != INT64_MIN || ask->ranges[field].high != INT64_MAX;
}
static inline bool ct_ask_fits(const struct ct_ask *ask, enum ct_ask_field field, int64_t value) {
    return value >= ask->ranges[field].low && value <= ask->ranges[field].high;
}

struct ct_rows;

/* How the rows of a table are read. */
struct ct_rows_class {
    size_t size; /* of the structure that begins with struct ct_rows */
    int (*open)(struct ct_rows *rows, const struct ct_ask *ask);
    int (*next)(struct ct_rows *rows); /* as ct_rows_next */
    void (*cell)(struct ct_rows *rows, int column, struct ct_cell *cell);
    void (*close)(struct ct_rows *rows); /* also after a failed open; NULL: nothing to do */
};

struct ct_rows {
    const struct ct_rows_class *class;
    struct ct_source *source;
    enum ct_table_id table;
    int64_t id; /* of the row: no two rows have the same */
};

int ct_rows_open(struct ct_rows **out, struct ct_source *source, enum ct_table_id table, const struct ct_ask *ask);
/* 1: there is a row, 0: no more, or a negative status. */
int ct_rows_next(struct ct_rows *rows);
static inline void ct_rows_cell(struct ct_rows *rows, int column, struct ct_cell *cell) {
    rows->class->cell(rows, column, cell);
}
void ct_rows_close(struct ct_rows *rows);

extern const struct ct_rows_class ct_rows_arguments; /* arguments.c */
extern const struct ct_rows_class ct_rows_calls;     /* calls_rows.c */
extern const struct ct_rows_class ct_rows_events;    /* events.c */
extern const struct ct_rows_class ct_rows_stack;     /* stacks.c */
extern const struct ct_rows_class ct_rows_list;      /* lists.c: all other tables */

/* ---- values ---- */

static inline void ct_cell_integer(struct ct_cell *cell, int64_t value) {
    cell->type = CT_CELL_INTEGER;
    cell->integer = value;
}
/* A text that lives as long as the source. */
static inline void ct_cell_text(struct ct_cell *cell, const char *text) {
    cell->type = CT_CELL_TEXT;
    cell->lasts = true;
    cell->text = text;
}
/* A text where "" means that it is not known. */
static inline void ct_cell_known(struct ct_cell *cell, const char *text) {
    if (text && *text)
        ct_cell_text(cell, text);
}

#endif
