/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions that SQLite hands over, for rows.h. A condition that is not understood leaves nothing out: SQLite checks
 * every row itself. */
#include "query/query_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static int add_text(struct ct_condition *condition, sqlite3_value *value) {
    const char *text = (const char *)sqlite3_value_text(value);
    if (sqlite3_value_type(value) == SQLITE_NULL || !text)
        return SQLITE_OK; /* equal to nothing */
    char **grown = realloc(condition->texts, (condition->count + 1) * sizeof *grown);
    if (!grown)
        return SQLITE_NOMEM;
    condition->texts = grown;
    grown[condition->count] = strdup(text);
    return grown[condition->count] && ++condition->count ? SQLITE_OK : SQLITE_NOMEM;
}

int ct_conditions_add(struct ct_conditions *c, int op, sqlite3_value *value) {
    struct ct_condition *grown = realloc(c->items, (c->count + 1) * sizeof *grown);
    if (!grown)
        return SQLITE_NOMEM;
    c->items = grown;
    struct ct_condition *condition = &grown[c->count++];
    *condition = (struct ct_condition){.op = op};
    if (op != CT_CONDITION_IN)
        return add_text(condition, value);
    sqlite3_value *item;
    int code = sqlite3_vtab_in_first(value, &item);
    while (code == SQLITE_OK && item) {
        code = add_text(condition, item);
        if (code == SQLITE_OK)
            code = sqlite3_vtab_in_next(value, &item);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static bool fits_one(int op, const char *text, const char *name) {
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_GLOB:
        return sqlite3_strglob(text, name) == 0;
    case SQLITE_INDEX_CONSTRAINT_LIKE:
        return sqlite3_strlike(text, name, 0) == 0;
    default:
        return strcmp(text, name) == 0;
    }
}

bool ct_conditions_fit(void *arg, const char *name) {
    const struct ct_conditions *c = arg;
    for (size_t i = 0; i < c->count; i++) {
        bool fits = false;
        for (size_t k = 0; k < c->items[i].count && !fits; k++)
            fits = fits_one(c->items[i].op, c->items[i].texts[k], name);
        if (!fits)
            return false;
    }
    return true;
}

void ct_conditions_free(struct ct_conditions *c) {
    for (size_t i = 0; i < c->count; i++) {
        for (size_t k = 0; k < c->items[i].count; k++)
            free(c->items[i].texts[k]);
        free(c->items[i].texts);
    }
    free(c->items);
    *c = (struct ct_conditions){0};
}

/* ---- numbers ---- */

static void nothing(struct ct_ask_range *range) {
    *range = (struct ct_ask_range){1, 0};
}

static void at_least(struct ct_ask_range *range, int64_t value) {
    range->low = value > range->low ? value : range->low;
}

static void at_most(struct ct_ask_range *range, int64_t value) {
    range->high = value < range->high ? value : range->high;
}

static void narrow_whole(struct ct_ask_range *range, int op, int64_t value) {
    if (op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_GE)
        at_least(range, value);
    if (op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_LE)
        at_most(range, value);
    if (op == SQLITE_INDEX_CONSTRAINT_GT)
        value < INT64_MAX ? at_least(range, value + 1) : nothing(range);
    if (op == SQLITE_INDEX_CONSTRAINT_LT)
        value > INT64_MIN ? at_most(range, value - 1) : nothing(range);
}

/* x > 1.5 is x >= 2, and x < 1.5 is x <= 1. */
static void narrow_real(struct ct_ask_range *range, int op, double value) {
    const double most = 9e18; /* beyond that a double says nothing of single numbers */
    bool whole = value == floor(value);
    if (!(value > -most && value < most))
        return;
    if (whole)
        narrow_whole(range, op, (int64_t)value);
    else if (op == SQLITE_INDEX_CONSTRAINT_EQ)
        nothing(range);
    else if (op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE)
        at_least(range, (int64_t)ceil(value));
    else
        at_most(range, (int64_t)floor(value));
}

void ct_conditions_narrow(struct ct_ask_range *range, int op, sqlite3_value *value) {
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_NULL:
        return nothing(range);
    case SQLITE_INTEGER:
        return narrow_whole(range, op, sqlite3_value_int64(value));
    case SQLITE_FLOAT:
        return narrow_real(range, op, sqlite3_value_double(value));
    default: /* a text: SQLite compares it */
        return;
    }
}
