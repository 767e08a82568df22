/* SPDX-License-Identifier: Apache-2.0 */
/* /api/flame: merged stacks as boxes. What is narrower than a part in 4,096 of the whole is left out: its caller shows
 * as having it. */
#include "base/grow.h"
#include "report/flame.h"
#include "trace/reader.h"
#include "view/cells.h"
#include "view/choice.h"
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4096, MOST_BOXES = 50000 };

struct flame {
    struct ct_view_answer *a;
    struct ct_view_used used;
    uint64_t total, boxes;
    bool by_self; /* widths are time of the functions' own */
};

/* The number of a node's function; -1: the caller was not recorded. */
static int64_t number_of(struct flame *f, const struct ct_graph_node *node) {
    if (!node->known)
        return -1;
    uint32_t number = ct_view_function(f->a, node->known->key.process, node->known->key.function);
    ct_view_use(&f->used, number);
    return number;
}

static void put_box(struct flame *f, uint64_t depth, uint64_t x, uint64_t width, int64_t number, uint64_t self,
                    uint64_t calls) {
    struct ct_json *json = &f->a->json;
    f->boxes++;
    ct_json_begin(json, NULL, '[');
    ct_json_number(json, NULL, depth);
    ct_json_number(json, NULL, x);
    ct_json_number(json, NULL, width);
    ct_json_signed(json, NULL, number);
    ct_json_number(json, NULL, self);
    ct_json_number(json, NULL, calls);
    ct_json_end(json, ']');
}

static bool is_seen(const struct flame *f, uint64_t width) {
    return width && f->boxes < MOST_BOXES && width >= f->total / PARTS;
}

/* Puts a node and what is below it. Returns its width: 0 when it is not seen. */
static uint64_t put_node(struct flame *f, const struct ct_graph_node *node, uint64_t depth, uint64_t x) {
    uint64_t width = f->by_self ? node->self_ns : node->total_ns, below = x;
    if (!is_seen(f, width))
        return 0;
    put_box(f, depth, x, width, number_of(f, node), node->self_ns, node->calls);
    for (size_t i = 0; i < node->child_count; i++)
        below += put_node(f, node->children[i], depth + 1, below);
    return width;
}

/* ---- merged ---- */

static void put_callees(struct flame *f, const struct ct_view_choice *c) {
    struct ct_flame *flame = NULL;
    uint64_t x = 0;
    const struct ct_flame_options options = {.select = c->select, .sort = CT_GRAPH_BY_TOTAL};
    int status = ct_flame_make(&flame, f->a->reader->trace, &options);
    if (status) {
        ct_view_fail(f->a, status);
        return;
    }
    for (size_t i = 0; i < flame->root.child_count; i++)
        f->total += flame->root.children[i]->total_ns;
    ct_json_begin(&f->a->json, "rows", '[');
    for (size_t i = 0; i < flame->root.child_count; i++)
        x += put_node(f, flame->root.children[i], 0, x);
    ct_json_end(&f->a->json, ']');
    ct_json_bool(&f->a->json, "cut", flame->cut || f->boxes >= MOST_BOXES);
    ct_view_put_functions(f->a, &f->used);
    ct_flame_free(flame);
}

/* Each function, and above it those that called it. Of all functions it shows who caused the time that each spends
 * itself: these times add up to the whole. Of one function, all of its time. */
static void put_callers(struct flame *f, const struct ct_view_choice *c) {
    struct ct_graph *graph = NULL;
    uint64_t x = 0;
    const struct ct_graph_options options = {
        .select = c->select, .depth = CT_GRAPH_MAX_DEPTH, .sort = CT_GRAPH_BY_SELF};
    int status = ct_graph_make(&graph, f->a->reader->trace, &options);
    if (status) {
        ct_view_fail(f->a, status);
        return;
    }
    f->by_self = !c->name;
    for (size_t i = 0; i < graph->function_count; i++) {
        const struct ct_graph_node *node = &graph->functions[i]->callers;
        f->total += f->by_self ? node->self_ns : node->total_ns;
    }
    ct_json_begin(&f->a->json, "rows", '[');
    for (size_t i = 0; i < graph->function_count; i++)
        x += put_node(f, &graph->functions[i]->callers, 0, x);
    ct_json_end(&f->a->json, ']');
    ct_json_bool(&f->a->json, "cut", f->boxes >= MOST_BOXES);
    ct_view_put_functions(f->a, &f->used);
    ct_graph_free(graph);
}

/* ---- by time: the cells of one thread ---- */

static void put_time(struct flame *f, const struct ct_view_choice *c) {
    struct ct_view_answer *a = f->a;
    struct ct_cells cells = {.thread = c->thread == SIZE_MAX ? 0 : c->thread,
                             .from_ns = c->from_ns,
                             .to_ns = c->to_ns,
                             .width = PARTS,
                             .high = CT_CELLS_DEPTHS - 1};
    int status = ct_trace_thread_count(a->reader->trace) ? ct_cells_make(&cells, a->reader) : CT_ERR_NOT_FOUND;
    size_t process = status ? 0 : ct_trace_thread_at(a->reader->trace, cells.thread)->process;
    if (status)
        ct_view_fail(a, status);
    f->total = c->to_ns - c->from_ns;
    ct_json_begin(&a->json, "rows", '[');
    for (uint32_t depth = 0; !status && depth <= cells.high; depth++)
        for (size_t i = 0; i < cells.rows[depth].count && f->boxes < MOST_BOXES; i++) {
            const struct ct_cell_box *box = &cells.rows[depth].boxes[i];
            uint64_t start = box->start_ns > c->from_ns ? box->start_ns : c->from_ns;
            uint64_t end = box->end_ns < c->to_ns ? box->end_ns : c->to_ns;
            uint32_t number = ct_view_function(a, process, box->function);
            ct_view_use(&f->used, number);
            if (end > start)
                put_box(f, depth, start - c->from_ns, end - start, number, 0, box->calls);
        }
    ct_json_end(&a->json, ']');
    ct_json_bool(&a->json, "sampled", cells.sampled);
    ct_json_bool(&a->json, "cut", f->boxes >= MOST_BOXES);
    ct_view_put_functions(a, &f->used);
    if (cells.rows)
        ct_cells_free(&cells);
}

void ct_view_answer_flame(struct ct_view_answer *a) {
    struct ct_view_choice c;
    struct flame f = {.a = a};
    const char *mode = ct_view_text(a, "mode", "callees");
    if (ct_view_choose(&c, a)) {
        if (!strcmp(mode, "callers"))
            put_callers(&f, &c);
        else if (!strcmp(mode, "time"))
            put_time(&f, &c);
        else
            put_callees(&f, &c);
        ct_json_number(&a->json, "total", f.total);
    }
    ct_view_choice_free(&c);
}

/* ---- two traces ---- */

/* Both sides of one stack; either may be missing. */
struct pair {
    const struct ct_graph_node *before, *after;
};

static uint64_t width_of(const struct ct_graph_node *node) {
    return node ? node->total_ns : 0;
}

static bool is_same(const struct ct_graph_node *a, const struct ct_graph_node *b) {
    return !strcmp(a->known->name, b->known->name) && !strcmp(a->known->module, b->known->module);
}

static const struct ct_graph_node *find_same(const struct ct_graph_node *in, const struct ct_graph_node *like) {
    for (size_t i = 0; in && i < in->child_count; i++)
        if (is_same(in->children[i], like))
            return in->children[i];
    return NULL;
}

static uint64_t longer(const struct pair *pair) {
    uint64_t before = width_of(pair->before), after = width_of(pair->after);
    return before > after ? before : after;
}

static void put_pairs(struct flame *f, const struct pair *parent, uint64_t depth, uint64_t x, uint64_t room);

/* Returns the width: that of the longer side, narrowed by what its caller has for all that it calls. */
static uint64_t put_pair(struct flame *f, const struct pair *pair, uint64_t depth, uint64_t x, double narrowed) {
    struct ct_json *json = &f->a->json;
    uint64_t before = width_of(pair->before), after = width_of(pair->after);
    uint64_t width = (uint64_t)((double)longer(pair) * narrowed);
    const struct ct_graph_node *node = pair->after ? pair->after : pair->before;
    const struct ct_cached_function *known = node->known;
    if (!is_seen(f, width))
        return 0;
    f->boxes++;
    ct_json_begin(json, NULL, '[');
    ct_json_number(json, NULL, depth);
    ct_json_number(json, NULL, x);
    ct_json_number(json, NULL, width);
    ct_json_string(json, NULL, strlen(known->name) <= CT_VIEW_NAME ? known->name : "(a very long name)");
    ct_json_number(json, NULL, before);
    ct_json_number(json, NULL, after);
    ct_json_end(json, ']');
    put_pairs(f, pair, depth + 1, x, width);
    return width;
}

/* The pair of number `i` below a pair: first those of the second trace, then those that only the first one has. False:
 * it is no pair of its own, or there is none. */
static bool pair_at(const struct pair *parent, size_t i, struct pair *pair) {
    const struct ct_graph_node *before = parent->before, *after = parent->after;
    size_t count = after ? after->child_count : 0;
    if (i < count) {
        *pair = (struct pair){find_same(before, after->children[i]), after->children[i]};
        return true;
    }
    *pair = (struct pair){before && i - count < before->child_count ? before->children[i - count] : NULL, NULL};
    return pair->before && !find_same(after, pair->before);
}

static size_t pair_count(const struct pair *parent) {
    return (parent->after ? parent->after->child_count : 0) + (parent->before ? parent->before->child_count : 0);
}

/* How wide all pairs below a pair are. */
static uint64_t pairs_width(const struct pair *parent) {
    struct pair pair;
    uint64_t width = 0;
    for (size_t i = 0; i < pair_count(parent); i++)
        width += pair_at(parent, i, &pair) ? longer(&pair) : 0;
    return width;
}

/* What was longer before, and what is longer now, may need more room than the longer one of the two callers has. */
static void put_pairs(struct flame *f, const struct pair *parent, uint64_t depth, uint64_t x, uint64_t room) {
    struct pair pair;
    uint64_t wanted = pairs_width(parent);
    double narrowed = wanted > room ? (double)room / (double)wanted : 1;
    for (size_t i = 0; i < pair_count(parent); i++)
        if (pair_at(parent, i, &pair))
            x += put_pair(f, &pair, depth, x, narrowed);
}

void ct_view_answer_compare_flame(struct ct_view_answer *a) {
    struct ct_flame *flames[2] = {NULL, NULL};
    struct flame f = {.a = a};
    const struct ct_flame_options options = {.sort = CT_GRAPH_BY_TOTAL};
    struct ct_view_reader *other = ct_view_other(a);
    if (!other)
        return;
    int status = ct_flame_make(&flames[0], a->reader->trace, &options);
    if (!status)
        status = ct_flame_make(&flames[1], other->trace, &options);
    if (status) {
        ct_view_fail(a, status);
    } else {
        uint64_t widths[2] = {0, 0};
        for (int side = 0; side < 2; side++)
            for (size_t i = 0; i < flames[side]->root.child_count; i++)
                widths[side] += flames[side]->root.children[i]->total_ns;
        const struct pair roots = {&flames[0]->root, &flames[1]->root};
        f.total = pairs_width(&roots);
        ct_json_begin(&a->json, "rows", '[');
        put_pairs(&f, &roots, 0, 0, f.total);
        ct_json_end(&a->json, ']');
        ct_json_number(&a->json, "total", f.total);
        ct_json_number(&a->json, "before", widths[0]);
        ct_json_number(&a->json, "after", widths[1]);
        ct_json_bool(&a->json, "cut", f.boxes >= MOST_BOXES);
    }
    ct_flame_free(flames[0]);
    ct_flame_free(flames[1]);
    ct_view_give(other);
}
