/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of schema.h as data. */
#include "query/schema.h"

#define COLUMN(T, name, type, ask, ...) {#name, CT_COLUMN_##type, CT_ASK_##ask, __VA_ARGS__},
#define COLUMNS(id, name, text)         static const struct ct_column columns_##id[] = {CT_COLUMNS_##id(COLUMN, id)};
CT_TABLES(COLUMNS)
#undef COLUMNS
#undef COLUMN

static const struct ct_table_schema tables[] = {
#define TABLE(id, name, text) {name, text, columns_##id, sizeof columns_##id / sizeof *columns_##id},
    CT_TABLES(TABLE)
#undef TABLE
};

const struct ct_table_schema *ct_schema_table(enum ct_table_id table) {
    return &tables[table];
}

const char *ct_schema_type(enum ct_column_type type) {
    static const char *const names[] = {"INTEGER", "REAL", "TEXT"};
    return names[type];
}
