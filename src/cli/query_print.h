/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a query on the terminal or in a pipe: as a table, bars, CSV or JSON. A table's columns are as wide as its
 * first rows need; all other forms are written row by row. */
#ifndef CT_CLI_QUERY_PRINT_H
#define CT_CLI_QUERY_PRINT_H

#include "cli/printer.h"
#include "query/query.h"

/* The only list; the names are what the user types. */
#define CT_QUERY_FORM_LIST(X) X(TABLE, "table") X(CSV, "csv") X(JSON, "json") X(NDJSON, "ndjson") X(BAR, "bar")
enum ct_query_form {
#define CT_QUERY_FORM_ENUM(name, text) CT_QUERY_##name,
    CT_QUERY_FORM_LIST(CT_QUERY_FORM_ENUM)
#undef CT_QUERY_FORM_ENUM
};

struct ct_query_print {
    enum ct_query_form form;
    const struct ct_query *query;
    void (*before)(void *arg); /* called before the first output; may be NULL */
    void *arg;
    uint64_t rows;
    /* private */
    int columns;
    char **held;    /* texts of the first rows, row by row; NULL: NULL */
    bool *numbers;  /* by column: all held values are numbers */
    double *values; /* BAR: of held rows */
    size_t held_count, held_room;
    bool open, headed, failed;
    size_t *widths;
    struct ct_printer printer;
};

/* `query` has a statement that is ready. */
void ct_query_print_begin(struct ct_query_print *print, const struct ct_query *query, enum ct_query_form form);
/* Takes the current row. False: nobody wants more. */
bool ct_query_print_row(struct ct_query_print *print);
/* Prints what is held. Returns the exit code, as ct_printer_close. */
int ct_query_print_end(struct ct_query_print *print);

#endif
