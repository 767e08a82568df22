/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of a report's functions: see values.h. */
#include "report/values.h"
#include "base/json_write.h"
#include "report/fits.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one parameter ---- */

static void widen_range(struct ct_parameter_values *p, const struct ct_argument *a) {
    bool first = p->values == 0;
    bool real = a->kind == CT_VALUE_REAL, is_signed = a->kind == CT_VALUE_SIGNED;
    if (!real && !is_signed && a->kind != CT_VALUE_UNSIGNED) {
        p->has_range = false;
        return;
    }
    if (first) {
        p->has_range = true;
        p->is_real = real;
        p->is_signed = is_signed;
        p->least = p->most = a->number;
        p->least_real = p->most_real = a->real;
    }
    if (p->is_real != real)
        p->has_range = false;
    if (real) {
        p->least_real = a->real < p->least_real ? a->real : p->least_real;
        p->most_real = a->real > p->most_real ? a->real : p->most_real;
    } else if (p->is_signed) {
        p->least = (int64_t)a->number < (int64_t)p->least ? a->number : p->least;
        p->most = (int64_t)a->number > (int64_t)p->most ? a->number : p->most;
    } else {
        p->least = a->number < p->least ? a->number : p->least;
        p->most = a->number > p->most ? a->number : p->most;
    }
}

static int count_value(struct ct_parameter_values *p, const char *text) {
    struct ct_value_count *rarest = NULL;
    if (!p->kept && !(p->kept = calloc(CT_VALUES_KEPT, sizeof *p->kept)))
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < p->kept_count; i++) {
        struct ct_value_count *v = &p->kept[i];
        if (!strncmp(v->text, text, sizeof v->text - 1)) {
            v->count++;
            if (i && v->count > v[-1].count) { /* frequent values move to the front */
                struct ct_value_count before = v[-1];
                v[-1] = *v;
                *v = before;
            }
            return 0;
        }
        if (!rarest || v->count < rarest->count)
            rarest = v;
    }
    if (p->kept_count < CT_VALUES_KEPT) {
        rarest = &p->kept[p->kept_count++];
    } else {
        p->more = true;
        rarest->error = rarest->count;
    }
    snprintf(rarest->text, sizeof rarest->text, "%.*s", (int)sizeof rarest->text - 1, text);
    rarest->count++;
    return 0;
}

static int add_value(struct ct_parameter_values *p, const struct ct_argument *a) {
    if (!p->name[0])
        snprintf(p->name, sizeof p->name, "%.*s", (int)sizeof p->name - 1, a->name);
    if (a->kind == CT_VALUE_UNKNOWN) {
        p->unknown++;
        return 0;
    }
    widen_range(p, a);
    p->values++;
    return count_value(p, a->text);
}

static int by_count(const void *a, const void *b) {
    const struct ct_value_count *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->text, y->text);
}

/* ---- one function ---- */

static int add_record(struct ct_function_values *f, uint32_t type, const struct ct_arguments *arguments) {
    int status = 0;
    f->named |= arguments->named;
    if (type == CT_TRACE_DETAIL_RETURN) {
        f->returns++;
        return arguments->count ? add_value(&f->result, &arguments->at[0]) : 0;
    }
    if (!f->calls++ && arguments->count) {
        f->parameters = calloc(arguments->count, sizeof *f->parameters);
        if (!f->parameters)
            return CT_ERR_NO_MEMORY;
        f->count = arguments->count;
    }
    for (size_t i = 0; i < f->count && i < arguments->count && !status; i++)
        status = add_value(&f->parameters[i], &arguments->at[i]);
    return status;
}

/* ---- which row a record belongs to ---- */

struct place {
    struct ct_table_key key;
    size_t row; /* plus 1; SIZE_MAX: none */
};

/* Processes that run the same program have one row for each function. */
static size_t find_row(const struct ct_report *report, const struct ct_trace *trace, size_t count, size_t process,
                       uint64_t function) {
    const struct ct_trace_function *f = ct_trace_function(trace, process, function);
    for (size_t i = 0; i < count; i++) {
        const struct ct_report_row *row = &report->rows[i];
        if (row->process == process && row->function == function)
            return i + 1;
        if (f && row->known && row->process != process && f->offset == row->known->offset &&
            !strcmp(f->name, row->name) && !strcmp(f->module, row->module))
            return i + 1;
    }
    return SIZE_MAX;
}

/* Records of calls that do not fit, and of other times, do not count. */
static bool is_wanted(const struct ct_trace_detail *detail, const struct ct_select *select, const struct ct_fits *fits,
                      size_t thread) {
    if (detail->timestamp_ns < select->from_ns || (select->to_ns && detail->timestamp_ns >= select->to_ns))
        return false;
    return !fits || (detail->index_seq != CT_TRACE_NO_INDEX && ct_fits_call(fits, thread, detail->index_seq));
}

static int read_thread(struct ct_values *values, struct ct_trace *trace, const struct ct_report *report,
                       struct ct_argument_reader *reader, struct ct_table *places, size_t thread,
                       const struct ct_select *select, const struct ct_fits *fits) {
    static struct ct_trace_detail detail = {.size = sizeof detail};
    static struct ct_arguments arguments;
    uint64_t first, end;
    size_t process = ct_trace_thread_at(trace, thread)->process;
    int status = ct_trace_detail_range(trace, thread, &first, &end);
    for (uint64_t i = first; i < end && !status; i++) {
        if (ct_trace_detail(trace, thread, (uint32_t)i, &detail) != 0 ||
            (detail.type != CT_TRACE_DETAIL_CALL && detail.type != CT_TRACE_DETAIL_RETURN) ||
            !is_wanted(&detail, select, fits, thread))
            continue;
        struct place *place = (struct place *)ct_table_get(places, process, detail.function_id, sizeof *place);
        if (!place)
            return CT_ERR_NO_MEMORY;
        if (!place->row)
            place->row = find_row(report, trace, values->row_count, process, detail.function_id);
        if (place->row == SIZE_MAX || ct_arguments_of(reader, thread, &detail, &arguments) != 0)
            continue;
        values->records++;
        status = add_record(&values->rows[place->row - 1], detail.type, &arguments);
    }
    return status;
}

/* ---- all ---- */

static void finish_parameter(struct ct_parameter_values *p) {
    if (p->kept_count)
        qsort(p->kept, p->kept_count, sizeof *p->kept, by_count);
}

static int find_fits(struct ct_fits **fits, struct ct_trace *trace, const struct ct_select *select,
                     const char *const *directories) {
    struct ct_facts facts;
    int status = select->where ? ct_facts_load(&facts, trace) : 0;
    if (!select->where || status)
        return status;
    status = ct_fits_make(fits, trace, &facts, select, CT_FITS_WHERE, directories);
    ct_facts_free(&facts);
    return status;
}

int ct_values_make(struct ct_values **out, struct ct_trace *trace, const struct ct_report *report,
                   const struct ct_select *select, const char *const *directories) {
    struct ct_argument_reader *reader = NULL;
    struct ct_table places = {0};
    struct ct_fits *fits = NULL;
    struct ct_values *values = *out = calloc(1, sizeof *values);
    if (!values)
        return CT_ERR_NO_MEMORY;
    values->row_count = report->row_count < CT_VALUES_FUNCTIONS ? report->row_count : CT_VALUES_FUNCTIONS;
    values->rows = calloc(values->row_count + 1, sizeof *values->rows);
    int status = values->rows ? ct_argument_reader_open(&reader, trace, directories) : CT_ERR_NO_MEMORY;
    if (!status)
        status = find_fits(&fits, trace, select, directories);
    for (size_t i = 0; i < ct_trace_thread_count(trace) && !status; i++)
        if (ct_trace_thread_at(trace, i)->has_detail && ct_select_thread(select, trace, i))
            status = read_thread(values, trace, report, reader, &places, i, select, fits);
    ct_fits_free(fits);
    ct_table_free(&places, NULL);
    ct_argument_reader_close(reader);
    for (size_t i = 0; i < values->row_count && !status; i++) {
        for (size_t k = 0; k < values->rows[i].count; k++)
            finish_parameter(&values->rows[i].parameters[k]);
        finish_parameter(&values->rows[i].result);
    }
    if (status) {
        ct_values_free(values);
        *out = NULL;
    }
    return status;
}

void ct_values_free(struct ct_values *values) {
    if (!values)
        return;
    for (size_t i = 0; values->rows && i < values->row_count; i++) {
        struct ct_function_values *f = &values->rows[i];
        for (size_t k = 0; k < f->count; k++)
            free(f->parameters[k].kept);
        free(f->parameters);
        free(f->result.kept);
    }
    free(values->rows);
    free(values);
}

void ct_values_range(const struct ct_parameter_values *p, char *text, size_t size) {
    *text = 0;
    if (!p->has_range || !p->values)
        return;
    if (p->is_real)
        snprintf(text, size, "%g to %g", p->least_real, p->most_real);
    else if (p->is_signed)
        snprintf(text, size, "%" PRId64 " to %" PRId64, (int64_t)p->least, (int64_t)p->most);
    else
        snprintf(text, size, "%" PRIu64 " to %" PRIu64, p->least, p->most);
}

/* ---- as JSON ---- */

static void parameter_json(const struct ct_parameter_values *p, const char *key, struct ct_json *json) {
    ct_json_begin(json, key, '{');
    if (!key)
        ct_json_string(json, "name", p->name);
    ct_json_number(json, "values", p->values);
    ct_json_number(json, "unknown", p->unknown);
    if (p->has_range && p->values && p->is_real) {
        ct_json_real(json, "min", p->least_real);
        ct_json_real(json, "max", p->most_real);
    } else if (p->has_range && p->values && p->is_signed) {
        ct_json_signed(json, "min", (int64_t)p->least);
        ct_json_signed(json, "max", (int64_t)p->most);
    } else if (p->has_range && p->values) {
        ct_json_number(json, "min", p->least);
        ct_json_number(json, "max", p->most);
    }
    ct_json_bool(json, "exact", !p->more);
    ct_json_begin(json, "frequent", '[');
    for (size_t i = 0; i < p->kept_count; i++) {
        if (p->kept[i].count == p->kept[i].error)
            continue;
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "value", p->kept[i].text);
        ct_json_number(json, "count", p->kept[i].count - p->kept[i].error);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
    ct_json_end(json, '}');
}

void ct_values_json(const struct ct_function_values *values, struct ct_json *json) {
    ct_json_number(json, "detailed_calls", values->calls);
    ct_json_number(json, "detailed_returns", values->returns);
    ct_json_begin(json, "args", '[');
    for (size_t i = 0; i < values->count; i++)
        parameter_json(&values->parameters[i], NULL, json);
    ct_json_end(json, ']');
    if (values->result.values + values->result.unknown)
        parameter_json(&values->result, "result", json);
}
