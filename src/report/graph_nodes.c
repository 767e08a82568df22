/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of callers and callees: lookup, order, limit, JSON. */
#include "base/grow.h"
#include "report/graph.h"
#include "base/json_write.h"
#include <stdlib.h>
#include <string.h>

struct ct_graph_node *ct_graph_child(struct ct_graph_node *parent, const struct ct_cached_function *known) {
    for (size_t i = 0; i < parent->child_count; i++) {
        struct ct_graph_node *child = parent->children[i];
        if (child->known != known)
            continue;
        parent->children[i] = parent->children[i / 2]; /* frequent callees move to the front */
        parent->children[i / 2] = child;
        return child;
    }
    if (!ct_grow(&parent->children, &parent->child_capacity, parent->child_count, sizeof *parent->children, 4))
        return NULL;
    struct ct_graph_node *child = calloc(1, sizeof *child);
    if (!child)
        return NULL;
    child->known = known;
    child->depth = parent->depth + 1;
    parent->children[parent->child_count++] = child;
    return child;
}

/* ---- order and limit ---- */

static uint64_t key_of(const struct ct_graph_node *node, enum ct_graph_sort sort) {
    switch (sort) {
    case CT_GRAPH_BY_TOTAL:
        return node->total_ns;
    case CT_GRAPH_BY_SELF:
        return node->self_ns;
    case CT_GRAPH_BY_CALLS:
        return node->calls;
    case CT_GRAPH_BY_NAME:
        break;
    }
    return 0;
}

static int compare_nodes(const struct ct_graph_node *x, const struct ct_graph_node *y, enum ct_graph_sort sort) {
    uint64_t kx = key_of(x, sort), ky = key_of(y, sort);
    if (kx != ky)
        return kx < ky ? 1 : -1;
    if (sort != CT_GRAPH_BY_NAME && x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    if (!x->known || !y->known)
        return !x->known - !y->known;
    int order = strcmp(x->known->name, y->known->name);
    if (!order)
        order = strcmp(x->known->module, y->known->module);
    if (order)
        return order;
    const struct ct_table_key *a = &x->known->key, *b = &y->known->key;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return a->function < b->function ? -1 : a->function > b->function;
}

static int compare_children(const void *a, const void *b, void *sort) {
    return compare_nodes(*(struct ct_graph_node *const *)a, *(struct ct_graph_node *const *)b,
                         *(const enum ct_graph_sort *)sort);
}

static int compare_functions(const void *a, const void *b, void *sort) {
    const struct ct_graph_function *x = *(struct ct_graph_function *const *)a;
    const struct ct_graph_function *y = *(struct ct_graph_function *const *)b;
    return compare_nodes(&x->callees, &y->callees, *(const enum ct_graph_sort *)sort);
}

static size_t shown_count(size_t count, uint64_t limit) {
    return limit && count > limit ? (size_t)limit : count;
}

void ct_graph_arrange_node(struct ct_graph_node *node, enum ct_graph_sort sort, uint64_t limit) {
    if (node->child_count)
        qsort_r(node->children, node->child_count, sizeof(struct ct_graph_node *), compare_children, &sort);
    node->shown = shown_count(node->child_count, limit);
    node->child_calls = 0;
    for (size_t i = 0; i < node->child_count; i++) {
        node->child_calls += node->children[i]->calls;
        ct_graph_arrange_node(node->children[i], sort, limit);
    }
}

void ct_graph_arrange(struct ct_graph *g, enum ct_graph_sort sort, uint64_t limit) {
    if (g->function_count)
        qsort_r(g->functions, g->function_count, sizeof(struct ct_graph_function *), compare_functions, &sort);
    g->shown = shown_count(g->function_count, limit);
    for (size_t i = 0; i < g->function_count; i++) {
        ct_graph_arrange_node(&g->functions[i]->callers, sort, limit);
        ct_graph_arrange_node(&g->functions[i]->callees, sort, limit);
    }
}

void ct_graph_free_children(struct ct_graph_node *node) {
    for (size_t i = 0; i < node->child_count; i++) {
        ct_graph_free_children(node->children[i]);
        free(node->children[i]);
    }
    free(node->children);
}

/* ---- JSON ---- */

static void name_json(const struct ct_cached_function *known, struct ct_json *json) {
    if (!known)
        return;
    ct_json_string(json, "name", known->name);
    ct_json_string(json, "module", known->module);
}

static void children_json(const struct ct_graph_node *node, const struct ct_graph_function *f, const char *key,
                          struct ct_json *json) {
    bool callers = !strcmp(key, "callers");
    uint64_t calls = callers ? f->callers.calls : node->child_calls, time = f->callers.total_ns;
    ct_json_begin(json, key, '[');
    for (size_t i = 0; i < node->shown; i++) {
        const struct ct_graph_node *child = node->children[i];
        ct_json_begin(json, NULL, '{');
        name_json(child->known, json);
        ct_json_number(json, "calls", child->calls);
        ct_json_real(json, "calls_share", calls ? (double)child->calls / (double)calls : 0);
        if (child->timed) {
            ct_json_number(json, "total_ns", child->total_ns);
            ct_json_real(json, "total_share", time ? (double)child->total_ns / (double)time : 0);
            ct_json_number(json, "self_ns", child->self_ns);
        }
        if (child->child_count)
            children_json(child, f, key, json);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void function_json(const struct ct_graph_function *f, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    name_json(f->callers.known, json);
    ct_json_number(json, "calls", f->callers.calls);
    ct_json_bool(json, "entry_only", f->callers.known->entry_only);
    if (f->callers.timed) {
        ct_json_number(json, "total_ns", f->callers.total_ns);
        ct_json_number(json, "self_ns", f->callers.self_ns);
    }
    ct_json_number(json, "exceptions", f->exceptions);
    ct_json_number(json, "open", f->open);
    ct_json_number(json, "unpaired", f->unpaired);
    children_json(&f->callers, f, "callers", json);
    children_json(&f->callees, f, "callees", json);
    ct_json_end(json, '}');
}

void ct_graph_json(const struct ct_graph *g, const struct ct_trace *trace, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "trace", ct_trace_path(trace));
    ct_json_number(json, "threads", g->threads);
    ct_json_number(json, "gaps", g->gaps);
    ct_json_number(json, "lost", g->lost);
    ct_json_number(json, "matched", g->function_count);
    ct_json_begin(json, "functions", '[');
    for (size_t i = 0; i < g->shown; i++)
        function_json(g->functions[i], json);
    ct_json_end(json, ']');
    ct_json_end(json, '}');
}
