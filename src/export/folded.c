/* SPDX-License-Identifier: Apache-2.0 */
/* folded: one line for each different stack: functions between semicolons, then the weight, which is the microseconds
 * in the last function of the line itself, or calls of it. All threads together; with several processes, each below its
 * own name.
 *
 * Memory grows with the number of different stacks, up to MAX_NODES: calls after that count for their callers. Stacks
 * deeper than MAX_DEPTH are cut there: nobody can read a higher graph, and the size of the lines grows with the square
 * of it. */
#include "export/walk.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_NODES = 1 << 22, MAX_DEPTH = 1024, CHUNK = 1024 };

struct node {
    struct node *parent;
    const struct ct_name *name; /* NULL: the root of a process */
    uint64_t self_ns, calls;
    uint32_t depth;
    size_t process;
    /* where it was first seen: lines are in this order */
    size_t thread;
    uint64_t sequence;
    struct node *same; /* of a part: the node of the whole walk */
};

struct chunk {
    struct chunk *next;
    struct node nodes[CHUNK];
};

struct folded {
    struct ct_export *e;
    struct node **slots; /* by parent and name */
    size_t capacity, count;
    struct chunk *chunks, *last;
    size_t in_chunk;    /* nodes of the last one */
    struct node *roots; /* by process */
    char *line;
    size_t line_capacity;
    uint64_t rest_ns;   /* nanoseconds that the lines so far have left out */
    struct node **list; /* of all nodes, for the lines */
    size_t listed;
};

/* ---- the tree ---- */

static struct node **find_slot(struct node **slots, size_t capacity, const struct node *parent,
                               const struct ct_name *name) {
    uint64_t key = (uintptr_t)parent * 0x2545f4914f6cdd1dull + (uintptr_t)name;
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (capacity - 1);
    while (slots[i] && (slots[i]->parent != parent || slots[i]->name != name))
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

static bool grow_slots(struct folded *f) {
    size_t capacity = f->capacity ? 2 * f->capacity : 4096;
    struct node **slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < f->capacity; i++)
        if (f->slots[i])
            *find_slot(slots, capacity, f->slots[i]->parent, f->slots[i]->name) = f->slots[i];
    free(f->slots);
    f->slots = slots;
    f->capacity = capacity;
    return true;
}

static struct node *new_node(struct folded *f) {
    if (!f->chunks || f->in_chunk == CHUNK) {
        struct chunk *chunk = malloc(sizeof *chunk);
        if (!chunk)
            return NULL;
        chunk->next = NULL;
        *(f->chunks ? &f->last->next : &f->chunks) = chunk;
        f->last = chunk;
        f->in_chunk = 0;
    }
    return &f->last->nodes[f->in_chunk++];
}

/* `thread`, `sequence`: where it is seen. */
static struct node *child_of(struct folded *f, struct node *parent, const struct ct_name *name, size_t thread,
                             uint64_t sequence) {
    if (2 * f->count >= f->capacity && !grow_slots(f)) {
        ct_export_fail(f->e, CT_ERR_NO_MEMORY);
        return parent;
    }
    struct node **slot = find_slot(f->slots, f->capacity, parent, name);
    if (*slot)
        return *slot;
    if (f->count >= MAX_NODES || parent->depth >= MAX_DEPTH)
        return parent;
    struct node *node = new_node(f);
    if (!node) {
        ct_export_fail(f->e, CT_ERR_NO_MEMORY);
        return parent;
    }
    *node = (struct node){.parent = parent,
                          .name = name,
                          .depth = parent->depth + 1,
                          .process = parent->process,
                          .thread = thread,
                          .sequence = sequence};
    f->count++;
    return *slot = node;
}

/* ---- events ---- */

static struct node *node_of(struct ct_walk *w, const struct ct_span *caller) {
    struct folded *f = w->arg;
    return caller ? caller->node : &f->roots[w->process];
}

static void on_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    if (span->continued)
        return;
    struct node *node = child_of(w->arg, node_of(w, caller), span->name, w->thread, w->sequence);
    node->calls += !span->context;
    span->node = node;
}

static void on_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    (void)w, (void)caller;
    if (how != CT_SPAN_MOVED && how != CT_SPAN_LOST &&
        !span->context) /* the report does not count the time of those either */
        ((struct node *)span->node)->self_ns += span->self_ns;
}

static void on_entry(struct ct_walk *w, struct ct_name *name, struct ct_span *caller) {
    child_of(w->arg, node_of(w, caller), name, w->thread, w->sequence)->calls++;
}

/* ---- parts of a thread: each worker has a tree ---- */

static bool open_tree(struct folded *f, struct ct_export *e) {
    f->e = e;
    f->roots = calloc(e->result->processes + 1, sizeof(struct node));
    for (size_t i = 0; f->roots && i < e->result->processes; i++)
        f->roots[i].process = i;
    return f->roots;
}

static void free_tree(struct folded *f) {
    while (f->chunks) {
        struct chunk *next = f->chunks->next;
        free(f->chunks);
        f->chunks = next;
    }
    free(f->slots);
    free(f->roots);
}

/* Finds the nodes of the open calls. The whole walk knows where these were first seen. */
static bool on_part(struct ct_walk *part, const struct ct_walk *whole) {
    struct folded *f = part->arg;
    if (!f->roots && !open_tree(f, whole->e))
        return false;
    struct ct_span *span = part->lanes[0].top;
    while (span && span->below)
        span = span->below;
    for (; span; span = span->above)
        span->node = child_of(f, node_of(part, span->below), span->name, SIZE_MAX, UINT64_MAX);
    return true;
}

static void on_open(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    span->node = child_of(w->arg, node_of(w, caller), span->name, w->thread, w->sequence);
}

static bool is_before(const struct node *a, const struct node *b) {
    if (a->thread != b->thread)
        return a->thread < b->thread;
    return a->sequence != b->sequence ? a->sequence < b->sequence : a->depth < b->depth;
}

static void add_node(struct folded *f, struct node *from) {
    struct node *parent = from->parent->name ? from->parent->same : &f->roots[from->process];
    struct node *node = child_of(f, parent, from->name, from->thread, from->sequence);
    from->same = node;
    node->calls += from->calls;
    node->self_ns += from->self_ns;
    if (node != parent && is_before(from, node)) {
        node->thread = from->thread;
        node->sequence = from->sequence;
    }
}

/* Calls `visit` for all nodes, those further out first. */
static void each_node(struct folded *f, void (*visit)(struct folded *arg, struct node *node), struct folded *arg) {
    for (struct chunk *chunk = f->chunks; chunk && !f->e->status; chunk = chunk->next)
        for (size_t i = 0; i < (chunk == f->last ? f->in_chunk : CHUNK) && !f->e->status; i++)
            visit(arg, &chunk->nodes[i]);
}

static void on_part_end(struct ct_walk *whole, struct ct_walk *part) {
    struct folded *f = part->arg;
    if (f->roots)
        each_node(f, add_node, whole->arg);
    free_tree(f);
}

/* ---- lines ---- */

/* Puts a name before the others: the lookup goes from the leaf to the root. */
static char *prepend_name(struct folded *f, char *at, const char *name) {
    size_t length = strlen(name), used = (size_t)(f->line + f->line_capacity - at);
    if (used + length + 1 > f->line_capacity) {
        size_t capacity = 2 * (used + length + 1);
        char *grown = malloc(capacity);
        if (!grown) {
            ct_export_fail(f->e, CT_ERR_NO_MEMORY);
            return NULL;
        }
        memcpy(grown + capacity - used, at, used);
        free(f->line);
        f->line = grown;
        f->line_capacity = capacity;
        at = grown + capacity - used;
    }
    if (used)
        *--at = ';';
    at -= length;
    for (size_t i = 0; i < length; i++)
        at[i] = name[i] == ';' ? ':' : name[i];
    return at;
}

/* Carries nanoseconds below a whole microsecond over to the next line, so that sums stay right with many small
 * lines. */
static uint64_t weight_of(struct folded *f, const struct node *node) {
    if (f->e->options->weight == CT_EXPORT_CALLS)
        return node->calls;
    f->rest_ns += node->self_ns;
    uint64_t us = f->rest_ns / 1000;
    f->rest_ns %= 1000;
    return us;
}

static void put_line(struct folded *f, const struct node *node) {
    char process[300], program[256], *at = f->line + f->line_capacity;
    uint64_t weight = weight_of(f, node);
    if (!weight)
        return;
    size_t index = node->process;
    for (; at && node->name; node = node->parent)
        at = prepend_name(f, at, node->name->name);
    if (at && f->e->result->processes > 1) {
        snprintf(process, sizeof process, "%s/%d", ct_export_program(f->e, index, program, sizeof program),
                 ct_trace_process_at(f->e->trace, index)->pid);
        at = prepend_name(f, at, process);
    }
    if (!at)
        return;
    ct_out_bytes(&f->e->out, at, (size_t)(f->line + f->line_capacity - at));
    ct_out_text(&f->e->out, " ");
    ct_out_number(&f->e->out, weight);
    ct_out_text(&f->e->out, "\n");
}

static void list_node(struct folded *f, struct node *node) {
    f->list[f->listed++] = node;
}

static int compare_nodes(const void *a, const void *b) {
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
    return is_before(x, y) ? -1 : is_before(y, x);
}

/* Writes the lines in the order in which the stacks were first seen. */
static int put_lines(struct folded *f) {
    f->list = malloc((f->count + 1) * sizeof *f->list);
    if (!f->list)
        return CT_ERR_NO_MEMORY;
    each_node(f, list_node, f);
    qsort(f->list, f->listed, sizeof *f->list, compare_nodes);
    for (size_t i = 0; i < f->listed && !f->e->status; i++)
        put_line(f, f->list[i]);
    free(f->list);
    return f->e->status;
}

int ct_export_folded(struct ct_export *e) {
    static const struct ct_walk_sharing sharing = {
        .size = sizeof(struct folded), .begin = on_part, .open = on_open, .end = on_part_end};
    static const struct ct_walk_format format = {
        .sharing = &sharing, .begin = on_begin, .end = on_end, .entry = on_entry};
    struct folded f = {.line_capacity = 4096, .line = malloc(4096)};
    int status = f.line && open_tree(&f, e) ? ct_walk_trace(e, &format, &f) : CT_ERR_NO_MEMORY;
    if (!status)
        status = put_lines(&f);
    free_tree(&f);
    free(f.line);
    return status;
}
