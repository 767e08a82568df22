/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of two traces side by side: both reports are sorted by name and merged. */
#include "report/diff.h"
#include "base/json_write.h"
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static void add_values(struct ct_diff_values *into, const struct ct_report_row *row) {
    into->calls += row->calls;
    into->timed += row->timed;
    into->total_ns += row->total_ns;
    into->self_ns += row->self_ns;
}

static int compare_names(const struct ct_report_row *x, const struct ct_report_row *y) {
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

/* Takes the next function by name, from one list or both. */
static struct ct_diff_row take_row(const struct ct_diff *d, size_t at[CT_DIFF_SIDES]) {
    const struct ct_report_row *first = NULL;
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        const struct ct_report *r = d->reports[s];
        if (at[s] < r->row_count && (!first || compare_names(&r->rows[at[s]], first) < 0))
            first = &r->rows[at[s]];
    }
    struct ct_diff_row row = {.name = first->name, .module = first->module};
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        const struct ct_report *r = d->reports[s];
        for (; at[s] < r->row_count && !compare_names(&r->rows[at[s]], first); at[s]++)
            add_values(&row.side[s], &r->rows[at[s]]);
    }
    return row;
}

static uint64_t value_of(const struct ct_diff_values *v, enum ct_diff_sort sort) {
    return sort == CT_DIFF_BY_CALLS ? v->calls : sort == CT_DIFF_BY_TOTAL ? v->total_ns : v->self_ns;
}

static uint64_t change_of(const struct ct_diff_row *row, enum ct_diff_sort sort) {
    uint64_t a = value_of(&row->side[CT_DIFF_A], sort), b = value_of(&row->side[CT_DIFF_B], sort);
    return a < b ? b - a : a - b;
}

static bool is_wanted(const struct ct_diff_row *row, const struct ct_diff_options *o) {
    const struct ct_diff_values *a = &row->side[CT_DIFF_A], *b = &row->side[CT_DIFF_B];
    if (!a->calls != !b->calls)
        return true;
    if (a->calls == b->calls && a->total_ns == b->total_ns && a->self_ns == b->self_ns)
        return false;
    return (double)change_of(row, o->sort) * 100 >= (double)value_of(a, o->sort) * (double)o->min_change;
}

static void count_row(struct ct_diff *d, const struct ct_diff_row *row) {
    if (!row->side[CT_DIFF_A].calls)
        d->added++;
    else if (!row->side[CT_DIFF_B].calls)
        d->gone++;
    else
        d->changed++;
}

/* Breaks ties by calls, then by name, so that the order is the same every time. */
static int compare_rows(const void *a, const void *b, void *arg) {
    const struct ct_diff_row *x = a, *y = b;
    enum ct_diff_sort sort = *(const enum ct_diff_sort *)arg;
    const enum ct_diff_sort keys[] = {sort, CT_DIFF_BY_CALLS};
    for (size_t i = 0; i < 2 && sort != CT_DIFF_BY_NAME; i++) {
        uint64_t kx = change_of(x, keys[i]), ky = change_of(y, keys[i]);
        if (kx != ky)
            return kx < ky ? 1 : -1;
    }
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

static int make_rows(struct ct_diff *d, const struct ct_diff_options *options) {
    size_t at[CT_DIFF_SIDES] = {0};
    const struct ct_report *a = d->reports[CT_DIFF_A], *b = d->reports[CT_DIFF_B];
    d->rows = calloc(a->row_count + b->row_count + 1, sizeof *d->rows);
    if (!d->rows)
        return CT_ERR_NO_MEMORY;
    while (at[CT_DIFF_A] < a->row_count || at[CT_DIFF_B] < b->row_count) {
        struct ct_diff_row row = take_row(d, at);
        if (!row.side[CT_DIFF_A].calls && !row.side[CT_DIFF_B].calls)
            continue; /* only ends were seen */
        if (!is_wanted(&row, options)) {
            d->unchanged++;
            continue;
        }
        count_row(d, &row);
        d->rows[d->row_count++] = row;
    }
    enum ct_diff_sort sort = options->sort;
    if (d->row_count)
        qsort_r(d->rows, d->row_count, sizeof *d->rows, compare_rows, &sort);
    d->matched = d->row_count;
    if (options->limit && d->row_count > options->limit)
        d->row_count = options->limit;
    return 0;
}

int ct_diff_make(struct ct_diff **out, struct ct_trace *const traces[CT_DIFF_SIDES],
                 const struct ct_diff_options *options) {
    struct ct_diff *d = calloc(1, sizeof *d);
    int status = d ? 0 : CT_ERR_NO_MEMORY;
    for (int s = 0; s < CT_DIFF_SIDES && !status; s++) {
        const struct ct_report_options by_name = {
            .select = options->select[s], .sort = CT_REPORT_BY_NAME, .directories = options->directories};
        d->names[s] = (struct ct_function_cache){.trace = traces[s], .select = &options->select[s]};
        status = ct_report_make(&d->reports[s], traces[s], &by_name);
    }
    if (!status)
        status = make_rows(d, options);
    if (!status)
        status = ct_diff_paths(d, traces, options);
    if (status) {
        ct_diff_free(d);
        return status;
    }
    *out = d;
    return 0;
}

void ct_diff_free(struct ct_diff *d) {
    if (!d)
        return;
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        ct_report_free(d->reports[s]);
        ct_function_cache_free(&d->names[s]);
        free(d->path.next[s]);
    }
    free(d->path.stack);
    free(d->rows);
    free(d);
}

/* ---- JSON ---- */

static const char *const side_keys[CT_DIFF_SIDES] = {"a", "b"};

static void row_json(const struct ct_diff_row *row, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "name", row->name);
    ct_json_string(json, "module", row->module);
    ct_json_string(json, "state",
                   !row->side[CT_DIFF_A].calls   ? "new"
                   : !row->side[CT_DIFF_B].calls ? "gone"
                                                 : "changed");
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        const struct ct_diff_values *v = &row->side[s];
        if (!v->calls)
            continue;
        ct_json_begin(json, side_keys[s], '{');
        ct_json_number(json, "calls", v->calls);
        if (v->timed) {
            ct_json_number(json, "total_ns", v->total_ns);
            ct_json_number(json, "self_ns", v->self_ns);
        }
        ct_json_end(json, '}');
    }
    ct_json_end(json, '}');
}

static void calls_json(const char *key, const struct ct_diff_call *calls, size_t count, struct ct_json *json) {
    ct_json_begin(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "name", calls[i].known->name);
        ct_json_string(json, "module", calls[i].known->module);
        ct_json_number(json, "depth", calls[i].depth);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void path_json(const struct ct_diff_path *path, struct ct_json *json) {
    if (!path->compared)
        return;
    ct_json_begin(json, "path", '{');
    ct_json_number(json, "common_calls", path->common);
    ct_json_bool(json, "same", !path->part);
    if (path->part) {
        calls_json("stack", path->stack, path->stack_count, json);
        for (int s = 0; s < CT_DIFF_SIDES; s++)
            calls_json(side_keys[s], path->next[s], path->next_count[s], json);
    }
    ct_json_end(json, '}');
}

void ct_diff_json(const struct ct_diff *d, struct ct_trace *const traces[CT_DIFF_SIDES], struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        const struct ct_report *r = d->reports[s];
        ct_json_begin(json, side_keys[s], '{');
        ct_json_string(json, "trace", ct_trace_path(traces[s]));
        ct_json_number(json, "calls", r->calls);
        ct_json_number(json, "threads", r->threads);
        ct_json_number(json, "lost", r->lost);
        ct_json_end(json, '}');
    }
    ct_json_number(json, "new", d->added);
    ct_json_number(json, "gone", d->gone);
    ct_json_number(json, "changed", d->changed);
    ct_json_number(json, "unchanged", d->unchanged);
    ct_json_begin(json, "functions", '[');
    for (size_t i = 0; i < d->row_count; i++)
        row_json(&d->rows[i], json);
    ct_json_end(json, ']');
    path_json(&d->path, json);
    ct_json_end(json, '}');
}
