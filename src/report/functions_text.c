/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON and as CSV. */
#include "report/functions.h"
#include "report/output.h"
#include "report/unhooked.h"
#include "report/values.h"
#include "symbols/demangle.h"
#include "base/json_write.h"
#include <stdlib.h>
#include <string.h>

/* The columns of a row's times, in this order, for JSON and CSV. The only list. */
static const struct {
    const char *key;
    size_t offset;
} times[] = {
    {"total_ns", offsetof(struct ct_report_row, total_ns)},
    {"self_ns", offsetof(struct ct_report_row, self_ns)},
    {"avg_ns", offsetof(struct ct_report_row, avg_ns)},
    {"max_ns", offsetof(struct ct_report_row, max_ns)},
    {"p50_ns", offsetof(struct ct_report_row, p50_ns)},
    {"p95_ns", offsetof(struct ct_report_row, p95_ns)},
    {"p99_ns", offsetof(struct ct_report_row, p99_ns)},
    /* only where switches were recorded: */
    {"cpu_ns", offsetof(struct ct_report_row, cpu_ns)},
    {"blocked_ns", offsetof(struct ct_report_row, blocked_ns)},
    {"preempted_ns", offsetof(struct ct_report_row, preempted_ns)},
    {"unknown_ns", offsetof(struct ct_report_row, unknown_ns)},
    {"total_cpu_ns", offsetof(struct ct_report_row, total_cpu_ns)},
    {"total_blocked_ns", offsetof(struct ct_report_row, total_blocked_ns)},
    {"total_preempted_ns", offsetof(struct ct_report_row, total_preempted_ns)},
};
enum { TIME_COUNT = sizeof times / sizeof times[0], CPU_COUNT = 7 };

static size_t time_count(const struct ct_report *r) {
    return r->cpu_threads ? TIME_COUNT : TIME_COUNT - CPU_COUNT;
}

static uint64_t time_at(const struct ct_report_row *row, size_t i) {
    return *(const uint64_t *)((const char *)row + times[i].offset);
}

/* ---- JSON ---- */

static void inlines_json(const char *inlines, struct ct_json *json) {
    char name[4096];
    ct_json_begin(json, "inlines", '[');
    while (*inlines) {
        size_t length = strcspn(inlines, "\t");
        if (length < sizeof name) {
            memcpy(name, inlines, length);
            name[length] = 0;
            char *display = ct_demangle(name);
            ct_json_string(json, NULL, display ? display : name);
            free(display);
        }
        inlines += length + (inlines[length] == '\t');
    }
    ct_json_end(json, ']');
}

static void row_json(const struct ct_report_row *row, size_t time_columns, const struct ct_trace *trace,
                     const struct ct_function_values *values, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "name", row->name);
    ct_json_string(json, "module", row->module);
    if (row->known && *row->known->linkage_name && strcmp(row->known->linkage_name, row->name) != 0)
        ct_json_string(json, "linkage_name", row->known->linkage_name);
    if (row->known && *row->known->line)
        ct_json_string(json, "line", row->known->line);
    if (row->known && *row->known->inlines)
        inlines_json(row->known->inlines, json);
    ct_output_thread_json(json, trace, row->thread);
    ct_json_number(json, "calls", row->calls);
    if (row->recorded != row->calls)
        ct_json_number(json, "recorded_calls", row->recorded);
    ct_json_bool(json, "entry_only", row->entry_only);
    for (size_t i = 0; i < time_columns && row->timed; i++)
        ct_json_number(json, times[i].key, time_at(row, i));
    ct_json_number(json, "exceptions", row->exceptions);
    ct_json_number(json, "open", row->open);
    ct_json_number(json, "unpaired", row->unpaired);
    if (values)
        ct_values_json(values, json);
    ct_json_end(json, '}');
}

void ct_report_json(const struct ct_report *r, const struct ct_trace *trace, const struct ct_values *values,
                    const struct ct_unhooked_list *unhooked, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "trace", ct_trace_path(trace));
    ct_json_number(json, "threads", r->threads);
    ct_json_number(json, "events", r->events);
    ct_json_number(json, "calls", r->calls);
    ct_json_number(json, "exceptions", r->exceptions);
    ct_json_number(json, "open", r->open);
    ct_json_number(json, "unpaired", r->unpaired);
    ct_json_number(json, "gaps", r->gaps);
    ct_json_number(json, "lost", r->lost);
    ct_json_number(json, "gap_ns", r->gap_ns);
    ct_json_number(json, "waited_ns", r->waited_ns);
    ct_json_number(json, "cpu_threads", r->cpu_threads);
    ct_json_number(json, "matched", r->matched);
    if (r->sampled)
        ct_json_number(json, "sample", r->sampled);
    ct_left_out_json(&r->left_out, json);
    ct_json_begin(json, "functions", '[');
    for (size_t i = 0; i < r->row_count; i++)
        row_json(&r->rows[i], time_count(r), trace, values && i < values->row_count ? &values->rows[i] : NULL, json);
    ct_json_end(json, ']');
    if (unhooked)
        ct_unhooked_json(unhooked, json);
    ct_json_end(json, '}');
}

/* ---- CSV ---- */

static void row_csv(const struct ct_report_row *row, size_t time_columns, const struct ct_trace *trace,
                    struct ct_output *output) {
    ct_output_thread(output, trace, row->thread);
    ct_output_field(output, row->name);
    ct_output_string(output, ",");
    ct_output_field(output, row->module);
    ct_output_string(output, ",");
    ct_output_number(output, row->calls);
    for (size_t i = 0; i < time_columns; i++) {
        ct_output_string(output, ",");
        if (row->timed)
            ct_output_number(output, time_at(row, i));
    }
    const uint64_t counts[] = {row->exceptions, row->open, row->unpaired};
    ct_output_numbers(output, counts, sizeof counts / sizeof counts[0]);
}

void ct_report_csv(const struct ct_report *r, bool per_thread, const struct ct_trace *trace, struct ct_output *output) {
    ct_output_string(output, per_thread ? "tid,thread,name,module,calls" : "name,module,calls");
    for (size_t i = 0; i < time_count(r); i++) {
        ct_output_string(output, ",");
        ct_output_string(output, times[i].key);
    }
    ct_output_string(output, ",exceptions,open,unpaired\n");
    for (size_t i = 0; i < r->row_count; i++)
        row_csv(&r->rows[i], time_count(r), trace, output);
}
