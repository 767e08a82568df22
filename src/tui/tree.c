/* SPDX-License-Identifier: Apache-2.0 */
/* A call tree that folds: threads, their outermost calls, and what these have called. What is below a call is read when
 * it is unfolded. */
#include "base/grow.h"
#include "report/select.h"
#include "trace/reader.h"
#include "tui/tui_internal.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 200 }; /* calls that are read at once */
enum { NARROW = 80 }; /* columns: fewer have no room for all numbers */

enum node_kind { THREAD, CALL, EARLIER, MORE };

struct node {
    enum node_kind kind;
    bool open, loaded;
    unsigned level;
    int64_t thread; /* threads.id */
    int64_t id;     /* of a call; of MORE: the last call before */
    int64_t start, duration, self;
    char *name;
};

struct tree {
    struct node *nodes; /* those that are seen, in their order */
    size_t room;
    struct ct_tui_list list;
};

/* ---- nodes ---- */

/* Makes room for a node at a place. NULL: out of memory. */
static struct node *insert(struct tree *tree, size_t at) {
    if (!ct_grow(&tree->nodes, &tree->room, tree->list.count, sizeof *tree->nodes, 256))
        return NULL;
    memmove(&tree->nodes[at + 1], &tree->nodes[at], (tree->list.count - at) * sizeof *tree->nodes);
    tree->list.count++;
    tree->nodes[at] = (struct node){0};
    return &tree->nodes[at];
}

/* Takes nodes away, up to `end`. */
static void cut_out(struct tree *tree, size_t at, size_t end) {
    for (size_t i = at; i < end; i++)
        free(tree->nodes[i].name);
    memmove(&tree->nodes[at], &tree->nodes[end], (tree->list.count - end) * sizeof *tree->nodes);
    tree->list.count -= end - at;
}

/* Takes away what is below a node. */
static void fold(struct tree *tree, size_t at) {
    size_t end = at + 1;
    while (end < tree->list.count && tree->nodes[end].level > tree->nodes[at].level)
        end++;
    cut_out(tree, at + 1, end);
    tree->nodes[at].open = false;
}

static void add_remark(struct tree *tree, size_t at, const struct node *parent, enum node_kind kind, int64_t id) {
    struct node about = *parent, *node = insert(tree, at);
    if (!node)
        return;
    *node = (struct node){.kind = kind, .level = about.level + 1, .thread = about.thread, .id = id};
    node->name = strdup(kind == MORE ? "... later calls" : "... earlier calls");
}

/* The condition on the calls that are directly below a node. */
static void put_condition(const struct ct_tui *t, const struct node *node, char *text, size_t size) {
    int used = node->kind == THREAD ? snprintf(text, size, "thread = %lld AND depth = 0", (long long)node->thread)
                                    : snprintf(text, size, "thread = %lld AND parent = %lld", (long long)node->thread,
                                               (long long)node->id);
    if (t->to != INT64_MAX)
        used += snprintf(text + used, size - (size_t)used, " AND start <= %lld", (long long)t->to);
    if (t->from > 0)
        snprintf(text + used, size - (size_t)used, " AND (duration IS NULL OR start + duration >= %lld)",
                 (long long)t->from);
}

/* Reads calls below the node at `at`, from the call `from` on, to the place `to`. Returns how many. */
static size_t load(struct ct_tui *t, struct tree *tree, size_t at, size_t to, int64_t from) {
    const struct node parent = tree->nodes[at];
    char condition[256];
    size_t count = 0;
    put_condition(t, &parent, condition, sizeof condition);
    /* Calls that are made one after the other end in that order too. */
    if (!ct_tui_ask(t, "SELECT id, function, start, duration, self FROM calls WHERE %s AND id >= %lld LIMIT %d",
                    condition, (long long)from, PIECE))
        return 0;
    while (ct_tui_next(t)) {
        struct node *node = insert(tree, to + count);
        if (!node)
            break;
        *node = (struct node){.kind = CALL,
                              .level = parent.level + 1,
                              .thread = parent.thread,
                              .id = ct_tui_number(t, 0),
                              .start = ct_tui_number(t, 2),
                              .duration = ct_tui_number(t, 3),
                              .self = ct_tui_number(t, 4),
                              .name = strdup(ct_tui_text(t, 1))};
        count++;
    }
    if (count == PIECE)
        add_remark(tree, to + count, &parent, MORE, tree->nodes[to + count - 1].id);
    return count;
}

static void unfold(struct ct_tui *t, struct tree *tree, size_t at) {
    tree->nodes[at].open = true;
    (void)load(t, tree, at, at + 1, 0);
}

static size_t parent_of(const struct tree *tree, size_t at) {
    size_t parent = at;
    while (parent && tree->nodes[parent].level >= tree->nodes[at].level)
        parent--;
    return parent;
}

/* Reads the calls that a remark is about. */
static void load_more(struct ct_tui *t, struct tree *tree, size_t at) {
    const struct node remark = tree->nodes[at];
    size_t parent = parent_of(tree, at);
    if (remark.kind == EARLIER) {
        fold(tree, parent);
        unfold(t, tree, parent);
        tree->list.at = parent;
        return;
    }
    cut_out(tree, at, at + 1);
    (void)load(t, tree, parent, at, remark.id + 1);
}

/* ---- one call ---- */

static size_t thread_place(const struct tree *tree, int64_t thread) {
    for (size_t i = 0; i < tree->list.count; i++)
        if (tree->nodes[i].kind == THREAD && tree->nodes[i].thread == thread)
            return i;
    return SIZE_MAX;
}

enum { DEEPEST = 512 };

/* The call and those around it, the innermost first. */
static size_t find_callers(struct ct_tui *t, int64_t call, int64_t ids[DEEPEST]) {
    size_t count = 0;
    if (ct_tui_ask(t, "SELECT id FROM callers(%lld) ORDER BY level", (long long)call))
        while (ct_tui_next(t) && count < DEEPEST)
            ids[count++] = ct_tui_number(t, 0);
    return count;
}

void ct_tui_show_call(struct ct_tui *t, int64_t call) {
    struct tree *tree = t->views[CT_TUI_TREE];
    int64_t ids[DEEPEST];
    size_t at = thread_place(tree, (call >> CT_SOURCE_POSITION_BITS) + 1), count = find_callers(t, call, ids);
    t->view = CT_TUI_TREE;
    if (at == SIZE_MAX || !count) {
        snprintf(t->message, sizeof t->message, "the call is in no thread that is selected");
        return;
    }
    fold(tree, at);
    while (count--) {
        size_t to = at + 1;
        tree->nodes[at].open = true;
        int64_t first = tree->nodes[at].kind == THREAD ? ((tree->nodes[at].thread - 1) << CT_SOURCE_POSITION_BITS)
                                                       : tree->nodes[at].id + 1;
        if (ids[count] > first)
            add_remark(tree, to++, &tree->nodes[at], EARLIER, 0);
        if (!load(t, tree, at, to, ids[count]))
            break;
        at = to;
        while (at + 1 < tree->list.count && tree->nodes[at].id != ids[count] &&
               tree->nodes[at + 1].level == tree->nodes[to].level)
            at++;
    }
    tree->list.at = at;
}

void ct_tui_show_slowest(struct ct_tui *t, const char *function) {
    char *name = ct_tui_quote(function);
    int64_t call = -1;
    if (name &&
        ct_tui_ask(t, "SELECT id, max(duration) FROM calls WHERE function = %s AND start BETWEEN %lld AND %lld", name,
                   (long long)t->from, (long long)t->to) &&
        ct_tui_next(t))
        call = ct_tui_number(t, 0);
    free(name);
    if (call >= 0)
        ct_tui_show_call(t, call);
    else if (!*t->message)
        snprintf(t->message, sizeof t->message, "no call of it is known in this time");
}

/* A glob that names with this text fit: what is special in globs is not special in it. */
static void glob_of(const char *text, char glob[4 * CT_TUI_NAME]) {
    char *to = glob;
    *to++ = '*';
    for (; *text; text++)
        to += snprintf(to, 4, strchr("*?[", *text) ? "[%c]" : "%c", *text);
    *to++ = '*';
    *to = 0;
}

/* The next call of what is searched for. */
static void find_next(struct ct_tui *t, struct tree *tree) {
    const struct node *node = tree->list.at < tree->list.count ? &tree->nodes[tree->list.at] : NULL;
    char glob[4 * CT_TUI_NAME];
    int64_t call = -1;
    if (!node || !*t->search)
        return;
    glob_of(t->search, glob);
    char *text = ct_tui_quote(glob);
    int64_t id = node->kind == CALL ? node->id : (node->thread - 1) << CT_SOURCE_POSITION_BITS;
    if (text &&
        ct_tui_ask(t, "SELECT id FROM calls WHERE thread = %lld AND function GLOB %s AND id > %lld LIMIT 1",
                   (long long)node->thread, text, (long long)id) &&
        ct_tui_next(t))
        call = ct_tui_number(t, 0);
    free(text);
    if (call >= 0)
        ct_tui_show_call(t, call);
    else if (!*t->message)
        snprintf(t->message, sizeof t->message, "no later call of *%.100s* in this thread", t->search);
}

/* ---- the view ---- */

static int open_tree(struct ct_tui *t) {
    struct tree *tree = t->views[CT_TUI_TREE] = calloc(1, sizeof *tree);
    const struct ct_trace *trace = t->options->trace;
    for (size_t i = 0; tree && i < ct_trace_thread_count(trace); i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, i);
        struct node *node = ct_select_thread(t->options->select, trace, i) ? insert(tree, tree->list.count) : NULL;
        if (!node)
            continue;
        node->kind = THREAD;
        node->thread = (int64_t)i + 1;
        if (asprintf(&node->name, "thread %zu: %s/%u, %llu events", i + 1, thread->name, thread->tid,
                     (unsigned long long)thread->event_count) < 0)
            node->name = NULL;
    }
    return tree ? 0 : CT_ERR_NO_MEMORY;
}

static void draw_node(const struct ct_tui *t, const struct tree *tree, size_t number, int row) {
    const struct node *node = &tree->nodes[number];
    char start[CT_TUI_TIME], duration[CT_TUI_TIME], self[CT_TUI_TIME];
    unsigned look = ct_tui_look(&tree->list, number);
    const char *sign = node->kind == MORE || node->kind == EARLIER ? " " : node->open ? "-" : "+";
    int indent = (int)(2 * node->level);
    const char *name = node->name ? node->name : "?";
    if (ct_screen_width() < NARROW)
        ct_screen_format(row, 0, look, "%10s %*s%s %s",
                         node->kind == CALL ? ct_tui_time(t, duration, node->duration) : "", indent, "", sign, name);
    else if (node->kind == CALL)
        ct_screen_format(row, 0, look, "%14s %10s %10s  %*s%s %s", ct_tui_moment(start, node->start),
                         ct_tui_time(t, duration, node->duration), ct_tui_time(t, self, node->self), indent, "", sign,
                         name);
    else
        ct_screen_format(row, 0, look | CT_LOOK_BOLD, "%38s%*s%s %s", "", indent, "", sign, name);
}

static void draw(struct ct_tui *t) {
    struct tree *tree = t->views[CT_TUI_TREE];
    ct_tui_scroll(&tree->list);
    if (ct_screen_width() < NARROW)
        ct_screen_format(1, 0, CT_LOOK_BOLD, "%10s %s", "DURATION", "CALL");
    else
        ct_screen_format(1, 0, CT_LOOK_BOLD, "%14s %10s %10s  %s", "START", "DURATION", "SELF", "CALL");
    for (int i = 0; i < ct_tui_rows() && tree->list.top + (size_t)i < tree->list.count; i++)
        draw_node(t, tree, tree->list.top + (size_t)i, CT_TUI_TOP + i);
}

static bool on_call_key(struct ct_tui *t, struct tree *tree, int key) {
    struct node *node = &tree->nodes[tree->list.at];
    bool remark = node->kind == MORE || node->kind == EARLIER;
    if (remark && (key == CT_KEY_ENTER || key == CT_KEY_RIGHT || key == ' '))
        load_more(t, tree, tree->list.at);
    else if (node->open && (key == CT_KEY_ENTER || key == ' ' || key == CT_KEY_LEFT))
        fold(tree, tree->list.at);
    else if (!remark && !node->open && (key == CT_KEY_ENTER || key == ' ' || key == CT_KEY_RIGHT))
        unfold(t, tree, tree->list.at);
    else if (key == CT_KEY_LEFT)
        tree->list.at = parent_of(tree, tree->list.at);
    else if (key == 'f' && node->kind == CALL && node->name)
        ct_tui_show_edges(t, node->name);
    else if (key == 't' && node->kind == CALL)
        ct_tui_show_moment(t, node->thread, node->start);
    else
        return false;
    return true;
}

static bool on_key(struct ct_tui *t, int key) {
    struct tree *tree = t->views[CT_TUI_TREE];
    if (ct_tui_move(&tree->list, key))
        return true;
    if (key == 'n') {
        find_next(t, tree);
        return true;
    }
    return tree->list.at < tree->list.count && on_call_key(t, tree, key);
}

static void close_tree(struct ct_tui *t) {
    struct tree *tree = t->views[CT_TUI_TREE];
    if (tree) {
        cut_out(tree, 0, tree->list.count);
        free(tree->nodes);
    }
    free(tree);
}

const struct ct_tui_class ct_tui_tree = {.name = "calls",
                                         .keys = "Enter fold  t in the timeline  f callers  n next of /",
                                         .open = open_tree,
                                         .draw = draw,
                                         .key = on_key,
                                         .close = close_tree};
