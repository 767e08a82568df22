/* SPDX-License-Identifier: Apache-2.0 */
/* More tables whose rows are in memory: marks, windows, losses, source lines, executed blocks, histograms. Each is read
 * when its table is opened. */
#include "query/lists.h"
#include "report/blocks.h"
#include "report/histogram.h"
#include "report/info.h"
#include "report/marks.h"
#include "trace/reader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void text_cell(struct ct_list *list, struct ct_cell *cell) {
    cell->type = CT_CELL_TEXT;
    cell->lasts = false;
    cell->text = list->text;
}

static void time_cell(const struct ct_list *list, uint64_t boot_ns, struct ct_cell *cell) {
    if (boot_ns)
        ct_cell_integer(cell, ct_source_time(list->rows.source, boot_ns));
}

/* ---- marks ---- */

static int open_marks(struct ct_list *list, const struct ct_ask *ask) {
    struct ct_marks *marks = list->memory = calloc(1, sizeof *marks);
    (void)ask;
    int status = marks ? ct_marks_read(marks, list->rows.source->trace) : CT_ERR_NO_MEMORY;
    list->count = status ? 0 : marks->count;
    return status;
}

static void mark_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    const struct ct_mark *mark = &((struct ct_marks *)list->memory)->items[row];
    if (column == CT_MARKS_time)
        return time_cell(list, mark->time_ns, cell);
    ct_cell_known(cell, mark->label);
    cell->lasts = false;
}

static void close_marks(struct ct_list *list) {
    if (list->memory)
        ct_marks_free(list->memory);
    free(list->memory);
}

/* ---- windows: pairs of a process and a window ---- */

static int open_windows(struct ct_list *list, const struct ct_ask *ask) {
    const struct ct_facts *facts = &list->rows.source->facts;
    struct ct_info *infos = list->memory = calloc(facts->process_count + 1, sizeof *infos);
    (void)ask;
    if (!infos)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < facts->process_count; i++) {
        const struct ct_json_node *root = ct_json_root(facts->trees[i]);
        if (root && ct_info_read_windows(&infos[i], root) != 0)
            return CT_ERR_NO_MEMORY;
        for (size_t k = 0; k < infos[i].window_count; k++)
            if (!ct_list_add(list, i, k))
                return CT_ERR_NO_MEMORY;
    }
    return 0;
}

static void window_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    const struct ct_list_pair *pair = &list->pairs[row];
    const struct ct_info_window *window = &((struct ct_info *)list->memory)[pair->first].windows[pair->second];
    switch (column) {
    case CT_WINDOWS_process:
        return ct_cell_integer(cell, (int64_t)pair->first + 1);
    case CT_WINDOWS_time:
        return time_cell(list, window->mark_ns, cell);
    case CT_WINDOWS_start:
        return time_cell(list, window->mark_ns ? window->mark_ns - window->pre_ns : 0, cell);
    case CT_WINDOWS_stop:
        return time_cell(list, window->mark_ns ? window->mark_ns + window->post_ns : 0, cell);
    case CT_WINDOWS_marks:
        return ct_cell_integer(cell, (int64_t)window->marks);
    case CT_WINDOWS_reasons:
        ct_cell_known(cell, window->reasons);
        cell->lasts = false;
        return;
    case CT_WINDOWS_records:
        return ct_cell_integer(cell, (int64_t)window->records);
    case CT_WINDOWS_pre_roll:
        return ct_cell_known(cell, window->pre);
    case CT_WINDOWS_post_roll:
        return ct_cell_known(cell, window->post);
    default:
        return;
    }
}

static void close_windows(struct ct_list *list) {
    struct ct_info *infos = list->memory;
    for (size_t i = 0; infos && i < list->rows.source->facts.process_count; i++)
        ct_info_free_windows(&infos[i]);
    free(infos);
}

/* ---- losses: pairs of a thread and a gap ---- */

/* A forked child is inside its parent's calls: nothing is missing. */
static bool is_inherited(const struct ct_gap *gap) {
    return !gap->lost && gap->reason && !strcmp(gap->reason, "INHERITED");
}

static int open_losses(struct ct_list *list, const struct ct_ask *ask) {
    const struct ct_facts *facts = &list->rows.source->facts;
    (void)ask;
    for (size_t i = 0; i < facts->thread_count; i++)
        for (size_t k = 0; k < facts->threads[i].gap_count; k++)
            if (!is_inherited(&facts->threads[i].gaps[k]) && !ct_list_add(list, i, k))
                return CT_ERR_NO_MEMORY;
    return 0;
}

static void loss_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    struct ct_source *s = list->rows.source;
    const struct ct_list_pair *pair = &list->pairs[row];
    const struct ct_gap *gap = &s->facts.threads[pair->first].gaps[pair->second];
    struct atf_index_event event;
    switch (column) {
    case CT_LOSSES_process:
        return ct_cell_integer(cell, (int64_t)ct_trace_thread_at(s->trace, pair->first)->process + 1);
    case CT_LOSSES_thread:
        return ct_cell_integer(cell, (int64_t)pair->first + 1);
    case CT_LOSSES_event:
        return ct_cell_integer(cell, ct_source_call_id(pair->first, gap->at));
    case CT_LOSSES_time:
        if (ct_index_read(&s->trace->threads[pair->first].index, gap->at, &event, 1))
            time_cell(list, event.timestamp_ns, cell);
        return;
    case CT_LOSSES_lost:
        return ct_cell_integer(cell, (int64_t)gap->lost);
    case CT_LOSSES_reason:
        return ct_cell_known(cell, gap->reason);
    case CT_LOSSES_text:
        return ct_cell_known(cell, ct_info_reason_text(gap->reason));
    default:
        return;
    }
}

/* ---- lines: pairs of a process and a function ---- */

static int add_lines(struct ct_list *list, size_t process) {
    const struct ct_trace *trace = list->rows.source->trace;
    struct ct_symbols *symbols = ct_trace_symbols(trace, process);
    for (size_t i = 0; symbols && i < ct_symbols_module_count(symbols); i++) {
        struct ct_symbols_module module = ct_symbols_module_at(symbols, i);
        for (uint64_t k = 0; k < module.functions; k++) {
            uint64_t id = (uint64_t)module.id << 32 | k;
            const struct ct_trace_function *f = ct_trace_function(trace, process, id);
            if (f && *f->line && !ct_list_add(list, process, id))
                return CT_ERR_NO_MEMORY;
        }
    }
    return 0;
}

static int open_lines(struct ct_list *list, const struct ct_ask *ask) {
    int status = 0;
    (void)ask;
    for (size_t i = 0; i < ct_trace_process_count(list->rows.source->trace) && !status; i++)
        status = add_lines(list, i);
    return status;
}

static void line_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    const struct ct_list_pair *pair = &list->pairs[row];
    const struct ct_trace_function *f = ct_trace_function(list->rows.source->trace, (size_t)pair->first, pair->second);
    const char *colon = f ? strrchr(f->line, ':') : NULL;
    if (!f)
        return;
    switch (column) {
    case CT_LINES_process:
        return ct_cell_integer(cell, (int64_t)pair->first + 1);
    case CT_LINES_function:
        return ct_cell_text(cell, f->name);
    case CT_LINES_module:
        return ct_cell_text(cell, f->module);
    case CT_LINES_file:
        snprintf(list->text, sizeof list->text, "%.*s", colon ? (int)(colon - f->line) : 500, f->line);
        return text_cell(list, cell);
    case CT_LINES_line:
        if (colon)
            ct_cell_integer(cell, strtoll(colon + 1, NULL, 10));
        return;
    case CT_LINES_function_id:
        return ct_cell_integer(cell, (int64_t)pair->second);
    default:
        return;
    }
}

/* ---- blocks ---- */

static int open_blocks(struct ct_list *list, const struct ct_ask *ask) {
    struct ct_block_report *report = NULL;
    (void)ask;
    int status = ct_block_report_make(&report, list->rows.source->trace, &(struct ct_block_options){0});
    list->memory = status ? NULL : report;
    list->count = status ? 0 : report->row_count;
    return status;
}

static void block_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    const struct ct_block_row *block = &((struct ct_block_report *)list->memory)->rows[row];
    switch (column) {
    case CT_BLOCKS_process:
        return ct_cell_integer(cell, (int64_t)block->process + 1);
    case CT_BLOCKS_module:
        return ct_cell_known(cell, block->module_name);
    case CT_BLOCKS_address:
        return ct_cell_integer(cell, (int64_t)block->offset);
    case CT_BLOCKS_size:
        return ct_cell_integer(cell, block->size);
    case CT_BLOCKS_instructions:
        return ct_cell_integer(cell, block->insns);
    case CT_BLOCKS_count:
        return ct_cell_integer(cell, (int64_t)block->count);
    case CT_BLOCKS_executed:
        return ct_cell_integer(cell, (int64_t)block->executed);
    case CT_BLOCKS_function:
        return ct_cell_known(cell, block->name);
    case CT_BLOCKS_into:
        return ct_cell_integer(cell, (int64_t)block->into);
    default:
        return;
    }
}

static void close_blocks(struct ct_list *list) {
    ct_block_report_free(list->memory);
}

/* ---- histogram(name): pairs of a row of the report and a power of two ---- */

static int open_histogram(struct ct_list *list, const struct ct_ask *ask) {
    const char *const globs[] = {ask->text, NULL};
    struct ct_report *report = NULL;
    if (!ask->text)
        return 0;
    const struct ct_report_options options = {
        .select = {.functions = globs}, .sort = CT_REPORT_BY_TOTAL, .times = true};
    int status = ct_report_make(&report, list->rows.source->trace, &options);
    if (status)
        return status;
    list->memory = report;
    for (size_t i = 0; i < report->row_count; i++)
        for (unsigned power = 0; report->rows[i].times && power < 64; power++)
            if (ct_histogram_count(report->rows[i].times, power) && !ct_list_add(list, i, power))
                return CT_ERR_NO_MEMORY;
    return 0;
}

static void histogram_cell(struct ct_list *list, size_t number, int column, struct ct_cell *cell) {
    const struct ct_list_pair *pair = &list->pairs[number];
    const struct ct_report_row *row = &((struct ct_report *)list->memory)->rows[pair->first];
    unsigned power = (unsigned)pair->second;
    switch (column) {
    case CT_HISTOGRAM_process:
        return ct_cell_integer(cell, (int64_t)row->process + 1);
    case CT_HISTOGRAM_function:
        ct_cell_text(cell, row->name);
        cell->lasts = false;
        return;
    case CT_HISTOGRAM_low:
        return ct_cell_integer(cell, power ? INT64_C(1) << power : 0);
    case CT_HISTOGRAM_high:
        return ct_cell_integer(cell, power < 62 ? INT64_C(1) << (power + 1) : INT64_MAX);
    case CT_HISTOGRAM_calls:
        return ct_cell_integer(cell, (int64_t)ct_histogram_count(row->times, power));
    default:
        return;
    }
}

static void close_histogram(struct ct_list *list) {
    ct_report_free(list->memory);
}

/* ---- all of them ---- */

const struct ct_list_class *ct_list_of_moments(enum ct_table_id table) {
    static const struct ct_list_class classes[CT_TABLE_COUNT] = {
        [CT_TABLE_LINES] = {open_lines, line_cell, NULL},
        [CT_TABLE_MARKS] = {open_marks, mark_cell, close_marks},
        [CT_TABLE_WINDOWS] = {open_windows, window_cell, close_windows},
        [CT_TABLE_LOSSES] = {open_losses, loss_cell, NULL},
        [CT_TABLE_BLOCKS] = {open_blocks, block_cell, close_blocks},
        [CT_TABLE_HISTOGRAM] = {open_histogram, histogram_cell, close_histogram},
    };
    return &classes[table];
}
