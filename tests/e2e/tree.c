/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds call trees from the log and compares them with what a program expects.
 *
 * One pass over a thread's events writes the tree's text: a call opens a bracket, its end closes it; when the text of a
 * node equals its left neighbour's, it becomes a repetition. Depth is bounded by memory only, so a tree of 100,000
 * nested calls is as good as any other. */
#include "harness.h"
#include "log.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* An open call, and what is rightmost among its callees. */
struct node {
    uint32_t hook;
    size_t start;      /* of its text */
    size_t last;       /* start of the newest child's text */
    size_t last_size;  /* without the repetition mark; 0: no child yet */
    size_t repetition; /* of the newest child */
};

struct builder {
    char *text;
    size_t size, capacity;
    struct node *nodes; /* nodes[0] is the thread */
    size_t depth, nodes_capacity;
    size_t problems;
};

static void need(struct builder *b, size_t more) {
    while (b->size + more + 1 > b->capacity) {
        b->capacity = b->capacity ? b->capacity * 2 : 4096;
        b->text = realloc(b->text, b->capacity);
    }
}

static void put(struct builder *b, const char *text) {
    size_t size = strlen(text);
    need(b, size);
    memcpy(b->text + b->size, text, size + 1);
    b->size += size;
}

static const char *name_of(uint32_t hook) {
    return hook < E2E_MAX_HOOKS && e2e_log.names[hook] ? e2e_log.names[hook] : "unknown-hook";
}

static void open_node(struct builder *b, uint32_t hook) {
    if (b->depth + 1 >= b->nodes_capacity) {
        b->nodes_capacity = b->nodes_capacity ? b->nodes_capacity * 2 : 64;
        b->nodes = realloc(b->nodes, b->nodes_capacity * sizeof *b->nodes);
    }
    if (b->size && b->text[b->size - 1] != '(')
        put(b, " ");
    b->nodes[++b->depth] = (struct node){.hook = hook, .start = b->size};
    put(b, name_of(hook));
}

/* The node's text is complete: it counts as a repetition when its left neighbour has the same text. */
static void merge_repetition(struct builder *b, size_t start) {
    struct node *parent = &b->nodes[b->depth];
    size_t size = b->size - start;
    if (parent->last_size == size && memcmp(b->text + parent->last, b->text + start, size) == 0) {
        char mark[32];
        snprintf(mark, sizeof mark, "*%zu", ++parent->repetition);
        b->size = parent->last + size;
        put(b, mark);
        return;
    }
    parent->last = start;
    parent->last_size = size;
    parent->repetition = 1;
}

/* `how`: "" returned, "!" left, "?" still open, ";" entry only. Brackets appear for callees and for plain returns. */
static void close_node(struct builder *b, const char *how) {
    struct node node = b->nodes[b->depth--];
    if (node.last_size)
        put(b, ")");
    else if (!*how)
        put(b, "()");
    put(b, how);
    merge_repetition(b, node.start);
}

static void note_problem(struct builder *b, const char *what, uint32_t hook) {
    b->problems++;
    put(b, " <");
    put(b, what);
    put(b, name_of(hook));
    put(b, "> ");
}

static void begin_child(struct builder *b) {
    if (b->depth && !b->nodes[b->depth].last_size)
        put(b, "(");
}

static void add_event(struct builder *b, const struct e2e_log_event *e) {
    if (e->kind == CT_EVENT_CALL || e->kind == CT_EVENT_ENTRY) {
        if (!e2e_log.unnested && e->depth != E2E_DEPTH_UNKNOWN && e->depth != b->depth)
            note_problem(b, "wrong depth told to the listener of ", e->hook);
        begin_child(b);
        open_node(b, e->hook);
        if (e->kind == CT_EVENT_ENTRY)
            close_node(b, ";");
        return;
    }
    const char *how = e->kind == CT_EVENT_RETURN ? "" : "!";
    if (b->depth == 0 || b->nodes[b->depth].hook != e->hook) {
        note_problem(b, *how ? "unpaired leave of " : "unpaired return of ", e->hook);
        return;
    }
    close_node(b, how);
}

/* Everything recorded up to now is in the log; returns its end. What we call ourselves may be hooked and add to it. */
static size_t settle(void) {
    if (e2e_hooks)
        ct_hooks_flush(e2e_hooks);
    return __atomic_load_n(&e2e_log.count, __ATOMIC_RELAXED);
}

static void build(struct builder *b, int tid) {
    size_t end = settle();
    *b = (struct builder){.nodes_capacity = 64};
    b->nodes = calloc(b->nodes_capacity, sizeof *b->nodes);
    put(b, "");
    if (tid == 0)
        tid = e2e_gettid();
    for (size_t i = e2e_log.forgotten; i < end; i++)
        if (e2e_log.events[i].tid == tid)
            add_event(b, &e2e_log.events[i]);
    while (b->depth)
        close_node(b, "?");
}

const char *e2e_tree(int tid) {
    static struct builder kept;
    struct builder fresh;
    if (e2e_plain())
        return "";
    build(&fresh, tid);
    free(kept.text);
    free(kept.nodes);
    kept = fresh;
    return kept.text;
}

void e2e_forget(void) {
    e2e_log.forgotten = settle();
}

static void forget_thread(int tid) {
    size_t end = settle();
    if (tid == 0)
        tid = e2e_gettid();
    for (size_t i = e2e_log.forgotten; i < end; i++)
        if (e2e_log.events[i].tid == tid)
            e2e_log.events[i].tid = -2;
}

/* ---- comparing ---- */

static bool equal_but_blanks(const char *a, const char *b, const char **differs_at) {
    for (;;) {
        while (isspace((unsigned char)*a))
            a++;
        while (isspace((unsigned char)*b))
            b++;
        *differs_at = a;
        if (*a != *b)
            return false;
        if (!*a)
            return true;
        a++, b++;
    }
}

static void print_shortened(const char *title, const char *text, const char *around) {
    size_t size = strlen(text);
    size_t from = 0;
    if (around && around > text + 600)
        from = (size_t)(around - text) - 300;
    fprintf(stderr, "  %s%s%.*s%s\n", title, from ? "..." : "", 1200, text + from, size - from > 1200 ? "..." : "");
}

static void compare(const char *file, int line, const char *actual, const char *expected) {
    const char *at;
    if (equal_but_blanks(actual, expected, &at))
        return;
    e2e_fail(file, line, "the calls differ");
    print_shortened("expected: ", expected, NULL);
    print_shortened("seen:     ", actual, at);
    fprintf(stderr, "  from here: %.60s\n", *at ? at : "(the end)");
}

void e2e_expect(const char *file, int line, int tid, const char *tree) {
    if (e2e_plain())
        return;
    compare(file, line, e2e_tree(tid), tree);
    forget_thread(tid);
}

void e2e_expect_flat(const char *file, int line, int tid, const char *events) {
    if (e2e_plain())
        return;
    struct builder b = {0};
    size_t end = settle();
    put(&b, "");
    int wanted = tid ? tid : e2e_gettid();
    for (size_t i = e2e_log.forgotten; i < end; i++) {
        const struct e2e_log_event *e = &e2e_log.events[i];
        if (e->tid != wanted)
            continue;
        static const char *const signs[] = {"", "+", "-", "!", ";"};
        put(&b, signs[e->kind]);
        put(&b, name_of(e->hook));
        put(&b, " ");
    }
    compare(file, line, b.text, events);
    free(b.text);
    forget_thread(tid);
}

/* ---- summaries ---- */

static void summarize_thread(int tid, size_t first, size_t end, struct e2e_summary *s) {
    uint32_t *open = NULL;
    size_t depth = 0, capacity = 0;
    for (size_t i = first; i < end; i++) {
        const struct e2e_log_event *e = &e2e_log.events[i];
        if (e->tid != tid)
            continue;
        if (e->kind == CT_EVENT_CALL) {
            if (depth == capacity) {
                capacity = capacity ? capacity * 2 : 1024;
                open = realloc(open, capacity * sizeof *open);
            }
            open[depth++] = e->hook;
            s->calls++;
            if (depth > s->depth)
                s->depth = depth;
        } else if (e->kind == CT_EVENT_ENTRY) {
            s->entries++;
        } else {
            s->returns += e->kind == CT_EVENT_RETURN;
            s->left += e->kind == CT_EVENT_EXCEPTION;
            if (depth && open[depth - 1] == e->hook)
                depth--;
            else
                s->unpaired++;
        }
    }
    s->open += depth;
    free(open);
}

struct e2e_summary e2e_summarize(int tid) {
    struct e2e_summary s = {0};
    if (e2e_plain())
        return s;
    size_t end = settle();
    if (tid != -1) {
        summarize_thread(tid ? tid : e2e_gettid(), e2e_log.forgotten, end, &s);
        return s;
    }
    int *seen = NULL;
    size_t count = 0;
    for (size_t i = e2e_log.forgotten; i < end; i++) {
        int one = e2e_log.events[i].tid;
        size_t k = count;
        while (k > 0 && seen[k - 1] != one)
            k--;
        if (k > 0 || one == -2)
            continue;
        seen = realloc(seen, (count + 1) * sizeof *seen);
        seen[count++] = one;
        summarize_thread(one, i, end, &s);
    }
    free(seen);
    return s;
}

size_t e2e_count(int tid, int hook, enum ct_event_kind kind) {
    size_t count = 0;
    size_t end = settle();
    if (tid == 0)
        tid = e2e_gettid();
    for (size_t i = e2e_log.forgotten; i < end; i++) {
        const struct e2e_log_event *e = &e2e_log.events[i];
        if ((tid == -1 ? e->tid != -2 : e->tid == tid) && e->hook == (uint32_t)hook && e->kind == (uint32_t)kind)
            count++;
    }
    return count;
}

void e2e_allow_unnested(void) {
    e2e_log.unnested = true;
}

void e2e_allow_stack_pops(void) {
    e2e_log.stack_pops = true;
}
