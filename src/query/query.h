/* SPDX-License-Identifier: Apache-2.0 */
/* SQL over traces: SQLite with a table for each list of schema.h, read from the trace itself. Nothing is imported and
 * nothing can be written: only SELECT is allowed, and no statement reaches other files.
 *
 *   const char *rest = sql;
 *   while (ct_query_prepare(query, rest, &rest, &error) > 0) {
 *       while ((status = ct_query_step(query, &error)) > 0)
 *           ct_query_value(query, 0, &cell);
 *   }
 *
 * The tables of the first trace are a.calls and so on, those of the second b.calls; `calls` alone is that of the
 * first. One owner, one thread. */
#ifndef CT_QUERY_QUERY_H
#define CT_QUERY_QUERY_H

#include "query/rows.h"

enum { CT_QUERY_TRACES = 8 }; /* at most */

struct ct_query_setup {
    struct ct_source *const *sources; /* must live */
    size_t source_count;
    uint64_t memory; /* bytes that SQLite may use, of the whole process; 0: no limit */
    /* Called now and then while a statement runs: not 0 stops it. May be NULL. */
    int (*poll)(void *arg);
    void *poll_arg;
};

struct ct_query_error {
    bool stopped;   /* by `poll` */
    bool no_memory; /* the limit was reached */
    int at;         /* bytes of the statement before the mistake; -1: not known */
    char text[512]; /* a sentence */
};

struct ct_query;
int ct_query_open(struct ct_query **out, const struct ct_query_setup *setup);
void ct_query_close(struct ct_query *query);

/* Compiles the first statement of the text. 1: it is ready, 0: there is none, -1: *error says what is wrong. *rest
 * becomes what follows the statement. */
int ct_query_prepare(struct ct_query *query, const char *sql, const char **rest, struct ct_query_error *error);
/* 1: there is a row, 0: no more, -1: *error says what happened. */
int ct_query_step(struct ct_query *query, struct ct_query_error *error);
int ct_query_column_count(const struct ct_query *query);
const char *ct_query_column(const struct ct_query *query, int column);
/* A value of the row; texts live until the next step. */
void ct_query_value(const struct ct_query *query, int column, struct ct_cell *cell);

/* True when the text is one or more whole statements. */
bool ct_query_is_complete(const char *sql);

#endif
