/* SPDX-License-Identifier: Apache-2.0 */
/* See blocks.h. The blocks of each file are counted in an array, by their numbers. The result is appended to the rows,
 * which are merged whenever they have doubled. */
#include "report/blocks.h"
#include "base/grow.h"
#include "symbols/lookup.h"
#include "trace/code_file.h"
#include "trace/reader.h"
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES (1u << 20)

enum { ROOM_LEAST = 4096 };

struct work {
    struct ct_block_report *report;
    struct ct_trace *trace;
    const struct ct_block_options *options;
    size_t room, together;        /* rows that fit into memory; rows after the last merge */
    struct ct_block_row *counted; /* blocks of the current file, by number */
    size_t counted_room;
};

/* ---- merging ---- */

static int compare_places(const void *a, const void *b) {
    const struct ct_block_row *x = a, *y = b;
#define BY(member)                                                                                                     \
    if (x->member != y->member)                                                                                        \
        return x->member < y->member ? -1 : 1;
    BY(process)
    BY(module)
    BY(offset)
    BY(size)
    BY(insns)
    BY(thread)
#undef BY
    return 0;
}

static void put_together(struct work *w) {
    struct ct_block_report *r = w->report;
    size_t kept = 0;
    if (r->row_count)
        qsort(r->rows, r->row_count, sizeof *r->rows, compare_places);
    for (size_t i = 0; i < r->row_count; i++) {
        if (kept && compare_places(&r->rows[kept - 1], &r->rows[i]) == 0) {
            r->rows[kept - 1].count += r->rows[i].count;
            r->rows[kept - 1].executed += r->rows[i].executed;
        } else {
            r->rows[kept++] = r->rows[i];
        }
    }
    w->together = r->row_count = kept;
}

static int append_row(struct work *w, const struct ct_block_row *row) {
    struct ct_block_report *r = w->report;
    if (!ct_grow(&r->rows, &w->room, r->row_count, sizeof *r->rows, ROOM_LEAST))
        return CT_ERR_NO_MEMORY;
    r->rows[r->row_count++] = *row;
    return 0;
}

/* ---- counting ---- */

static struct ct_block_row *counted_row(struct work *w, uint32_t number) {
    bool room = ct_grow_zeroed(&w->counted, &w->counted_room, number, sizeof *w->counted, 1024);
    return room ? &w->counted[number] : NULL;
}

static int count_record(struct work *w, const struct ct_code_record *record) {
    if (record->what == CT_CODE_LOST)
        w->report->lost += record->count;
    if (record->what != CT_CODE_RAN)
        return 0;
    struct ct_block_row *row = counted_row(w, record->number);
    if (!row)
        return CT_ERR_NO_MEMORY;
    if (!row->count)
        *row = (struct ct_block_row){.module = record->block.module,
                                     .size = record->block.size,
                                     .insns = record->block.insns,
                                     .offset = record->block.offset};
    row->count++;
    row->executed += record->executed;
    w->report->count++;
    w->report->executed += record->executed;
    return 0;
}

static int count_thread(struct work *w, size_t thread) {
    const struct ct_trace_thread *info = ct_trace_thread_at(w->trace, thread);
    struct ct_code_reader *reader;
    struct ct_code_record record;
    int status = ct_code_reader_open(&reader, w->trace->processes[info->process].directory, info->id), more = 0;
    if (status == CT_ERR_NOT_FOUND)
        return 0;
    if (status == CT_ERR_BAD_FILE)
        w->report->damaged++;
    if (status)
        return status == CT_ERR_BAD_FILE ? 0 : status;
    w->report->threads++;
    while (!status && (more = ct_code_reader_next(reader, &record)) > 0)
        status = count_record(w, &record);
    w->report->damaged += more < 0;
    ct_code_reader_close(reader);
    for (size_t i = 0; !status && i < w->counted_room; i++) {
        w->counted[i].process = info->process;
        w->counted[i].thread = w->options->per_thread ? thread : SIZE_MAX;
        status = w->counted[i].count ? append_row(w, &w->counted[i]) : 0;
        w->counted[i].count = 0;
    }
    if (w->report->row_count > 2 * w->together + ROOM_LEAST)
        put_together(w);
    return status;
}

/* ---- names, filters, order ---- */

static const struct ct_trace_function *name_row(const struct work *w, struct ct_block_row *row) {
    struct ct_trace_place at = ct_trace_place(w->trace, row->process, row->module, row->offset);
    row->module_name = at.module;
    row->name = at.function && *at.function->linkage_name ? at.function->name : "";
    row->into = at.function ? row->offset - at.function->offset : 0;
    return at.function;
}

static bool is_wanted(const struct work *w, struct ct_block_row *row) {
    const struct ct_select *select = &w->options->select;
    if (row->count < w->options->min_count)
        return false;
    if (!select->functions && !select->modules)
        return true;
    const struct ct_trace_function *f = name_row(w, row);
    return ct_select_by(select->modules, row->module_name) &&
           (!select->functions || (f && ct_select_function(select->functions, f)));
}

/* Breaks ties by place, so that the order is the same every time. */
static int compare_counts(const void *a, const void *b) {
    const struct ct_block_row *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->executed != y->executed)
        return x->executed > y->executed ? -1 : 1;
    return compare_places(a, b);
}

static void arrange_rows(struct work *w) {
    struct ct_block_report *r = w->report;
    size_t kept = 0;
    put_together(w);
    for (size_t i = 0; i < r->row_count; i++)
        if (is_wanted(w, &r->rows[i]))
            r->rows[kept++] = r->rows[i];
    r->matched = r->row_count = kept;
    if (kept)
        qsort(r->rows, kept, sizeof *r->rows, compare_counts);
    if (w->options->limit && kept > w->options->limit)
        r->row_count = w->options->limit;
    for (size_t i = 0; i < r->row_count; i++)
        (void)name_row(w, &r->rows[i]);
}

/* ---- lines ---- */

static int find_lines(struct work *w) {
    struct ct_lookup *lookup = ct_lookup_create(
        &(struct ct_lookup_options){.directories = w->options->directories, .cache_bytes = CACHE_BYTES});
    int status = lookup ? 0 : CT_ERR_NO_MEMORY;
    for (size_t i = 0; !status && i < w->report->row_count; i++) {
        struct ct_block_row *row = &w->report->rows[i];
        struct ct_symbols_module m = ct_symbols_module_of(ct_trace_symbols(w->trace, row->process), row->module);
        if (!row->module || !m.path)
            continue;
        struct ct_lookup_module *module = ct_lookup_module(lookup, m.path, m.build_id);
        if (!module)
            status = CT_ERR_NO_MEMORY;
        else if (*m.build_id || ct_lookup_has_function(lookup, module, row->offset - row->into))
            row->line = strdup(ct_lookup_line_at(lookup, module, row->offset));
        w->report->lines += row->line && *row->line;
        if (module && !*w->report->line_problem)
            w->report->line_problem = ct_lookup_module_problem(module);
    }
    ct_lookup_destroy(lookup);
    return status;
}

int ct_block_report_make(struct ct_block_report **out, struct ct_trace *trace, const struct ct_block_options *options) {
    struct work w = {.report = calloc(1, sizeof *w.report), .trace = trace, .options = options};
    int status = w.report ? 0 : CT_ERR_NO_MEMORY;
    if (w.report)
        w.report->line_problem = "";
    for (size_t i = 0; !status && i < ct_trace_thread_count(trace); i++)
        if (ct_select_thread(&options->select, trace, i))
            status = count_thread(&w, i);
    if (!status)
        arrange_rows(&w);
    if (!status && options->lines)
        status = find_lines(&w);
    free(w.counted);
    if (status)
        ct_block_report_free(w.report);
    *out = status ? NULL : w.report;
    return status;
}

void ct_block_report_free(struct ct_block_report *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->row_count; i++)
        free(r->rows[i].line);
    free(r->rows);
    free(r);
}
