/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of two traces side by side: both reports are sorted by name and merged. */
#include "report/diff.h"
#include "base/json_write.h"
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

/* The reports of all traces: the first one of A and of B, further ones of A, of B. */
static size_t report_count(const struct ct_diff *d) {
    return CT_DIFF_SIDES + d->more_count[CT_DIFF_A] + d->more_count[CT_DIFF_B];
}

static const struct ct_report *report_at(const struct ct_diff *d, size_t i, int *side) {
    *side = i == CT_DIFF_B || i >= CT_DIFF_SIDES + d->more_count[CT_DIFF_A] ? CT_DIFF_B : CT_DIFF_A;
    return i < CT_DIFF_SIDES ? d->reports[i] : d->more[i - CT_DIFF_SIDES];
}

/* What one trace has of a function. */
struct found {
    struct ct_diff_values values;
    struct ct_diff_sample sample;
};

/* Several functions of one name are one: their single calls are as those of the most frequent one. */
static void add_spread(struct ct_diff_sample *into, const struct ct_report_row *row) {
    if (row->timed > into->timed) {
        into->p25_ns = row->spread.p25_ns;
        into->p50_ns = row->spread.p50_ns;
        into->p75_ns = row->spread.p75_ns;
    }
    into->calls += row->calls;
    into->timed += row->timed;
    into->squares += row->spread.squares;
}

static void add_row(struct found *into, const struct ct_report_row *row) {
    into->values.calls += row->calls;
    into->values.timed += row->timed;
    into->values.total_ns += row->total_ns;
    into->values.self_ns += row->self_ns;
    into->values.cpu_ns += row->cpu_ns;
    add_spread(&into->sample, row);
}

static void add_values(struct ct_diff_values *into, struct found *one, bool cpu) {
    const struct ct_diff_values *v = &one->values;
    into->calls += v->calls;
    into->timed += v->timed;
    into->total_ns += v->total_ns;
    into->self_ns += v->self_ns;
    into->cpu_ns += v->cpu_ns;
    one->sample.time_ns = cpu ? v->cpu_ns : v->self_ns;
    ct_diff_spread_add(&into->spread, &one->sample);
}

/* A function that some traces of a side have is never shown as one that the side does not have. */
static void make_means(struct ct_diff_values *v, bool cpu) {
    uint64_t n = v->spread.traces, calls = v->calls;
    v->calls = calls && calls < n ? 1 : calls / n;
    v->timed = v->timed && v->timed < n ? 1 : v->timed / n;
    v->total_ns /= n;
    v->self_ns /= n;
    v->cpu_ns /= n;
    v->compared_ns = cpu ? v->cpu_ns : v->self_ns;
}

static int compare_names(const struct ct_report_row *x, const struct ct_report_row *y) {
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

/* Takes the next function by name, from all lists that have it. False: there are no more. */
static bool take_row(const struct ct_diff *d, size_t *at, struct ct_diff_row *row) {
    const struct ct_report_row *first = NULL;
    int side;
    for (size_t i = 0; i < report_count(d); i++) {
        const struct ct_report *r = report_at(d, i, &side);
        if (at[i] < r->row_count && (!first || compare_names(&r->rows[at[i]], first) < 0))
            first = &r->rows[at[i]];
    }
    if (!first)
        return false;
    *row = (struct ct_diff_row){.name = first->name, .module = first->module};
    for (size_t i = 0; i < report_count(d); i++) {
        const struct ct_report *r = report_at(d, i, &side);
        struct found one = {0};
        for (; at[i] < r->row_count && !compare_names(&r->rows[at[i]], first); at[i]++)
            add_row(&one, &r->rows[at[i]]);
        add_values(&row->side[side], &one, d->cpu);
    }
    for (int s = 0; s < CT_DIFF_SIDES; s++)
        make_means(&row->side[s], d->cpu);
    return true;
}

static uint64_t value_of(const struct ct_diff_values *v, enum ct_diff_sort sort) {
    return sort == CT_DIFF_BY_CALLS ? v->calls : sort == CT_DIFF_BY_TOTAL ? v->total_ns : v->compared_ns;
}

static uint64_t change_of(const struct ct_diff_row *row, enum ct_diff_sort sort) {
    if (row->same_times && sort != CT_DIFF_BY_CALLS)
        return 0;
    uint64_t a = value_of(&row->side[CT_DIFF_A], sort), b = value_of(&row->side[CT_DIFF_B], sort);
    return a < b ? b - a : a - b;
}

static bool is_equal(const struct ct_diff_row *row) {
    const struct ct_diff_values *a = &row->side[CT_DIFF_A], *b = &row->side[CT_DIFF_B];
    return a->calls == b->calls && a->total_ns == b->total_ns && a->self_ns == b->self_ns;
}

static bool has_same_times(const struct ct_diff_row *row, bool cpu) {
    const struct ct_diff_values *a = &row->side[CT_DIFF_A], *b = &row->side[CT_DIFF_B];
    return !a->calls == !b->calls && !ct_diff_times_differ(&a->spread, &b->spread, cpu);
}

static bool is_wanted(const struct ct_diff_row *row, const struct ct_diff_options *o) {
    const struct ct_diff_values *a = &row->side[CT_DIFF_A], *b = &row->side[CT_DIFF_B];
    if (!a->calls != !b->calls)
        return true;
    enum ct_diff_sort sort = row->same_times ? CT_DIFF_BY_CALLS : o->sort;
    return (double)change_of(row, sort) * 100 >= (double)value_of(a, sort) * (double)o->min_change;
}

static void count_row(struct ct_diff *d, const struct ct_diff_row *row) {
    if (!row->side[CT_DIFF_A].calls)
        d->added++;
    else if (!row->side[CT_DIFF_B].calls)
        d->gone++;
    else
        d->changed++;
}

static void sort_in(struct ct_diff *d, struct ct_diff_row *row, const struct ct_diff_options *options) {
    if (!row->side[CT_DIFF_A].calls && !row->side[CT_DIFF_B].calls)
        return; /* only ends were seen */
    if (is_equal(row)) {
        d->unchanged++;
        return;
    }
    row->same_times = !options->all && has_same_times(row, d->cpu);
    if (row->same_times && !ct_diff_calls_differ(&row->side[CT_DIFF_A].spread, &row->side[CT_DIFF_B].spread)) {
        d->noise++;
        return;
    }
    if (!is_wanted(row, options)) {
        d->unchanged++;
        return;
    }
    count_row(d, row);
    d->rows[d->row_count++] = *row;
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
    size_t *at = calloc(report_count(d), sizeof *at), most = 0;
    int side;
    for (size_t i = 0; i < report_count(d); i++)
        most += report_at(d, i, &side)->row_count;
    d->rows = calloc(most + 1, sizeof *d->rows);
    if (!d->rows || !at) {
        free(at);
        return CT_ERR_NO_MEMORY;
    }
    for (struct ct_diff_row row; take_row(d, at, &row);)
        sort_in(d, &row, options);
    free(at);
    enum ct_diff_sort sort = options->sort;
    if (d->row_count)
        qsort_r(d->rows, d->row_count, sizeof *d->rows, compare_rows, &sort);
    d->matched = d->row_count;
    if (options->limit && d->row_count > options->limit)
        d->row_count = options->limit;
    return 0;
}

static struct ct_report_options report_options(const struct ct_diff *d, const struct ct_diff_options *options,
                                               const struct ct_select *select) {
    return (struct ct_report_options){.select = *select,
                                      .sort = CT_REPORT_BY_NAME,
                                      .directories = options->directories,
                                      .spread = d->cpu ? CT_REPORT_SPREAD_CPU : CT_REPORT_SPREAD_SELF};
}

static int read_more(struct ct_diff *d, const struct ct_diff_options *options) {
    size_t count = options->more_count[CT_DIFF_A] + options->more_count[CT_DIFF_B], done = 0;
    int status = 0;
    if (!(d->more = calloc(count + 1, sizeof(struct ct_report *))))
        return CT_ERR_NO_MEMORY;
    for (int s = 0; s < CT_DIFF_SIDES; s++)
        for (size_t i = 0; i < options->more_count[s] && !status; i++) {
            const struct ct_report_options by_name = report_options(d, options, &options->more_select[s][i]);
            status = ct_report_make(&d->more[done], options->more[s][i], &by_name);
            d->more_count[s] += !status;
            done += !status;
        }
    return status;
}

static bool has_cpu(struct ct_trace *const traces[CT_DIFF_SIDES], const struct ct_diff_options *options) {
    bool cpu = true;
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        cpu = cpu && ct_timeline_is_recorded(traces[s]);
        for (size_t i = 0; i < options->more_count[s]; i++)
            cpu = cpu && ct_timeline_is_recorded(options->more[s][i]);
    }
    return cpu;
}

int ct_diff_make(struct ct_diff **out, struct ct_trace *const traces[CT_DIFF_SIDES],
                 const struct ct_diff_options *options) {
    struct ct_diff *d = calloc(1, sizeof *d);
    int status = d ? 0 : CT_ERR_NO_MEMORY;
    if (d)
        d->cpu = has_cpu(traces, options);
    for (int s = 0; s < CT_DIFF_SIDES && !status; s++) {
        const struct ct_report_options by_name = report_options(d, options, &options->select[s]);
        d->names[s] = (struct ct_function_cache){.trace = traces[s], .select = &options->select[s]};
        status = ct_report_make(&d->reports[s], traces[s], &by_name);
    }
    if (!status)
        status = read_more(d, options);
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
    for (size_t i = 0; d->more && i < d->more_count[CT_DIFF_A] + d->more_count[CT_DIFF_B]; i++)
        ct_report_free(d->more[i]);
    free(d->more);
    free(d->path.stack);
    free(d->rows);
    free(d);
}

/* ---- JSON ---- */

static const char *const side_keys[CT_DIFF_SIDES] = {"a", "b"};

static void row_json(const struct ct_diff_row *row, bool cpu, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "name", row->name);
    ct_json_string(json, "module", row->module);
    if (row->same_times)
        ct_json_bool(json, "same_times", true);
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
            if (cpu)
                ct_json_number(json, "cpu_ns", v->cpu_ns);
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
        ct_json_number(json, "traces", 1 + d->more_count[s]);
        ct_json_end(json, '}');
    }
    ct_json_number(json, "new", d->added);
    ct_json_number(json, "gone", d->gone);
    ct_json_number(json, "changed", d->changed);
    ct_json_number(json, "noise", d->noise);
    ct_json_number(json, "unchanged", d->unchanged);
    ct_json_string(json, "compared", d->cpu ? "cpu" : "self");
    ct_json_begin(json, "functions", '[');
    for (size_t i = 0; i < d->row_count; i++)
        row_json(&d->rows[i], d->cpu, json);
    ct_json_end(json, ']');
    path_json(&d->path, json);
    ct_json_end(json, '}');
}
