/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph on the terminal: a row for each depth, callers above callees, boxes as wide as their time. */
#include "cli/graph_flame.h"
#include "cli/command.h"
#include "cli/reading.h"
#include <stdlib.h>
#include <string.h>

/* Boxes with fewer columns than LEAST show nothing, so the neighbours that have the same caller share one. */
enum { LEAST = 4 };

struct box {
    const struct ct_graph_node *node; /* NULL: several small ones */
    uint64_t from_ns, time_ns;        /* place in the row */
    size_t count;                     /* of the small ones */
};

struct row {
    struct box *boxes;
    size_t count;
};

struct picture {
    struct ct_printer *printer;
    size_t columns;
    uint64_t total_ns;
};

/* ---- places ---- */

static size_t column_of(const struct picture *p, uint64_t ns) {
    return (size_t)((double)ns / (double)p->total_ns * (double)p->columns);
}

static size_t width_of(const struct picture *p, uint64_t from_ns, uint64_t time_ns) {
    return column_of(p, from_ns + time_ns) - column_of(p, from_ns);
}

/* A row has at most as many boxes as columns: those without one are left out. */
static void add_box(const struct picture *p, struct row *row, const struct box *box) {
    if (row->count < p->columns && width_of(p, box->from_ns, box->time_ns))
        row->boxes[row->count++] = *box;
}

/* Large boxes come first, in their order; the small ones are summed up after them. */
static void add_children(const struct picture *p, struct row *row, const struct box *parent) {
    const struct ct_graph_node *node = parent->node;
    struct box small = {0};
    uint64_t at_ns = parent->from_ns;
    for (size_t i = 0; node && i < node->child_count; i++) {
        const struct ct_graph_node *child = node->children[i];
        if (column_of(p, child->total_ns) < LEAST) {
            small.time_ns += child->total_ns;
            small.node = small.count++ ? NULL : child;
            continue;
        }
        add_box(p, row, &(struct box){.node = child, .from_ns = at_ns, .time_ns = child->total_ns});
        at_ns += child->total_ns;
    }
    small.from_ns = at_ns;
    add_box(p, row, &small);
}

/* ---- boxes ---- */

/* Warm colours, one for each name. */
static const char *box_colour(const struct box *box) {
    static const char *const colours[] = {"\033[30;43m", "\033[30;101m", "\033[30;103m", "\033[30;41m", "\033[30;45m"};
    unsigned hash = 0;
    if (!box->node)
        return "\033[30;47m";
    for (const char *at = box->node->known ? box->node->known->name : ""; *at; at++)
        hash = hash * 31 + (unsigned char)*at;
    return colours[hash % (sizeof colours / sizeof colours[0])];
}

/* Prints what fits into the room: the name, and its share of all time. */
static void print_text(const struct picture *p, const struct box *box, size_t room) {
    char name[64], share[CT_TEXT_SIZE], time[CT_TEXT_SIZE];
    size_t took;
    ct_text_percent(share, box->time_ns, p->total_ns);
    if (!box->node)
        snprintf(name, sizeof name, "+%zu", box->count);
    else if (!box->node->known)
        snprintf(name, sizeof name, "all: %s", ct_text_time(time, p->total_ns));
    if (!box->node || !box->node->known)
        took = ct_printer_name(p->printer, name, room);
    else
        took = ct_printer_function(p->printer, box->node->known->name, room);
    if (took + 1 + strlen(share) <= room) {
        ct_printer_format(p->printer, " %s", share);
        took += 1 + strlen(share);
    }
    ct_printer_spaces(p->printer, room - took);
}

/* With colours, the last column separates the box from the next; otherwise brackets do. */
static void print_box(const struct picture *p, const struct box *box, size_t width) {
    bool colours = p->printer->colours;
    size_t frame = colours ? width > 1 : width > 2 ? 2 : width;
    if (colours)
        ct_printer_text(p->printer, box_colour(box));
    else
        ct_printer_text(p->printer, width > 1 ? "[" : "|");
    if (width > frame && width >= LEAST)
        print_text(p, box, width - frame);
    else
        ct_printer_spaces(p->printer, width - frame);
    ct_printer_colour(p->printer, CT_COLOUR_PLAIN);
    if (width > 1)
        ct_printer_text(p->printer, colours ? " " : "]");
}

static void print_row(const struct picture *p, const struct row *row) {
    size_t at = 0;
    for (size_t i = 0; i < row->count; i++) {
        const struct box *box = &row->boxes[i];
        size_t begin = column_of(p, box->from_ns), width = width_of(p, box->from_ns, box->time_ns);
        ct_printer_spaces(p->printer, begin - at);
        print_box(p, box, width);
        at = begin + width;
    }
    ct_printer_text(p->printer, "\n");
}

/* ---- the picture ---- */

static bool print_rows(const struct picture *p, const struct ct_flame *flame, uint64_t depth) {
    struct row row = {calloc(p->columns, sizeof *row.boxes), 0}, below = {calloc(p->columns, sizeof *row.boxes), 0};
    bool good = row.boxes && below.boxes;
    if (good)
        add_box(p, &row, &(struct box){.node = &flame->root, .time_ns = p->total_ns});
    for (uint64_t level = 0; good && row.count && ct_printer_wanted(p->printer); level++) {
        print_row(p, &row);
        below.count = 0;
        for (size_t i = 0; i < row.count && (!depth || level < depth); i++)
            add_children(p, &below, &row.boxes[i]);
        struct row done = row;
        row = below;
        below = done;
    }
    free(row.boxes);
    free(below.boxes);
    return good;
}

static void print_notes(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_flame *flame) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    ct_printer_format(printer, "\nThreads: %s; +N is the time of N functions that are too small for boxes\n",
                      ct_text_count(a, flame->threads));
    for (size_t i = 0; i < ct_trace_process_count(trace); i++)
        if (!ct_trace_process_at(trace, i)->complete)
            ct_printer_format(printer, "Process %d: the recorder has not finished this trace\n",
                              ct_trace_process_at(trace, i)->pid);
    if (flame->cut)
        ct_printer_format(printer, "Stacks of more than %d calls are cut, and so are those after the first %s\n",
                          CT_FLAME_MAX_DEPTH, ct_text_count(a, CT_FLAME_MAX_NODES));
    if (flame->gaps)
        ct_printer_format(printer, "Gaps: %s; events lost: %s; times do not include the time in gaps\n",
                          ct_text_count(a, flame->gaps), ct_text_count(b, flame->lost));
}

static int print_flame(const struct ct_trace *trace, const struct ct_flame *flame, uint64_t depth) {
    static struct ct_printer printer;
    ct_printer_open(&printer, true);
    const struct picture p = {&printer, ct_printer_columns(&printer), flame->root.total_ns};
    bool good = true;
    if (p.total_ns)
        good = print_rows(&p, flame, depth);
    else
        ct_printer_text(&printer, "No call has a time\n");
    print_notes(&printer, trace, flame);
    int code = ct_printer_close(&printer);
    return good ? code : ct_message_fail(CT_ERR_NO_MEMORY, NULL);
}

int ct_graph_flame(struct ct_trace *trace, const struct ct_flame_options *options, uint64_t depth, const char *glob) {
    struct ct_flame *flame;
    int code, status = ct_flame_make(&flame, trace, options);
    if (status)
        return ct_reading_fail(trace, status);
    if (glob && !flame->root.child_count) {
        ct_message_error("no function that was called matches \"%s\"; `contrail report` lists those that were", glob);
        code = CT_EXIT_UNAVAILABLE;
    } else {
        code = print_flame(trace, flame, depth);
    }
    ct_flame_free(flame);
    return code;
}
