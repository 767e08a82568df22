/* SPDX-License-Identifier: Apache-2.0 */
/* What a statement may do: read. No statement writes, attaches files, loads code or changes settings. */
#include "query/query_internal.h"
#include <string.h>

/* Pragmas that only describe. */
static bool describes(const char *pragma) {
    static const char *const names[] = {"table_info",    "table_xinfo",     "table_list", "database_list",
                                        "function_list", "compile_options", NULL};
    for (size_t i = 0; names[i]; i++)
        if (pragma && !sqlite3_stricmp(pragma, names[i]))
            return true;
    return false;
}

static bool is_harmless(const char *function) {
    return function && sqlite3_stricmp(function, "load_extension") != 0 &&
           sqlite3_stricmp(function, "fts3_tokenizer") != 0;
}

int ct_query_authorize(void *arg, int action, const char *first, const char *second, const char *database,
                       const char *trigger) {
    const struct ct_query *query = arg;
    (void)database, (void)trigger;
    if (query->connecting)
        return SQLITE_OK;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return is_harmless(second) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_PRAGMA:
        return describes(first) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}
