/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of schema.h as virtual tables of SQLite. What SQLite knows of a question (xBestIndex) goes to the readers
 * of rows.h as conditions.
 *
 * The plan of a question is a text: for each value that SQLite will pass, "COLUMN OPERATOR;". */
#include "query/query_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
    sqlite3_vtab base;
    struct ct_source *source;
    enum ct_table_id id;
    const struct ct_table_schema *schema;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct ct_rows *rows;
    bool over;
    struct ct_conditions functions, modules;
    char *text;
};

enum { ROWID = -1, OP_LONGEST = 1001 };

/* ---- tables ---- */

static bool find_table(const char *name, enum ct_table_id *id) {
    for (int i = 0; i < CT_TABLE_COUNT; i++)
        if (!strcmp(ct_schema_table((enum ct_table_id)i)->name, name)) {
            *id = (enum ct_table_id)i;
            return true;
        }
    return false;
}

static char *declaration(const struct ct_table_schema *schema) {
    sqlite3_str *text = sqlite3_str_new(NULL);
    sqlite3_str_appendf(text, "CREATE TABLE x(");
    for (int i = 0; i < schema->column_count; i++) {
        const struct ct_column *column = &schema->columns[i];
        bool hidden = column->flags & (CT_COLUMN_HIDDEN | CT_COLUMN_ARGUMENT);
        sqlite3_str_appendf(text, "%s\"%w\" %s%s", i ? ", " : "", column->name, ct_schema_type(column->type),
                            hidden ? " HIDDEN" : "");
    }
    sqlite3_str_appendf(text, ")");
    return sqlite3_str_finish(text);
}

static struct ct_source *source_of(const struct ct_query *query, const char *schema) {
    for (size_t i = 0; i < query->setup.source_count; i++)
        if (!strcmp(ct_query_schema_name(i), schema))
            return query->sources[i];
    return NULL;
}

/* argv: module, database, table. */
static int connect_table(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **out, char **error) {
    struct ct_query *query = arg;
    struct table *table = calloc(1, sizeof *table);
    (void)error;
    if (!table)
        return SQLITE_NOMEM;
    table->source = argc >= 3 ? source_of(query, argv[1]) : NULL;
    if (!table->source || !find_table(argv[2], &table->id)) {
        free(table);
        return SQLITE_ERROR;
    }
    table->schema = ct_schema_table(table->id);
    char *text = declaration(table->schema);
    query->connecting = true;
    int code = text ? sqlite3_declare_vtab(db, text) : SQLITE_NOMEM;
    query->connecting = false;
    sqlite3_free(text);
    if (code)
        free(table);
    else
        *out = &table->base;
    return code;
}

static int disconnect_table(sqlite3_vtab *table) {
    free(table);
    return SQLITE_OK;
}

/* ---- plans ---- */

static enum ct_ask_field field_of(const struct table *table, int column) {
    if (column == ROWID) /* of tables with ids, it is that */
        return table->schema->columns[0].ask == CT_ASK_ID ? CT_ASK_ID : CT_ASK_NONE;
    return table->schema->columns[column].ask;
}

static bool is_argument(const struct table *table, int column) {
    return column != ROWID && table->schema->columns[column].flags & CT_COLUMN_ARGUMENT;
}

/* The operator to use for a condition; 0: we cannot use it. */
static int usable_op(const struct table *table, sqlite3_index_info *info, int i) {
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    enum ct_ask_field field = field_of(table, c->iColumn);
    bool equal = c->op == SQLITE_INDEX_CONSTRAINT_EQ;
    if (field < CT_ASK_RANGES)
        return equal || c->op == SQLITE_INDEX_CONSTRAINT_GT || c->op == SQLITE_INDEX_CONSTRAINT_GE ||
                       c->op == SQLITE_INDEX_CONSTRAINT_LT || c->op == SQLITE_INDEX_CONSTRAINT_LE
                   ? c->op
                   : 0;
    if (field == CT_ASK_NONE)
        return 0;
    if (c->op == SQLITE_INDEX_CONSTRAINT_GLOB || c->op == SQLITE_INDEX_CONSTRAINT_LIKE)
        return field == CT_ASK_TEXT ? 0 : c->op;
    if (!equal || strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
        return 0;
    return field != CT_ASK_TEXT && sqlite3_vtab_in(info, i, 1) ? CT_CONDITION_IN : c->op;
}

/* The part of the rows that is left by a condition, as a guess. */
static double part_of(enum ct_ask_field field, int op) {
    bool equal = op == SQLITE_INDEX_CONSTRAINT_EQ;
    switch (field) {
    case CT_ASK_ID:
        return equal ? 1e-7 : 0.3;
    case CT_ASK_PARENT:
        return equal ? 1e-5 : 1;
    case CT_ASK_TIME:
    case CT_ASK_DURATION:
        return equal ? 1e-6 : 0.1;
    case CT_ASK_FUNCTION:
        return 0.01;
    case CT_ASK_FIRST:
    case CT_ASK_SECOND:
        return 1e-3;
    default:
        return equal ? 0.1 : 0.5;
    }
}

static double rows_of(const struct table *table) {
    uint64_t events = 0;
    for (size_t i = 0; i < ct_trace_thread_count(table->source->trace); i++)
        events += ct_trace_thread_at(table->source->trace, i)->event_count;
    switch (table->id) {
    case CT_TABLE_CALLS:
    case CT_TABLE_SUBTREE:
        return (double)events / 2 + 1;
    case CT_TABLE_EVENTS:
    case CT_TABLE_SIGNALS:
        return (double)events + 1;
    default:
        return 1000;
    }
}

/* ORDER BY duration DESC LIMIT n, and nothing else: only the longest calls are needed. SQLite sorts and limits. */
static int use_limit(const struct table *table, sqlite3_index_info *info, sqlite3_str *plan) {
    int limit = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        bool is_limit = info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_LIMIT;
        if (!is_limit || !info->aConstraint[i].usable)
            return 0;
        limit = i;
    }
    if (limit < 0 || table->id != CT_TABLE_CALLS || info->nOrderBy != 1 || !info->aOrderBy[0].desc ||
        info->aOrderBy[0].iColumn != CT_CALLS_duration)
        return 0;
    info->aConstraintUsage[limit].argvIndex = 1;
    sqlite3_str_appendf(plan, "%d %d;", CT_CALLS_duration, OP_LONGEST);
    return 1;
}

static int needs_arguments(const struct table *table, const bool *given, sqlite3_vtab *base) {
    for (int i = 0; i < table->schema->column_count; i++)
        if (is_argument(table, i) && !given[i]) {
            sqlite3_free(base->zErrMsg);
            base->zErrMsg =
                sqlite3_mprintf("%s needs its arguments in parentheses: %s", table->schema->name, table->schema->text);
            return SQLITE_ERROR;
        }
    return SQLITE_OK;
}

static int choose_plan(sqlite3_vtab *base, sqlite3_index_info *info) {
    struct table *table = (struct table *)base;
    bool given[64] = {0};
    double rows = rows_of(table);
    sqlite3_str *plan = sqlite3_str_new(NULL);
    int values = use_limit(table, info, plan);
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        if (c->op == SQLITE_INDEX_CONSTRAINT_LIMIT || c->op == SQLITE_INDEX_CONSTRAINT_OFFSET)
            continue;
        bool argument = is_argument(table, c->iColumn);
        if (!c->usable && argument) {
            sqlite3_free(sqlite3_str_finish(plan));
            return SQLITE_CONSTRAINT;
        }
        int op = c->usable ? usable_op(table, info, i) : 0;
        if (!op)
            continue;
        info->aConstraintUsage[i].argvIndex = ++values;
        info->aConstraintUsage[i].omit = argument;
        sqlite3_str_appendf(plan, "%d %d;", c->iColumn, op);
        rows *= part_of(field_of(table, c->iColumn), op);
        if (c->iColumn != ROWID)
            given[c->iColumn] = true;
    }
    info->idxStr = sqlite3_str_finish(plan);
    info->needToFreeIdxStr = 1;
    info->estimatedRows = (sqlite3_int64)rows + 1;
    info->estimatedCost = rows + 100; /* what one more look costs */
    return needs_arguments(table, given, base);
}

/* ---- cursors ---- */

static int open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out) {
    (void)table;
    struct cursor *cursor = calloc(1, sizeof *cursor);
    *out = cursor ? &cursor->base : NULL;
    return cursor ? SQLITE_OK : SQLITE_NOMEM;
}

static void reset_cursor(struct cursor *cursor) {
    ct_rows_close(cursor->rows);
    cursor->rows = NULL;
    ct_conditions_free(&cursor->functions);
    ct_conditions_free(&cursor->modules);
    free(cursor->text);
    cursor->text = NULL;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
    struct cursor *cursor = (struct cursor *)base;
    reset_cursor(cursor);
    free(cursor);
    return SQLITE_OK;
}

static int fail(struct cursor *cursor, int status) {
    sqlite3_vtab *table = cursor->base.pVtab;
    if (status == CT_ERR_TIMEOUT)
        return SQLITE_INTERRUPT;
    if (status == CT_ERR_NO_MEMORY)
        return SQLITE_NOMEM;
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = sqlite3_mprintf("%s", ct_status_text(status));
    return SQLITE_ERROR;
}

static int next_row(sqlite3_vtab_cursor *base) {
    struct cursor *cursor = (struct cursor *)base;
    int status = ct_rows_next(cursor->rows);
    cursor->over = status <= 0;
    return status < 0 ? fail(cursor, status) : SQLITE_OK;
}

static int take_value(struct cursor *cursor, enum ct_ask_field field, int op, sqlite3_value *value,
                      struct ct_ask *ask) {
    const char *text;
    if (op == OP_LONGEST) {
        sqlite3_int64 limit = sqlite3_value_int64(value);
        ask->longest = limit > 0 && limit < 1000000 ? (uint64_t)limit : 0;
        return SQLITE_OK;
    }
    switch (field) {
    case CT_ASK_FUNCTION:
        ask->functions = (struct ct_ask_names){ct_conditions_fit, &cursor->functions};
        return ct_conditions_add(&cursor->functions, op, value);
    case CT_ASK_MODULE:
        ask->modules = (struct ct_ask_names){ct_conditions_fit, &cursor->modules};
        return ct_conditions_add(&cursor->modules, op, value);
    case CT_ASK_TEXT:
        text = (const char *)sqlite3_value_text(value);
        free(cursor->text);
        ask->text = cursor->text = strdup(text ? text : "");
        return cursor->text ? SQLITE_OK : SQLITE_NOMEM;
    default:
        ct_conditions_narrow(&ask->ranges[field], op, value);
        return SQLITE_OK;
    }
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    struct cursor *cursor = (struct cursor *)base;
    struct table *table = (struct table *)base->pVtab;
    struct ct_ask ask;
    int code = SQLITE_OK, column, op, length;
    (void)number;
    reset_cursor(cursor);
    ct_ask_all(&ask);
    for (int i = 0; i < argc && code == SQLITE_OK; i++) {
        if (sscanf(plan, "%d %d;%n", &column, &op, &length) != 2)
            return SQLITE_ERROR;
        plan += length;
        code = take_value(cursor, field_of(table, column), op, argv[i], &ask);
    }
    if (code != SQLITE_OK)
        return code;
    int status = ct_rows_open(&cursor->rows, table->source, table->id, &ask);
    return status ? fail(cursor, status) : next_row(base);
}

static int is_over(sqlite3_vtab_cursor *base) {
    return ((struct cursor *)base)->over;
}

static int get_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
    struct ct_cell cell;
    ct_rows_cell(((struct cursor *)base)->rows, column, &cell);
    switch (cell.type) {
    case CT_CELL_INTEGER:
        sqlite3_result_int64(context, cell.integer);
        break;
    case CT_CELL_REAL:
        sqlite3_result_double(context, cell.real);
        break;
    case CT_CELL_TEXT:
        sqlite3_result_text(context, cell.text, -1, cell.lasts ? SQLITE_STATIC : SQLITE_TRANSIENT);
        break;
    default:
        break; /* NULL */
    }
    return SQLITE_OK;
}

static int get_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id) {
    *id = ((struct cursor *)base)->rows->id;
    return SQLITE_OK;
}

/* ---- all of them ---- */

static const sqlite3_module module = {
    .iVersion = 1,
    .xCreate = connect_table,
    .xConnect = connect_table,
    .xBestIndex = choose_plan,
    .xDisconnect = disconnect_table,
    .xDestroy = disconnect_table,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next_row,
    .xEof = is_over,
    .xColumn = get_column,
    .xRowid = get_rowid,
};

static int create_table(struct ct_query *query, size_t source, int table) {
    char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE \"%w\".\"%w\" USING contrail", ct_query_schema_name(source),
                                ct_schema_table((enum ct_table_id)table)->name);
    int code = sql ? sqlite3_exec(query->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code;
}

int ct_vtab_register(struct ct_query *query) {
    int code = sqlite3_create_module(query->db, "contrail", &module, query);
    for (size_t i = 0; i < query->setup.source_count && code == SQLITE_OK; i++) {
        char *sql = sqlite3_mprintf("ATTACH ':memory:' AS \"%w\"", ct_query_schema_name(i));
        code = sql ? sqlite3_exec(query->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
        for (int k = 0; k < CT_TABLE_COUNT && code == SQLITE_OK; k++)
            code = create_table(query, i, k);
    }
    return code;
}
