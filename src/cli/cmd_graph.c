/* SPDX-License-Identifier: Apache-2.0 */
/* contrail graph: callers and callees of functions. */
#include "cli/command.h"
#include "cli/graph_flame.h"
#include "cli/reading.h"
#include "cli/selection.h"
#include "report/graph.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    int sort;
    uint64_t depth, limit;
    struct ct_selection selection;
    struct ct_option_list directories;
    bool flame, json, full_names, mangled, allow_damaged;
};

/* ---- the trees ---- */

enum { CALLS_WIDTH = 9, TIME_WIDTH = 8, SHARE_WIDTH = 7, GAP = 2, INDENT = 2, LEAST_ROOM = 20 };
enum { TABLE_WIDTH = CALLS_WIDTH + TIME_WIDTH + 2 * SHARE_WIDTH + 4 * GAP };

struct tree {
    struct ct_printer *printer;
    const struct ct_graph_function *function;
    bool callers, self; /* self: with a column for it */
};

/* Columns before the function. */
static size_t table_width(const struct tree *t) {
    return TABLE_WIDTH + (t->self ? TIME_WIDTH + GAP : 0);
}

static size_t name_room(const struct ct_printer *printer, size_t used) {
    if (!printer->width)
        return 0;
    return (size_t)printer->width > used + LEAST_ROOM ? (size_t)printer->width - used : LEAST_ROOM;
}

/* Leaves out the module where there is no room for it. */
static void print_name(struct ct_printer *printer, const struct ct_cached_function *known, size_t room) {
    if (!known) {
        ct_printer_text(printer, "(no caller recorded)");
        return;
    }
    size_t took = ct_printer_function(printer, known->name, room);
    if (!*known->module || (room && took + strlen(known->module) + 3 > room))
        return;
    ct_printer_colour(printer, CT_COLOUR_DIM);
    ct_printer_text(printer, " [");
    ct_printer_name(printer, known->module, 0);
    ct_printer_text(printer, "]");
    ct_printer_colour(printer, CT_COLOUR_PLAIN);
}

static void print_row(const struct tree *t, const struct ct_graph_node *parent, const struct ct_graph_node *row,
                      size_t level) {
    char text[CT_TEXT_SIZE];
    uint64_t calls = t->callers ? t->function->callers.calls : parent->child_calls;
    ct_printer_format(t->printer, "%*s", CALLS_WIDTH, ct_text_count(text, row->calls));
    ct_printer_format(t->printer, "%*s%*s", GAP, "", SHARE_WIDTH, ct_text_percent(text, row->calls, calls));
    ct_printer_format(t->printer, "%*s%*s", GAP, "", TIME_WIDTH, row->timed ? ct_text_time(text, row->total_ns) : "-");
    ct_printer_format(t->printer, "%*s%*s", GAP, "", SHARE_WIDTH,
                      row->timed ? ct_text_percent(text, row->total_ns, t->function->callers.total_ns) : "-");
    if (t->self)
        ct_printer_format(t->printer, "%*s%*s", GAP, "", TIME_WIDTH,
                          row->timed ? ct_text_time(text, row->self_ns) : "-");
    ct_printer_spaces(t->printer, GAP + INDENT * level);
    print_name(t->printer, row->known, name_room(t->printer, table_width(t) + INDENT * level));
    ct_printer_text(t->printer, "\n");
}

static void print_rows(const struct tree *t, const struct ct_graph_node *node, size_t level) {
    char text[CT_TEXT_SIZE];
    for (size_t i = 0; i < node->shown && ct_printer_wanted(t->printer); i++) {
        print_row(t, node, node->children[i], level);
        print_rows(t, node->children[i], level + 1);
    }
    if (node->shown < node->child_count)
        ct_printer_format(t->printer, "%*s... %s more (--limit 0 shows all)\n", (int)(table_width(t) + INDENT * level),
                          "", ct_text_count(text, node->child_count - node->shown));
}

static void print_tree(const struct tree *t) {
    const struct ct_graph_node *root = t->callers ? &t->function->callers : &t->function->callees;
    ct_printer_text(t->printer, t->callers ? "\nCalled by:" : "\nCalls:");
    if (!root->child_count) {
        ct_printer_text(t->printer, " nothing that was recorded\n");
        return;
    }
    ct_printer_text(t->printer, "\n");
    ct_printer_colour(t->printer, CT_COLOUR_BOLD);
    ct_printer_format(t->printer, "%*s%*s%*s%*s%*s%*s%*s", CALLS_WIDTH, "CALLS", GAP, "", SHARE_WIDTH, "SHARE", GAP, "",
                      TIME_WIDTH, "TOTAL", GAP, "", SHARE_WIDTH, "SHARE");
    if (t->self)
        ct_printer_format(t->printer, "%*s%*s", GAP, "", TIME_WIDTH, "SELF");
    ct_printer_format(t->printer, "%*s%s", GAP, "", "FUNCTION");
    ct_printer_colour(t->printer, CT_COLOUR_PLAIN);
    ct_printer_text(t->printer, "\n");
    print_rows(t, root, 0);
}

/* ---- a function ---- */

static void print_function(struct ct_printer *printer, const struct ct_graph_function *f, bool self) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    ct_printer_colour(printer, CT_COLOUR_BOLD);
    ct_printer_function(printer, f->callers.known->name, 0);
    ct_printer_colour(printer, CT_COLOUR_PLAIN);
    if (*f->callers.known->module) {
        ct_printer_text(printer, " [");
        ct_printer_name(printer, f->callers.known->module, 0);
        ct_printer_text(printer, "]");
    }
    ct_printer_format(printer, "\nCalls: %s", ct_text_count(a, f->callers.calls));
    if (f->callers.timed)
        ct_printer_format(printer, "; total: %s; self: %s", ct_text_time(a, f->callers.total_ns),
                          ct_text_time(b, f->callers.self_ns));
    if (f->open)
        ct_printer_format(printer, "; open at the end: %s", ct_text_count(a, f->open));
    if (f->exceptions)
        ct_printer_format(printer, "; left by exceptions or longjmp: %s", ct_text_count(a, f->exceptions));
    if (f->unpaired)
        ct_printer_format(printer, "; unpaired: %s", ct_text_count(a, f->unpaired));
    ct_printer_text(printer, "\n");
    print_tree(&(struct tree){.printer = printer, .function = f, .callers = true, .self = self});
    print_tree(&(struct tree){.printer = printer, .function = f, .self = self});
}

static int print_graph(const struct ct_trace *trace, const struct ct_graph *g, const struct options *o) {
    static struct ct_printer printer;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    ct_printer_open(&printer, true);
    for (size_t i = 0; i < g->shown && ct_printer_wanted(&printer); i++) {
        if (i)
            ct_printer_text(&printer, "\n\n");
        print_function(&printer, g->functions[i], o->sort == CT_GRAPH_BY_SELF);
    }
    ct_printer_format(&printer, "\nFunctions: %s", ct_text_count(a, g->shown));
    if (g->shown < g->function_count)
        ct_printer_format(&printer, " of %s (--limit 0 shows all)", ct_text_count(a, g->function_count));
    ct_printer_format(&printer, "; threads: %s\n", ct_text_count(a, g->threads));
    for (size_t i = 0; i < ct_trace_process_count(trace); i++)
        if (!ct_trace_process_at(trace, i)->complete)
            ct_printer_format(&printer, "Process %d: the recorder has not finished this trace\n",
                              ct_trace_process_at(trace, i)->pid);
    if (g->gaps)
        ct_printer_format(&printer, "Gaps: %s; events lost: %s; times do not include the time in gaps\n",
                          ct_text_count(a, g->gaps), ct_text_count(b, g->lost));
    return ct_printer_close(&printer);
}

/* ---- the command ---- */

static int graph_functions(struct ct_trace *trace, const char *glob, const struct options *o,
                           const struct ct_select *select) {
    const struct ct_graph_options options = {
        .select = *select,
        .sort = (enum ct_graph_sort)o->sort,
        .limit = o->limit,
        .depth = o->depth ? o->depth : 1,
        .directories = o->directories.items,
    };
    struct ct_graph *graph;
    int code, status = ct_graph_make(&graph, trace, &options);
    if (status)
        return ct_reading_fail(trace, status);
    if (!graph->function_count) {
        ct_message_error("no function that was called matches \"%s\"; `contrail report` lists those that were", glob);
        code = CT_EXIT_UNAVAILABLE;
    } else if (o->json) {
        struct ct_json json = {0};
        ct_graph_json(graph, trace, &json);
        code = ct_reading_print_json(&json, 0);
    } else {
        code = print_graph(trace, graph, o);
    }
    ct_graph_free(graph);
    return code;
}

static int graph_trace(struct ct_trace *trace, const char *glob, struct options *o) {
    struct ct_select select;
    int code = ct_selection_apply(&o->selection, trace, o->directories.items, &select);
    size_t count = o->selection.functions.count;
    const char **functions = code < 0 ? calloc(count + 2, sizeof *functions) : NULL;
    if (code >= 0 || !functions)
        return code >= 0 ? code : ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    for (size_t i = 0; i < count; i++)
        functions[i] = o->selection.functions.items[i];
    functions[count] = glob;
    select.functions = count || glob ? functions : NULL;
    if (o->flame) {
        const struct ct_flame_options options = {
            .select = select, .sort = (enum ct_graph_sort)o->sort, .directories = o->directories.items};
        code = ct_graph_flame(trace, &options, o->depth, glob);
    } else {
        code = graph_functions(trace, glob, o, &select);
    }
    free(functions);
    return code;
}

static bool is_directory(const char *path) {
    char inside[PATH_MAX];
    int length = snprintf(inside, sizeof inside, "%s/.", path);
    return length > 0 && (size_t)length < sizeof inside && !access(inside, F_OK);
}

/* Finds out which operand is the function; NULL: none. With --flame, a single operand that is a directory is the trace:
 * asked with the user's own rights. Returns -1 to continue, otherwise the exit code, after a message. */
static int split_operands(const struct options *o, struct ct_operands *operands, const char **glob) {
    const char *mistake = NULL;
    if (!operands->count && !o->flame)
        mistake = "graph needs FUNCTION-GLOB, or --flame; `contrail graph --help` explains it";
    else if (o->flame && o->json)
        mistake = "--flame is a picture; leave out --json, or use `contrail export --format folded`";
    if (mistake) {
        ct_message_error("%s", mistake);
        return CT_EXIT_USAGE;
    }
    bool only_trace = !operands->count || (operands->count == 1 && o->flame && is_directory(operands->at[0]));
    *glob = only_trace ? NULL : operands->at[0];
    if (!only_trace)
        *operands = (struct ct_operands){.count = operands->count - 1, .at = operands->at + 1};
    return -1;
}

static int run_graph(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_graph, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    const char *glob;
    code = split_operands(&options, &operands, &glob);
    if (code < 0)
        code = ct_selection_check(&options.selection);
    if (code < 0)
        code = ct_reading_open(&trace, &operands);
    if (code < 0) {
        ct_reading_report_sampled(trace);
        if (options.full_names)
            ct_printer_keep_names();
        if (options.mangled)
            ct_trace_keep_mangled(trace);
        code = ct_reading_close(trace, graph_trace(trace, glob, &options), options.allow_damaged);
    }
    ct_selection_finish(&options.selection);
    ct_options_release(&ct_command_graph, &options);
    return code;
}

static const char *const sort_names[] = {
#define NAME(name, text) text,
    CT_GRAPH_SORT_LIST(NAME)
#undef NAME
        NULL,
};

static const struct ct_option option_table[] = {
    {"sort", 's', CT_OPTION_CHOICE, offsetof(struct options, sort), "COLUMN",
     "sort functions, callers and callees by this column; self adds the column SELF", .initial = "total",
     .choices = sort_names},
    {"depth", 'd', CT_OPTION_NUMBER, offsetof(struct options, depth), "N",
     "follow callers and callees over N calls, up to 16 (default: 1); with --flame, N rows of calls (default: all)",
     .min = 1, .max = CT_GRAPH_MAX_DEPTH},
    {"limit", 'n', CT_OPTION_NUMBER, offsetof(struct options, limit), "N",
     "print at most N functions, and N callers and callees of each; 0: all", .initial = "20"},
    {"flame", 0, CT_OPTION_FLAG, offsetof(struct options, flame), NULL,
     "draw a flame graph of all stacks, or of those that begin at the functions"},
    CT_OPTIONS_SELECTION(struct options, 'f', "functions whose name matches, too",
                         "only functions of modules whose file name matches; callers and callees may be in any module"),
    {"debug-dir", 0, CT_OPTION_LIST, offsetof(struct options, directories), "DIR",
     "look for binaries and debug files here too, for arguments in --where"},
    CT_OPTION_MANGLED(struct options),
    CT_OPTION_FULL_NAMES(struct options),
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL,
     "print JSON, times in nanoseconds, shares from 0 to 1"},
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

const struct ct_command ct_command_graph = {
    .name = "graph",
    .group = CT_GROUP_READ,
    .run = run_graph,
    .summary = "show the callers and callees of functions",
    .operands = "[FUNCTION-GLOB] [TRACE]",
    .max_operands = 2,
    .description =
        "Prints the callers and callees of each function whose name matches. TRACE is a session or a pid_N directory; "
        "without it, the newest under ./traces.\n\n"
        "Callers: CALLS and TOTAL are those of the function when this caller calls it, with their shares of all its "
        "calls and of its total time. Callees: CALLS and TOTAL of each callee, with their shares of all calls that "
        "the function makes and of its total time. With --depth, callers of callers and callees of callees are "
        "indented below them. --sort self adds a column: SELF is the part of TOTAL outside of the functions that were "
        "called.\n\n"
        "A function that calls itself is among its own callers and callees. Nested calls count once in the time of a "
        "row, so with recursion the shares of several rows may add up to more than 100 %. Only recorded functions "
        "appear: a caller is the innermost recorded one.\n\n"
        "With --flame, FUNCTION-GLOB may be left out (a single operand that is a directory is the TRACE). Each row is "
        "a "
        "depth, callers above callees; boxes are as wide as the time in their functions, with its share of all time "
        "that is shown. Equal stacks of all selected threads are one. Functions of one caller that are too small for "
        "boxes share one: +N. --sort orders the boxes below each box; --limit has no effect. Pipes get 80 columns, or "
        "COLUMNS, and ASCII brackets instead of colours.\n\n"
        "--from, --to, --thread, --process and --where select calls of these functions as in all reading commands "
        "(contrail(1), SELECTION); their callers and callees need not fit.\n\n"
        "C++ and Rust names are demangled; the GLOB matches the whole name, the name without its parameters, or "
        "mangled. Trees show at most one level of template arguments, without defaults, and std::string for its long "
        "name; "
        "--full-names shows all, and JSON has all.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, 64 usage, 65 parts of the trace are missing,\n"
             "  69 there is no such trace or thread, or no such function was called\n",
    .examples = "contrail graph main\n"
                "contrail graph 'parse_*' --depth 3\n"
                "contrail graph malloc -m 'libc.so*' --thread 'worker-*' traces/session_20250102_030405\n"
                "contrail graph work --where 'duration > 1ms'\n"
                "contrail graph 'handle_*' --sort self\n"
                "contrail graph --flame\n"
                "contrail graph --flame 'handle_*' --thread 'worker-*' --from 1.5s\n"
                "contrail graph work --json",
};
