/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a trace as a tree: see processes.h. */
#include "report/processes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ct_json_node *root_of(const struct ct_facts *facts, size_t process) {
    return ct_json_root(facts->trees[process]);
}

/* ---- rows ---- */

static void describe_end(struct ct_process_row *row, bool complete, const struct ct_json_node *end) {
    const char *reason = ct_json_text(ct_json_get(end, "reason", NULL), "");
    int64_t code = ct_json_i64(ct_json_get(end, "exit_code", NULL), -1);
    int signal = (int)ct_json_i64(ct_json_get(end, "signal", NULL), 0);
    const char *name = sigabbrev_np(signal);
    if (!complete)
        strcpy(row->ended, "not finished");
    else if (!strcmp(reason, "exit") && code >= 0)
        snprintf(row->ended, sizeof row->ended, "exit %d", (int)code);
    else if (!strcmp(reason, "signal"))
        snprintf(row->ended, sizeof row->ended, "SIG%s", name ? name : "?");
    else if (!strcmp(reason, "detach"))
        strcpy(row->ended, "detached");
    else if (!strcmp(reason, "disk"))
        strcpy(row->ended, "disk full");
    else
        snprintf(row->ended, sizeof row->ended, "%.24s", !strcmp(reason, "exit") ? "ended" : reason);
}

static struct ct_process_row row_of(const struct ct_trace *trace, const struct ct_facts *facts, size_t process) {
    const struct ct_trace_process *info = ct_trace_process_at(trace, process);
    struct ct_process_row row = {
        .process = process, .parent = SIZE_MAX, .start_ns = info->recording_start_ns, .end_ns = info->recording_end_ns};
    row.command_line = ct_json_text(ct_json_get(root_of(facts, process), "command_line", NULL), "");
    describe_end(&row, info->complete, ct_json_get(root_of(facts, process), "end", NULL));
    return row;
}

/* ---- the tree ---- */

static int by_start(const void *a, const void *b) {
    const struct ct_process_row *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->process < y->process ? -1 : 1;
}

/* The latest program before this row that the parent's pid had. Rows are sorted by their start, so no row is its own
 * ancestor, whatever a manifest says. */
static size_t parent_of(const struct ct_processes *p, size_t row, const struct ct_trace *trace,
                        const struct ct_facts *facts) {
    const struct ct_json_node *root = root_of(facts, p->rows[row].process);
    int pid = (int)ct_json_i64(ct_json_get(root, "parent_pid", NULL), 0);
    for (size_t i = row; pid && i-- > 0;)
        if (ct_trace_process_at(trace, p->rows[i].process)->pid == pid)
            return i;
    return SIZE_MAX;
}

/* Puts rows into the order of the tree; links[i] are the first child and the next sibling of row i. */
struct links {
    size_t parent, child, last, next;
};

static void link_rows(const struct ct_processes *p, struct links *links, const struct ct_trace *trace,
                      const struct ct_facts *facts) {
    struct links *top = &links[p->count]; /* stands for the parent of those that have none */
    for (size_t i = 0; i <= p->count; i++)
        links[i] = (struct links){SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < p->count; i++) {
        links[i].parent = parent_of(p, i, trace, facts);
        struct links *parent = links[i].parent == SIZE_MAX ? top : &links[links[i].parent];
        if (parent->last == SIZE_MAX)
            parent->child = i;
        else
            links[parent->last].next = i;
        parent->last = i;
    }
}

static void order_rows(struct ct_process_row *ordered, const struct ct_processes *p, const struct links *links) {
    size_t at = links[p->count].child, count = 0;
    unsigned depth = 0;
    while (at != SIZE_MAX) {
        const struct links *link = &links[at];
        struct ct_process_row *row = &ordered[count++];
        *row = p->rows[at];
        row->depth = depth;
        row->parent = link->parent == SIZE_MAX ? SIZE_MAX : p->rows[link->parent].process;
        if (link->child != SIZE_MAX) {
            at = link->child;
            depth++;
            continue;
        }
        while (link->next == SIZE_MAX && link->parent != SIZE_MAX) {
            link = &links[link->parent];
            depth--;
        }
        at = link->next;
    }
}

static int make_tree(struct ct_processes *p, const struct ct_trace *trace, const struct ct_facts *facts) {
    struct links *links = calloc(p->count + 1, sizeof *links);
    struct ct_process_row *ordered = calloc(p->count + 1, sizeof *ordered);
    if (!links || !ordered) {
        free(links);
        free(ordered);
        return CT_ERR_NO_MEMORY;
    }
    qsort(p->rows, p->count, sizeof *p->rows, by_start);
    link_rows(p, links, trace, facts);
    order_rows(ordered, p, links);
    free(links);
    free(p->rows);
    p->rows = ordered;
    return 0;
}

int ct_processes_make(struct ct_processes *p, const struct ct_trace *trace, const struct ct_facts *facts) {
    *p = (struct ct_processes){.count = ct_trace_process_count(trace), .start_ns = UINT64_MAX};
    p->rows = calloc(p->count + 1, sizeof *p->rows);
    if (!p->rows)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < p->count; i++) {
        struct ct_process_row *row = &p->rows[i];
        *row = row_of(trace, facts, i);
        if (row->start_ns && row->start_ns < p->start_ns)
            p->start_ns = row->start_ns;
        p->end_ns = row->end_ns > p->end_ns ? row->end_ns : p->end_ns;
    }
    p->start_ns = p->start_ns < p->end_ns ? p->start_ns : p->end_ns;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, i);
        p->rows[thread->process].events += thread->event_count;
        p->events += thread->event_count;
    }
    int status = make_tree(p, trace, facts);
    if (status)
        ct_processes_free(p);
    return status;
}

void ct_processes_free(struct ct_processes *p) {
    free(p->rows);
    *p = (struct ct_processes){0};
}
