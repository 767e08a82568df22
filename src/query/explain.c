/* SPDX-License-Identifier: Apache-2.0 */
/* Says what is wrong with a statement, and what was probably meant. */
#include "base/closest.h"
#include "query/query_internal.h"
#include <stdio.h>
#include <string.h>

/* Names that may have been meant: of tables, of functions, or of the columns of tables that the statement names. */
struct names {
    const char *items[512];
    size_t count;
};

static void add_name(struct names *names, const char *name) {
    if (names->count < sizeof names->items / sizeof *names->items)
        names->items[names->count++] = name;
}

static const char *name_at(const void *names, size_t i) {
    return ((const struct names *)names)->items[i];
}

static bool mentions(const char *sql, const char *table) {
    size_t length = strlen(table);
    for (; *sql; sql++)
        if (!sqlite3_strnicmp(sql, table, (int)length))
            return true;
    return false;
}

static void add_columns(struct names *names, const char *sql) {
    for (int i = 0; i < CT_TABLE_COUNT; i++) {
        const struct ct_table_schema *table = ct_schema_table((enum ct_table_id)i);
        for (int k = 0; mentions(sql, table->name) && k < table->column_count; k++)
            add_name(names, table->columns[k].name);
    }
}

static void add_tables(struct names *names) {
    for (int i = 0; i < CT_TABLE_COUNT; i++)
        add_name(names, ct_schema_table((enum ct_table_id)i)->name);
}

static void add_functions(struct names *names) {
    static const char *const known[] = {"abs",   "avg",     "coalesce", "count",      "group_concat", "iif",
                                        "instr", "length",  "lower",    "max",        "min",          "printf",
                                        "rank",  "replace", "round",    "row_number", "substr",       "sum",
                                        "total", "typeof",  "upper",    "wall",       "lag",          "lead"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        add_name(names, known[i]);
}

/* "no such column: c.durration" */
static const char *wrong_name(const char *message, const char *prefix) {
    size_t length = strlen(prefix);
    if (strncmp(message, prefix, length) != 0)
        return NULL;
    const char *dot = strrchr(message + length, '.');
    return dot ? dot + 1 : message + length;
}

static const char *suggest(const char *message, const char *sql, struct names *names) {
    const char *word = wrong_name(message, "no such column: ");
    if (word)
        add_columns(names, sql);
    if (!word && (word = wrong_name(message, "no such table: ")))
        add_tables(names);
    if (!word && (word = wrong_name(message, "no such function: ")))
        add_functions(names);
    return word ? ct_closest_name(word, name_at, names, names->count) : NULL;
}

void ct_query_explain(sqlite3 *db, int code, const char *sql, struct ct_query_error *error) {
    struct names names = {.count = 0};
    const char *message = sqlite3_errmsg(db);
    *error = (struct ct_query_error){.at = sqlite3_error_offset(db)};
    error->stopped = (code & 0xff) == SQLITE_INTERRUPT;
    error->no_memory = (code & 0xff) == SQLITE_NOMEM;
    if ((code & 0xff) == SQLITE_AUTH) {
        snprintf(error->text, sizeof error->text,
                 "%s: a trace can only be read, by SELECT; use WITH instead of temporary tables", message);
        return;
    }
    const char *close = suggest(message, sql, &names);
    bool wrong = !strncmp(message, "no such ", 8);
    snprintf(error->text, sizeof error->text, "%s%s%s%s", message, close ? "; did you mean " : "", close ? close : "",
             close   ? "?"
             : wrong ? "; .schema lists tables and columns"
                     : "");
}
