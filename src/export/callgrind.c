/* SPDX-License-Identifier: Apache-2.0 */
/* callgrind: the cost of each function itself, and the cost of its calls of other functions with everything below them.
 * All threads and processes together. Two costs: nanoseconds and calls.
 *
 * A call of a function by itself has no cost of its own: programs that add up costs would count it twice. */
#include "export/text.h"
#include "export/walk.h"
#include "base/grow.h"
#include <contrail/contrail.h>
#include <stdlib.h>

struct edge {
    struct ct_table_key key; /* numbers of caller and callee */
    uint64_t calls, ns, inner_calls;
};

struct callgrind {
    struct ct_export *e;
    struct ct_table edges;
    struct cost {
        uint64_t calls, self_ns;
    } * costs; /* by number of the name */
    size_t cost_room;
    uint64_t total_ns, total_calls;
    bool unknown_named; /* the placeholder for unknown files has its number */
};

/* ---- counting ---- */

/* A call that was made `times` is over, or goes on. */
static void add_edge(struct callgrind *c, size_t caller, uint64_t callee, uint64_t times, uint64_t ns, uint64_t calls) {
    struct edge *edge = ct_table_get(&c->edges, caller, callee, sizeof *edge);
    if (!edge) {
        ct_export_fail(c->e, CT_ERR_NO_MEMORY);
        return;
    }
    edge->calls += times;
    if (caller == callee)
        return;
    edge->ns += ns;
    edge->inner_calls += calls;
}

static void add_cost(struct callgrind *c, uint64_t number, uint64_t calls, uint64_t self_ns) {
    if (!ct_grow_zeroed(&c->costs, &c->cost_room, number, sizeof *c->costs, 256)) {
        ct_export_fail(c->e, CT_ERR_NO_MEMORY);
        return;
    }
    c->costs[number].calls += calls;
    c->costs[number].self_ns += self_ns;
    c->total_calls += calls;
    c->total_ns += self_ns;
}

static void on_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    (void)caller;
    if (!span->continued && !span->context)
        add_cost(w->arg, span->name->number, 1, 0);
}

static void on_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    struct callgrind *c = w->arg;
    if (how == CT_SPAN_MOVED)
        return;
    uint64_t self = how == CT_SPAN_LOST || span->context ? 0 : span->self_ns; /* as in the report */
    uint64_t ns = span->inner_ns + self, calls = span->inner_calls + !span->context;
    add_cost(c, span->name->number, 0, self);
    if (!caller)
        return;
    caller->inner_ns += ns;
    caller->inner_calls += calls;
    add_edge(c, caller->name->number, span->name->number, 1, ns, calls);
}

static void on_entry(struct ct_walk *w, struct ct_name *name, struct ct_span *caller) {
    struct callgrind *c = w->arg;
    add_cost(c, name->number, 1, 0);
    if (!caller)
        return;
    caller->inner_calls++;
    add_edge(c, caller->name->number, name->number, 1, 0, 1);
}

/* ---- parts of a thread ---- */

/* What calls below have cost so far is counted, and nothing is left: who ends the call counts the rest. */
static void on_settle(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    uint64_t ns = span->inner_ns, calls = span->inner_calls;
    span->inner_ns = span->inner_calls = 0;
    if (!caller || (!ns && !calls))
        return;
    caller->inner_ns += ns;
    caller->inner_calls += calls;
    add_edge(w->arg, caller->name->number, span->name->number, 0, ns, calls);
}

static bool on_part(struct ct_walk *part, const struct ct_walk *whole) {
    ((struct callgrind *)part->arg)->e = whole->e;
    for (struct ct_span *span = part->lanes[0].top; span; span = span->below)
        span->inner_ns = span->inner_calls = 0;
    return true;
}

static void on_part_end(struct ct_walk *whole, struct ct_walk *part) {
    struct callgrind *c = whole->arg, *from = part->arg;
    for (size_t i = 0; i < from->edges.capacity; i++) {
        const struct edge *edge = (struct edge *)from->edges.slots[i];
        if (edge)
            add_edge(c, edge->key.process, edge->key.function, edge->calls, edge->ns, edge->inner_calls);
    }
    for (size_t i = 0; i < from->cost_room; i++)
        if (from->costs[i].calls || from->costs[i].self_ns)
            add_cost(c, i, from->costs[i].calls, from->costs[i].self_ns);
    ct_table_free(&from->edges, NULL);
    free(from->costs);
}

/* ---- the file ---- */

static int compare_edges(const void *a, const void *b) {
    const struct edge *x = *(struct edge *const *)a, *y = *(struct edge *const *)b;
    if (x->key.process != y->key.process)
        return x->key.process < y->key.process ? -1 : 1;
    return x->key.function < y->key.function ? -1 : x->key.function > y->key.function;
}

static size_t module_of(const struct ct_export *e, const struct ct_name *name) {
    for (size_t i = 0; i < ct_trace_module_count(e->trace); i++) {
        const struct ct_trace_module *module = ct_trace_module_at(e->trace, i);
        if (module->process == name->key.process && module->id == name->key.function >> 32)
            return i + 1;
    }
    return 0;
}

/* Writes `key`=(N), with the name the first time. */
static void put_reference(struct ct_out *out, const char *key, uint64_t number, const char *name) {
    ct_out_text(out, key);
    ct_out_text(out, "=(");
    ct_out_number(out, number);
    ct_out_text(out, ")");
    if (name) {
        ct_out_text(out, " ");
        ct_text_put(out, name, "");
    }
    ct_out_text(out, "\n");
}

static void put_function(struct callgrind *c, struct ct_name *name, bool *modules, bool called) {
    struct ct_out *out = &c->e->out;
    size_t module = module_of(c->e, name);
    const char *path = module ? ct_trace_module_at(c->e->trace, module - 1)->path : "???";
    put_reference(out, called ? "cob" : "ob", module + 1, modules[module] ? NULL : path);
    modules[module] = true;
    if (name->file)
        put_reference(out, called ? "cfl" : "fl", name->number + 2, name->mark ? NULL : name->file);
    else
        put_reference(out, called ? "cfl" : "fl", 1, c->unknown_named ? NULL : "???");
    c->unknown_named |= !name->file;
    put_reference(out, called ? "cfn" : "fn", name->number + 1, name->mark ? NULL : name->name);
    name->mark = 1;
}

static void put_costs(struct ct_out *out, uint64_t line, uint64_t ns, uint64_t calls) {
    ct_out_number(out, line);
    ct_out_text(out, " ");
    ct_out_number(out, ns);
    ct_out_text(out, " ");
    ct_out_number(out, calls);
    ct_out_text(out, "\n");
}

static void put_functions(struct callgrind *c, struct edge *const *edges, size_t edge_count, bool *modules) {
    struct ct_out *out = &c->e->out;
    size_t at = 0;
    for (size_t i = 0; i < c->e->names.count; i++) {
        struct ct_name *name = c->e->names.list[i];
        put_function(c, name, modules, false);
        const struct cost *cost = i < c->cost_room ? &c->costs[i] : &(struct cost){0};
        put_costs(out, name->line, cost->self_ns, cost->calls);
        for (; at < edge_count && edges[at]->key.process == i; at++) {
            struct ct_name *callee = c->e->names.list[edges[at]->key.function];
            put_function(c, callee, modules, true);
            ct_out_text(out, "calls=");
            ct_out_number(out, edges[at]->calls);
            ct_out_text(out, " ");
            ct_out_number(out, callee->line);
            ct_out_text(out, "\n");
            put_costs(out, name->line, edges[at]->ns, edges[at]->inner_calls);
        }
        ct_out_text(out, "\n");
    }
}

static void put_head(struct callgrind *c) {
    struct ct_export *e = c->e;
    struct ct_out *out = &e->out;
    ct_out_format(out, "# callgrind format\nversion: 1\ncreator: contrail %s\n", ct_version());
    if (e->result->processes) {
        ct_out_format(out, "pid: %d\ncmd: ", ct_trace_process_at(e->trace, 0)->pid);
        ct_text_put(out, ct_export_manifest_text(e, 0, "command_line", ""), "");
    }
    ct_out_text(
        out, "\npositions: line\nevent: Time_ns : Time (ns)\nevent: Calls : Calls\nevents: Time_ns Calls\nsummary: ");
    ct_out_number(out, c->total_ns);
    ct_out_text(out, " ");
    ct_out_number(out, c->total_calls);
    ct_out_text(out, "\n\n");
}

static int put_file(struct callgrind *c) {
    struct edge **edges = calloc(c->edges.count + 1, sizeof(struct edge *));
    bool *modules = calloc(ct_trace_module_count(c->e->trace) + 2, sizeof *modules);
    size_t count = 0;
    if (!edges || !modules) {
        free(edges);
        free(modules);
        return CT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < c->edges.capacity; i++)
        if (c->edges.slots[i])
            edges[count++] = (struct edge *)c->edges.slots[i];
    qsort(edges, count, sizeof(struct edge *), compare_edges);
    put_head(c);
    put_functions(c, edges, count, modules);
    free(edges);
    free(modules);
    return 0;
}

int ct_export_callgrind(struct ct_export *e) {
    static const struct ct_walk_sharing sharing = {
        .size = sizeof(struct callgrind), .begin = on_part, .settle = on_settle, .end = on_part_end};
    static const struct ct_walk_format format = {
        .sharing = &sharing, .begin = on_begin, .end = on_end, .entry = on_entry};
    struct callgrind c = {.e = e};
    int status = ct_walk_trace(e, &format, &c);
    if (!status)
        status = put_file(&c);
    ct_table_free(&c.edges, NULL);
    free(c.costs);
    return status;
}
