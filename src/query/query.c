/* SPDX-License-Identifier: Apache-2.0 */
/* SQL over traces: see query.h. */
#include "query/query_internal.h"
#include <stdlib.h>

enum { STEPS_BETWEEN_POLLS = 20000 }; /* of SQLite's machine: about a millisecond */

const char *ct_query_schema_name(size_t source) {
    static const char *const names[CT_QUERY_TRACES] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    return names[source];
}

static int on_progress(void *arg) {
    const struct ct_query *query = arg;
    return query->setup.poll(query->setup.poll_arg);
}

/* ---- functions ---- */

/* wall(time): date and time, where the trace knows them. */
static void wall_function(sqlite3_context *context, int count, sqlite3_value **values) {
    struct ct_query *query = sqlite3_user_data(context);
    char text[CT_WALL_TEXT] = "";
    const struct ct_wall *wall = ct_source_wall(query->sources[0]);
    if (count != 1 || !wall || !wall->count || sqlite3_value_numeric_type(values[0]) == SQLITE_NULL)
        return;
    ct_wall_text(wall, query->sources[0]->start_ns + (uint64_t)sqlite3_value_int64(values[0]), text);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* ---- opening ---- */

/* SQLite makes these tables when they are first named, by a declaration that later looks like a statement's own. */
static void make_builtin_tables(sqlite3 *db) {
    static const char *const names[] = {"json_each",          "json_tree",         "pragma_table_info",
                                        "pragma_table_xinfo", "pragma_table_list", "pragma_function_list"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sqlite3_stmt *statement = NULL;
        char *sql = sqlite3_mprintf("SELECT 1 FROM %s", names[i]);
        if (sql && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK)
            sqlite3_finalize(statement);
        sqlite3_free(sql);
    }
}

static int prepare_database(struct ct_query *query) {
    int code = sqlite3_open_v2(":memory:", &query->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL);
    if (code == SQLITE_OK && query->setup.memory)
        sqlite3_hard_heap_limit64((sqlite3_int64)query->setup.memory);
    if (code == SQLITE_OK)
        code = ct_vtab_register(query);
    if (code == SQLITE_OK)
        code = sqlite3_create_function(query->db, "wall", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, query, wall_function,
                                       NULL, NULL);
    if (code != SQLITE_OK)
        return code;
    make_builtin_tables(query->db);
    sqlite3_db_config(query->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(query->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_limit(query->db, SQLITE_LIMIT_ATTACHED, 0);
    if (query->setup.poll)
        sqlite3_progress_handler(query->db, STEPS_BETWEEN_POLLS, on_progress, query);
    return sqlite3_set_authorizer(query->db, ct_query_authorize, query);
}

int ct_query_open(struct ct_query **out, const struct ct_query_setup *setup) {
    struct ct_query *query = *out = NULL;
    if (!setup->source_count || setup->source_count > CT_QUERY_TRACES)
        return CT_ERR_INVALID_ARGUMENT;
    query = calloc(1, sizeof *query);
    if (!query)
        return CT_ERR_NO_MEMORY;
    query->setup = *setup;
    for (size_t i = 0; i < setup->source_count; i++)
        query->sources[i] = setup->sources[i];
    int code = prepare_database(query);
    if (code != SQLITE_OK) {
        ct_query_close(query);
        return code == SQLITE_NOMEM ? CT_ERR_NO_MEMORY : CT_ERR_INIT_FAILED;
    }
    *out = query;
    return 0;
}

void ct_query_close(struct ct_query *query) {
    if (!query)
        return;
    sqlite3_finalize(query->statement);
    sqlite3_close(query->db);
    free(query);
}

/* ---- statements ---- */

int ct_query_prepare(struct ct_query *query, const char *sql, const char **rest, struct ct_query_error *error) {
    const char *next = sql;
    sqlite3_finalize(query->statement);
    query->statement = NULL;
    int code = SQLITE_OK;
    while (code == SQLITE_OK && !query->statement && *next) { /* comments are no statements */
        sql = next;
        code = sqlite3_prepare_v2(query->db, sql, -1, &query->statement, &next);
    }
    *rest = next;
    if (code == SQLITE_OK)
        return query->statement != NULL;
    ct_query_explain(query->db, code, sql, error);
    return -1;
}

int ct_query_step(struct ct_query *query, struct ct_query_error *error) {
    int code = sqlite3_step(query->statement);
    if (code == SQLITE_ROW)
        return 1;
    if (code == SQLITE_DONE)
        return 0;
    ct_query_explain(query->db, code, sqlite3_sql(query->statement), error);
    return -1;
}

int ct_query_column_count(const struct ct_query *query) {
    return sqlite3_column_count(query->statement);
}

const char *ct_query_column(const struct ct_query *query, int column) {
    const char *name = sqlite3_column_name(query->statement, column);
    return name ? name : "";
}

void ct_query_value(const struct ct_query *query, int column, struct ct_cell *cell) {
    *cell = (struct ct_cell){.type = CT_CELL_NULL};
    switch (sqlite3_column_type(query->statement, column)) {
    case SQLITE_INTEGER:
        return ct_cell_integer(cell, sqlite3_column_int64(query->statement, column));
    case SQLITE_FLOAT:
        cell->type = CT_CELL_REAL;
        cell->real = sqlite3_column_double(query->statement, column);
        return;
    case SQLITE_NULL:
        return;
    default: {
        const char *text = (const char *)sqlite3_column_text(query->statement, column);
        cell->type = text ? CT_CELL_TEXT : CT_CELL_NULL;
        cell->text = text;
    }
    }
}

bool ct_query_is_complete(const char *sql) {
    return sqlite3_complete(sql) != 0;
}
