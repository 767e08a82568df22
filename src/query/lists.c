/* SPDX-License-Identifier: Apache-2.0 */
/* Tables whose rows are in memory: threads, processes, modules, functions and edges. Others are in moments.c. */
#include "query/lists.h"
#include "query/edges.h"
#include "base/grow.h"
#include "trace/reader.h"
#include <stdlib.h>
#include <string.h>

/* ---- threads ---- */

static int count_threads(struct ct_list *list, const struct ct_ask *ask) {
    struct ct_source *s = list->rows.source;
    (void)ask;
    list->count = ct_trace_thread_count(s->trace);
    return 0;
}

static void thread_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    struct ct_source *s = list->rows.source;
    const struct ct_trace_thread *thread = ct_trace_thread_at(s->trace, row);
    struct atf_index_event first;
    switch (column) {
    case CT_THREADS_id:
        return ct_cell_integer(cell, (int64_t)row + 1);
    case CT_THREADS_process:
        return ct_cell_integer(cell, (int64_t)thread->process + 1);
    case CT_THREADS_tid:
        return ct_cell_integer(cell, thread->tid);
    case CT_THREADS_name:
        return ct_cell_text(cell, thread->name);
    case CT_THREADS_events:
        return ct_cell_integer(cell, (int64_t)thread->event_count);
    case CT_THREADS_lost:
        return ct_cell_integer(cell, (int64_t)thread->lost);
    case CT_THREADS_start: /* reads one block */
        if (ct_index_read(&s->trace->threads[row].index, thread->first_sequence, &first, 1))
            ct_cell_integer(cell, ct_source_time(s, first.timestamp_ns));
        return;
    case CT_THREADS_cut:
        return ct_cell_integer(cell, thread->cut);
    case CT_THREADS_detail:
        return ct_cell_integer(cell, thread->has_detail);
    default:
        return;
    }
}

/* ---- processes ---- */

static int count_processes(struct ct_list *list, const struct ct_ask *ask) {
    struct ct_source *s = list->rows.source;
    (void)ask;
    const struct ct_processes *processes = ct_source_processes(s);
    list->count = processes ? processes->count : 0;
    return processes ? 0 : CT_ERR_NO_MEMORY;
}

static void process_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    struct ct_source *s = list->rows.source;
    const struct ct_process_row *process = &s->processes.rows[row];
    const struct ct_trace_process *info = ct_trace_process_at(s->trace, process->process);
    switch (column) {
    case CT_PROCESSES_id:
        return ct_cell_integer(cell, (int64_t)process->process + 1);
    case CT_PROCESSES_pid:
        return ct_cell_integer(cell, info->pid);
    case CT_PROCESSES_parent:
        if (process->parent != SIZE_MAX)
            ct_cell_integer(cell, (int64_t)process->parent + 1);
        return;
    case CT_PROCESSES_program:
        return ct_cell_known(cell, ct_trace_program(s->trace, process->process));
    case CT_PROCESSES_command:
        return ct_cell_known(cell, process->command_line);
    case CT_PROCESSES_start:
        return ct_cell_integer(cell, ct_source_time(s, process->start_ns));
    case CT_PROCESSES_stop:
        return ct_cell_integer(cell, ct_source_time(s, process->end_ns));
    case CT_PROCESSES_ended:
        return ct_cell_known(cell, process->ended);
    case CT_PROCESSES_threads:
        return ct_cell_integer(cell, (int64_t)info->thread_count);
    case CT_PROCESSES_modules:
        return ct_cell_integer(cell, (int64_t)info->module_count);
    case CT_PROCESSES_events:
        return ct_cell_integer(cell, (int64_t)process->events);
    case CT_PROCESSES_complete:
        return ct_cell_integer(cell, info->complete);
    default:
        return;
    }
}

/* ---- modules ---- */

static int count_modules(struct ct_list *list, const struct ct_ask *ask) {
    struct ct_source *s = list->rows.source;
    (void)ask;
    list->count = ct_trace_module_count(s->trace);
    return 0;
}

static void module_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    struct ct_source *s = list->rows.source;
    const struct ct_trace_module *module = ct_trace_module_at(s->trace, row);
    const char *slash = strrchr(module->path, '/');
    switch (column) {
    case CT_MODULES_id:
        return ct_cell_integer(cell, module->id);
    case CT_MODULES_process:
        return ct_cell_integer(cell, (int64_t)module->process + 1);
    case CT_MODULES_module:
        return ct_cell_text(cell, slash ? slash + 1 : module->path);
    case CT_MODULES_path:
        return ct_cell_text(cell, module->path);
    case CT_MODULES_build_id:
        return ct_cell_known(cell, module->build_id);
    case CT_MODULES_base:
        return ct_cell_integer(cell, (int64_t)module->base);
    case CT_MODULES_functions:
        return ct_cell_integer(cell, (int64_t)module->functions);
    case CT_MODULES_hooked:
        return ct_cell_integer(cell, (int64_t)module->hooked);
    case CT_MODULES_entry_only:
        return ct_cell_integer(cell, (int64_t)module->entry_only);
    default:
        return;
    }
}

/* ---- functions ---- */

static int count_functions(struct ct_list *list, const struct ct_ask *ask) {
    struct ct_source *s = list->rows.source;
    (void)ask;
    const struct ct_report *report = ct_source_report(s);
    list->count = report ? report->row_count : 0;
    return report ? 0 : CT_ERR_NO_MEMORY;
}

/* Columns from CT_FUNCTIONS_total to CT_FUNCTIONS_preempted. */
static void function_time(const struct ct_report *report, const struct ct_report_row *row, int column,
                          struct ct_cell *cell) {
    const uint64_t times[] = {row->total_ns, row->self_ns, row->avg_ns, row->max_ns,     row->p50_ns,
                              row->p95_ns,   row->p99_ns,  row->cpu_ns, row->blocked_ns, row->preempted_ns};
    bool known = column < CT_FUNCTIONS_cpu ? row->timed != 0 : report->cpu_threads != 0;
    if (known)
        ct_cell_integer(cell, (int64_t)times[column - CT_FUNCTIONS_total]);
}
_Static_assert(CT_FUNCTIONS_preempted - CT_FUNCTIONS_total == 9, "the times are in this order");

static void function_cell(struct ct_list *list, size_t number, int column, struct ct_cell *cell) {
    struct ct_source *s = list->rows.source;
    const struct ct_report_row *row = &s->report->rows[number];
    switch (column) {
    case CT_FUNCTIONS_id:
        return ct_cell_integer(cell, (int64_t)row->function);
    case CT_FUNCTIONS_process:
        return ct_cell_integer(cell, (int64_t)row->process + 1);
    case CT_FUNCTIONS_function:
        return ct_cell_text(cell, row->name);
    case CT_FUNCTIONS_module:
        return ct_cell_text(cell, row->module);
    case CT_FUNCTIONS_calls:
        return ct_cell_integer(cell, (int64_t)row->calls);
    case CT_FUNCTIONS_exceptions:
        return ct_cell_integer(cell, (int64_t)row->exceptions);
    case CT_FUNCTIONS_open:
        return ct_cell_integer(cell, (int64_t)row->open);
    case CT_FUNCTIONS_unpaired:
        return ct_cell_integer(cell, (int64_t)row->unpaired);
    case CT_FUNCTIONS_line:
        return ct_cell_known(cell, row->known ? row->known->line : NULL);
    default:
        return function_time(s->report, row, column, cell);
    }
}

/* ---- edges ---- */

static int count_edges(struct ct_list *list, const struct ct_ask *ask) {
    const struct ct_edges *edges;
    (void)ask;
    int status = ct_source_edges(list->rows.source, &edges);
    list->count = status ? 0 : edges->count;
    return status;
}

static void edge_name(struct ct_source *s, const struct ct_edge *edge, int column, struct ct_cell *cell) {
    bool caller = column == CT_EDGES_caller || column == CT_EDGES_caller_module;
    bool module = column == CT_EDGES_caller_module || column == CT_EDGES_callee_module;
    uint64_t function = caller ? edge->caller : edge->callee;
    const struct ct_cached_function *known =
        function ? ct_function_cache_get(&s->names, edge->process, function) : NULL;
    if (known)
        ct_cell_text(cell, module ? known->module : known->name);
}

static void edge_cell(struct ct_list *list, size_t row, int column, struct ct_cell *cell) {
    struct ct_source *s = list->rows.source;
    const struct ct_edge *edge = &s->edges.items[row];
    switch (column) {
    case CT_EDGES_process:
        return ct_cell_integer(cell, (int64_t)edge->process + 1);
    case CT_EDGES_calls:
        return ct_cell_integer(cell, (int64_t)edge->calls);
    case CT_EDGES_total:
    case CT_EDGES_self:
    case CT_EDGES_max:
        if (edge->timed)
            ct_cell_integer(cell, (int64_t)(column == CT_EDGES_total  ? edge->total_ns
                                            : column == CT_EDGES_self ? edge->self_ns
                                                                      : edge->max_ns));
        return;
    case CT_EDGES_caller_id:
        if (edge->caller)
            ct_cell_integer(cell, (int64_t)edge->caller);
        return;
    case CT_EDGES_callee_id:
        return ct_cell_integer(cell, (int64_t)edge->callee);
    default:
        return edge_name(s, edge, column, cell);
    }
}

/* ---- all of them ---- */

static const struct ct_list_class lists[CT_TABLE_COUNT] = {
    [CT_TABLE_FUNCTIONS] = {count_functions, function_cell},
    [CT_TABLE_THREADS] = {count_threads, thread_cell},
    [CT_TABLE_PROCESSES] = {count_processes, process_cell},
    [CT_TABLE_MODULES] = {count_modules, module_cell},
    [CT_TABLE_EDGES] = {count_edges, edge_cell},
};

static const struct ct_list_class *class_of(const struct ct_rows *rows) {
    const struct ct_list_class *class = &lists[rows->table];
    return class->open ? class : ct_list_of_moments(rows->table);
}

static int open_list(struct ct_rows *rows, const struct ct_ask *ask) {
    return class_of(rows)->open((struct ct_list *)rows, ask);
}

static int next_row(struct ct_rows *rows) {
    struct ct_list *list = (struct ct_list *)rows;
    rows->id = (int64_t)list->next + 1;
    return list->next++ < list->count;
}

static void get_cell(struct ct_rows *rows, int column, struct ct_cell *cell) {
    struct ct_list *list = (struct ct_list *)rows;
    cell->type = CT_CELL_NULL;
    class_of(rows)->cell(list, list->next - 1, column, cell);
}

static void close_list(struct ct_rows *rows) {
    struct ct_list *list = (struct ct_list *)rows;
    if (class_of(rows)->close)
        class_of(rows)->close(list);
    free(list->pairs);
}

bool ct_list_add(struct ct_list *list, uint64_t first, uint64_t second) {
    if (!ct_grow(&list->pairs, &list->room, list->count, sizeof *list->pairs, 64))
        return false;
    list->pairs[list->count++] = (struct ct_list_pair){first, second};
    return true;
}

const struct ct_rows_class ct_rows_list = {
    .size = sizeof(struct ct_list), .open = open_list, .next = next_row, .cell = get_cell, .close = close_list};
