/* SPDX-License-Identifier: Apache-2.0 */
/* See left_out.h. */
#include "report/left_out.h"
#include "base/json_write.h"
#include <stdlib.h>

static int most_calls_first(const void *a, const void *b) {
    const struct ct_left_out *x = a, *y = b;
    if (x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* When the function last came back. */
static uint64_t last_back(const struct ct_json_node *changes, uint64_t id) {
    uint64_t ns = 0;
    for (const struct ct_json_node *node = ct_json_first(changes); node; node = node->next)
        if (ct_json_u64(ct_json_get(node, "function", NULL), 0) == id)
            ns =
                ct_json_flag(ct_json_get(node, "out", NULL), false) ? 0 : ct_json_u64(ct_json_get(node, "ns", NULL), 0);
    return ns;
}

static int add_functions(struct ct_left_out_list *list, const struct ct_trace *trace, size_t process,
                         const struct ct_json_node *budget, uint64_t start_ns) {
    const struct ct_json_node *functions = ct_json_get(budget, "functions", NULL), *node = ct_json_first(functions);
    struct ct_left_out *items = node ? realloc(list->items, (list->count + functions->count) * sizeof *items) : NULL;
    if (node && !items)
        return CT_ERR_NO_MEMORY;
    for (list->items = items ? items : list->items; node; node = node->next) {
        uint64_t id = ct_json_u64(ct_json_get(node, "function", NULL), 0);
        uint64_t ns = ct_json_u64(ct_json_get(node, "first_out_ns", NULL), 0);
        bool out = ct_json_flag(ct_json_get(node, "out", NULL), false);
        struct ct_left_out one = {.pid = ct_trace_process_at(trace, process)->pid,
                                  .process = process,
                                  .id = id,
                                  .function = ct_trace_function(trace, process, id),
                                  .calls = ct_json_u64(ct_json_get(node, "calls", NULL), 0),
                                  .from_ns = ns > start_ns ? ns - start_ns : 0,
                                  .first_ns = ns,
                                  .back_ns = out ? 0 : last_back(ct_json_get(budget, "changes", NULL), id),
                                  .cost = ct_json_double(ct_json_get(node, "cost", NULL), 0),
                                  .out = out};
        list->out += one.out;
        list->items[list->count++] = one;
    }
    return 0;
}

/* Times count from the first event of the trace, as those of --from do. */
static uint64_t start_of(const struct ct_trace *trace) {
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t begin = ct_trace_process_at(trace, i)->time_start_ns;
        start = begin && begin < start ? begin : start;
    }
    return start;
}

static int read_process(struct ct_left_out_list *list, const struct ct_trace *trace, const struct ct_facts *facts,
                        size_t process) {
    const struct ct_json_node *root = facts->trees[process] ? ct_json_root(facts->trees[process]) : NULL;
    const struct ct_json_node *budget = root ? ct_json_get(root, "budget", NULL) : NULL;
    if (!budget)
        return 0;
    double limit = ct_json_double(ct_json_get(budget, "limit", NULL), 0);
    list->budget = true;
    list->processes++;
    list->limit = limit > list->limit ? limit : list->limit;
    double used = ct_json_double(ct_json_get(budget, "used_in_all", NULL), 0);
    list->used = used > list->used ? used : list->used;
    const struct ct_json_node *changes = ct_json_get(budget, "changes", NULL);
    list->changes += (changes ? changes->count : 0) + ct_json_u64(ct_json_get(budget, "more_changes", NULL), 0);
    list->stops += ct_json_u64(ct_json_get(budget, "stops", NULL), 0);
    list->stopped_ns += ct_json_u64(ct_json_get(budget, "stopped_ns", NULL), 0);
    return add_functions(list, trace, process, budget, start_of(trace));
}

int ct_left_out_read(struct ct_left_out_list *list, const struct ct_trace *trace, const struct ct_facts *facts,
                     size_t process) {
    int status = 0;
    *list = (struct ct_left_out_list){0};
    for (size_t i = 0; i < facts->process_count && !status; i++)
        if (process == SIZE_MAX || process == i)
            status = read_process(list, trace, facts, i);
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, most_calls_first);
    if (status)
        ct_left_out_free(list);
    return status;
}

void ct_left_out_free(struct ct_left_out_list *list) {
    free(list->items);
    *list = (struct ct_left_out_list){0};
}

void ct_left_out_filter(struct ct_left_out_list *list, bool (*fits)(void *arg, const struct ct_left_out *one),
                        void *arg) {
    size_t kept = 0;
    list->out = 0;
    for (size_t i = 0; i < list->count; i++)
        if (fits(arg, &list->items[i])) {
            list->out += list->items[i].out;
            list->items[kept++] = list->items[i];
        }
    list->count = kept;
}

void ct_left_out_json(const struct ct_left_out_list *list, struct ct_json *j) {
    if (!list->budget)
        return;
    ct_json_begin(j, "budget", '{');
    ct_json_real(j, "limit", list->limit);
    ct_json_real(j, "used", list->used);
    ct_json_number(j, "changes", list->changes);
    ct_json_number(j, "stops", list->stops);
    ct_json_number(j, "stopped_ns", list->stopped_ns);
    ct_json_end(j, '}');
    ct_json_begin(j, "left_out", '[');
    for (size_t i = 0; i < list->count; i++) {
        const struct ct_left_out *l = &list->items[i];
        ct_json_begin(j, NULL, '{');
        ct_json_signed(j, "pid", l->pid);
        ct_json_string(j, "name", l->function ? l->function->name : "");
        ct_json_string(j, "module", l->function ? l->function->module : "");
        ct_json_number(j, "calls", l->calls);
        ct_json_number(j, "from_ns", l->from_ns);
        ct_json_real(j, "cost", l->cost);
        ct_json_bool(j, "at_the_end", l->out);
        ct_json_end(j, '}');
    }
    ct_json_end(j, ']');
}
