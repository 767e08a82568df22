/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of src/query that know SQLite. */
#ifndef CT_QUERY_QUERY_INTERNAL_H
#define CT_QUERY_QUERY_INTERNAL_H

#include "query/query.h"
#include <sqlite3.h>

struct ct_query {
    struct ct_query_setup setup;
    struct ct_source *sources[CT_QUERY_TRACES];
    sqlite3 *db;
    sqlite3_stmt *statement; /* NULL: none */
    bool connecting;         /* a table of ours is being declared, which SQLite does as if it were created */
};

/* The name of a trace's tables: "a", "b" ... */
const char *ct_query_schema_name(size_t source);

/* Registers the tables (vtab.c). Returns a SQLite code. */
int ct_vtab_register(struct ct_query *query);
/* Allows to read, and nothing else (authorize.c). `arg` is the query. */
int ct_query_authorize(void *arg, int action, const char *first, const char *second, const char *database,
                       const char *trigger);
/* Explains SQLite's message: the nearest name where one is wrong (explain.c). */
void ct_query_explain(sqlite3 *db, int code, const char *sql, struct ct_query_error *error);

/* ---- conditions on names (conditions.c) ---- */

enum { CT_CONDITION_IN = 1000 }; /* an operator of our own: one of a list */

struct ct_condition {
    int op;       /* SQLITE_INDEX_CONSTRAINT_..., or CT_CONDITION_IN */
    char **texts; /* one, or the list */
    size_t count;
};

struct ct_conditions {
    struct ct_condition *items;
    size_t count;
    bool none; /* nothing can fit */
};

/* Adds a condition. Returns a SQLite code. */
int ct_conditions_add(struct ct_conditions *conditions, int op, sqlite3_value *value);
/* For struct ct_ask_names. */
bool ct_conditions_fit(void *conditions, const char *name);
void ct_conditions_free(struct ct_conditions *conditions);
/* Narrows a range by a comparison with a value. */
void ct_conditions_narrow(struct ct_ask_range *range, int op, sqlite3_value *value);

#endif
