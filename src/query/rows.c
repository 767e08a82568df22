/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a trace: see rows.h. */
#include "query/rows.h"
#include <stdlib.h>

static const struct ct_rows_class *const classes[CT_TABLE_COUNT] = {
    [CT_TABLE_CALLS] = &ct_rows_calls,    [CT_TABLE_SUBTREE] = &ct_rows_calls,
    [CT_TABLE_EVENTS] = &ct_rows_events,  [CT_TABLE_ARGUMENTS] = &ct_rows_arguments,
    [CT_TABLE_SIGNALS] = &ct_rows_events, [CT_TABLE_STACK_AT] = &ct_rows_stack,
    [CT_TABLE_CALLERS] = &ct_rows_stack,
};

void ct_ask_all(struct ct_ask *ask) {
    *ask = (struct ct_ask){0};
    for (int i = 0; i < CT_ASK_RANGES; i++)
        ask->ranges[i] = (struct ct_ask_range){INT64_MIN, INT64_MAX};
}

int ct_rows_open(struct ct_rows **out, struct ct_source *source, enum ct_table_id table, const struct ct_ask *ask) {
    const struct ct_rows_class *class = classes[table] ? classes[table] : &ct_rows_list;
    struct ct_rows *rows = *out = calloc(1, class->size);
    if (!rows)
        return CT_ERR_NO_MEMORY;
    rows->class = class;
    rows->source = source;
    rows->table = table;
    int status = class->open(rows, ask);
    if (status) {
        ct_rows_close(rows);
        *out = NULL;
    }
    return status;
}

int ct_rows_next(struct ct_rows *rows) {
    int status = rows->class->next(rows);
    rows->source->rows += status > 0;
    return status;
}

void ct_rows_close(struct ct_rows *rows) {
    if (rows && rows->class->close)
        rows->class->close(rows);
    free(rows);
}
