/* SPDX-License-Identifier: Apache-2.0 */
/* The report of blocks as JSON and as CSV. */
#include "report/blocks.h"
#include "report/output.h"
#include "base/json_write.h"

static void row_json(const struct ct_block_row *row, const struct ct_trace *trace, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "module", row->module_name);
    ct_json_number(json, "offset", row->offset);
    if (*row->name) {
        ct_json_string(json, "function", row->name);
        ct_json_number(json, "function_offset", row->into);
    }
    if (row->line && *row->line)
        ct_json_string(json, "line", row->line);
    ct_json_signed(json, "pid", ct_trace_process_at(trace, row->process)->pid);
    ct_output_thread_json(json, trace, row->thread);
    ct_json_number(json, "size", row->size);
    ct_json_number(json, "instructions", row->insns);
    ct_json_number(json, "count", row->count);
    ct_json_number(json, "executed", row->executed);
    ct_json_end(json, '}');
}

void ct_block_report_json(const struct ct_block_report *r, const struct ct_trace *trace, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "trace", ct_trace_path(trace));
    ct_json_number(json, "threads", r->threads);
    ct_json_number(json, "count", r->count);
    ct_json_number(json, "executed", r->executed);
    ct_json_number(json, "lost", r->lost);
    ct_json_number(json, "matched", r->matched);
    ct_json_begin(json, "blocks", '[');
    for (size_t i = 0; i < r->row_count; i++)
        row_json(&r->rows[i], trace, json);
    ct_json_end(json, ']');
    ct_json_end(json, '}');
}

static void row_csv(const struct ct_block_row *row, const struct ct_trace *trace, struct ct_output *output) {
    ct_output_thread(output, trace, row->thread);
    ct_output_field(output, row->module_name);
    ct_output_string(output, ",");
    ct_output_number(output, row->offset);
    ct_output_string(output, ",");
    ct_output_field(output, row->name);
    ct_output_string(output, ",");
    ct_output_number(output, row->into);
    ct_output_string(output, ",");
    ct_output_field(output, row->line ? row->line : "");
    const uint64_t numbers[] = {row->size, row->insns, row->count, row->executed};
    ct_output_numbers(output, numbers, sizeof numbers / sizeof numbers[0]);
}

void ct_block_report_csv(const struct ct_block_report *r, const struct ct_trace *trace, bool per_thread,
                         struct ct_output *output) {
    if (per_thread)
        ct_output_string(output, "tid,thread,");
    ct_output_string(output, "module,offset,function,function_offset,line,size,instructions,count,executed\n");
    for (size_t i = 0; i < r->row_count; i++)
        row_csv(&r->rows[i], trace, output);
}
