/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a report: names, filters, order, limit. */
#include "report/functions.h"
#include <stdlib.h>
#include <string.h>

static int name_rows(struct ct_report *r) {
    for (size_t i = 0; i < r->row_count; i++) {
        struct ct_report_row *row = &r->rows[i];
        const struct ct_cached_function *known = ct_function_cache_get(&r->names, row->process, row->function);
        if (!known)
            return CT_ERR_NO_MEMORY;
        row->name = known->name;
        row->module = known->module;
        row->known = known->function;
    }
    return 0;
}

/* ---- filters and order ---- */

static void add_self(struct ct_report *r) {
    for (size_t i = 0; i < r->row_count; i++)
        r->self_ns += r->rows[i].self_ns;
}

static void release_row(struct ct_report_row *row) {
    if (row->times)
        ct_histogram_free(row->times);
    free(row->times);
}

static void filter_rows(struct ct_report *r, const struct ct_report_options *options) {
    size_t kept = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        struct ct_report_row *row = &r->rows[i];
        const struct ct_cached_function *known = ct_function_cache_get(&r->names, row->process, row->function);
        if (row->calls >= options->min_calls && known->function_fits && known->module_fits)
            r->rows[kept++] = *row;
        else
            release_row(row);
    }
    r->row_count = kept;
}

static uint64_t key_of(const struct ct_report_row *row, enum ct_report_sort sort) {
    switch (sort) {
    case CT_REPORT_BY_TOTAL:
        return row->total_ns;
    case CT_REPORT_BY_SELF:
        return row->self_ns;
    case CT_REPORT_BY_CALLS:
        return row->calls;
    case CT_REPORT_BY_AVG:
        return row->avg_ns;
    case CT_REPORT_BY_MAX:
        return row->max_ns;
    case CT_REPORT_BY_P50:
        return row->p50_ns;
    case CT_REPORT_BY_P95:
        return row->p95_ns;
    case CT_REPORT_BY_P99:
        return row->p99_ns;
    case CT_REPORT_BY_CPU:
        return row->cpu_ns;
    case CT_REPORT_BY_BLOCKED:
        return row->blocked_ns;
    case CT_REPORT_BY_PREEMPTED:
        return row->preempted_ns;
    case CT_REPORT_BY_NAME:
        break;
    }
    return 0;
}

/* Breaks ties by calls, then by name, so that the order is the same every time. */
static int compare_rows(const void *a, const void *b, void *arg) {
    const struct ct_report_row *x = a, *y = b;
    enum ct_report_sort sort = *(const enum ct_report_sort *)arg;
    uint64_t kx = key_of(x, sort), ky = key_of(y, sort);
    if (kx != ky)
        return kx < ky ? 1 : -1;
    if (sort != CT_REPORT_BY_NAME && x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    int order = strcmp(x->name, y->name);
    if (!order)
        order = strcmp(x->module, y->module);
    if (order)
        return order;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

int ct_report_arrange(struct ct_report *r, const struct ct_trace *trace, const struct ct_report_options *options) {
    r->names = (struct ct_function_cache){.trace = trace, .select = &options->select};
    int status = name_rows(r);
    if (status)
        return status;
    add_self(r);
    filter_rows(r, options);
    enum ct_report_sort sort = options->sort;
    if (r->row_count)
        qsort_r(r->rows, r->row_count, sizeof *r->rows, compare_rows, &sort);
    r->matched = r->row_count;
    while (options->limit && r->row_count > options->limit)
        release_row(&r->rows[--r->row_count]);
    return 0;
}

void ct_report_free(struct ct_report *r) {
    if (!r)
        return;
    ct_function_cache_free(&r->names);
    ct_left_out_free(&r->left_out);
    for (size_t i = 0; i < r->row_count; i++)
        release_row(&r->rows[i]);
    free(r->rows);
    free(r);
}
