/* SPDX-License-Identifier: Apache-2.0 */
/* contrail report: lists functions by calls and times. */
#include "cli/call_counts.h"
#include "cli/command.h"
#include "cli/left_out.h"
#include "cli/moment.h"
#include "cli/reading.h"
#include "cli/report_blocks.h"
#include "cli/report_locks.h"
#include "cli/report_histogram.h"
#include "cli/report_slowest.h"
#include "cli/report_unhooked.h"
#include "cli/report_values.h"
#include "cli/selection.h"
#include "report/functions.h"
#include "report/output.h"
#include "symbols/demangle.h"
#include <stdlib.h>
#include <string.h>

struct options {
    int sort, clock;
    uint64_t limit, min_calls, slowest;
    struct ct_selection selection;
    struct ct_option_list directories;
    const char *histogram;
    bool args, full_names, per_thread, json, csv, mangled, lines, inlines, blocks, locks, allow_damaged;
};

/* ---- the table ---- */

/* Columns of times, in the order of the table. Where a terminal is narrow, those with a `rank` go: 1 first. */
static const struct {
    const char *title;
    size_t offset;
    enum ct_report_sort sort; /* this column is never left out when the rows are sorted by it */
    int rank;
} columns[] = {
    {"TOTAL", offsetof(struct ct_report_row, total_ns), CT_REPORT_BY_TOTAL, 0},
    {"SELF", offsetof(struct ct_report_row, self_ns), CT_REPORT_BY_SELF, 0},
    {"AVG", offsetof(struct ct_report_row, avg_ns), CT_REPORT_BY_AVG, 5},
    {"MAX", offsetof(struct ct_report_row, max_ns), CT_REPORT_BY_MAX, 4},
    {"P50", offsetof(struct ct_report_row, p50_ns), CT_REPORT_BY_P50, 1},
    {"P95", offsetof(struct ct_report_row, p95_ns), CT_REPORT_BY_P95, 2},
    {"P99", offsetof(struct ct_report_row, p99_ns), CT_REPORT_BY_P99, 3},
    /* only where switches were recorded: */
    {"CPU", offsetof(struct ct_report_row, cpu_ns), CT_REPORT_BY_CPU, 8},
    {"BLOCKED", offsetof(struct ct_report_row, blocked_ns), CT_REPORT_BY_BLOCKED, 7},
    {"PREEMPT", offsetof(struct ct_report_row, preempted_ns), CT_REPORT_BY_PREEMPTED, 6},
};
enum { COLUMN_COUNT = sizeof columns / sizeof columns[0], CPU_COLUMNS = 3, SELF_COLUMN = 1, LAST_RANK = 8 };
/* Columns are left out until a function has the wanted room. */
enum { TIME_WIDTH = 8, SHARE_WIDTH = 6, GAP = 2, LEAST_ROOM = 20, WANTED_ROOM = 30 };

struct table {
    struct ct_printer *printer;
    const struct ct_trace *trace;
    const struct ct_report *report;
    int calls_width, thread_width; /* thread 0: not shown */
    bool shown[COLUMN_COUNT];
    bool lines, inlines;
    const struct ct_values *values; /* NULL: not wanted */
};

/* Where functions begin; lines under a row begin there too. */
static size_t indent_of(const struct table *t) {
    size_t used = (size_t)t->calls_width + GAP + SHARE_WIDTH + GAP;
    for (int i = 0; i < COLUMN_COUNT; i++)
        used += t->shown[i] ? GAP + TIME_WIDTH : 0;
    return used + (t->thread_width ? (size_t)t->thread_width + GAP : 0);
}

static void choose_columns(struct table *t, enum ct_report_sort sort) {
    for (int i = 0; i < COLUMN_COUNT; i++)
        t->shown[i] = t->report->cpu_threads || i < COLUMN_COUNT - CPU_COLUMNS;
    for (int rank = 1; t->printer->width && rank <= LAST_RANK; rank++)
        for (int i = 0; i < COLUMN_COUNT; i++)
            if (columns[i].rank == rank && columns[i].sort != sort &&
                indent_of(t) + WANTED_ROOM > (size_t)t->printer->width)
                t->shown[i] = false;
}

static struct table measure_table(struct ct_printer *printer, const struct ct_trace *trace,
                                  const struct ct_report *report, const struct options *o) {
    struct table t = {.printer = printer, .trace = trace, .report = report, .calls_width = 7};
    char text[64];
    for (size_t i = 0; i < report->row_count; i++) {
        const struct ct_report_row *row = &report->rows[i];
        int calls = (int)strlen(ct_text_count(text, row->calls));
        int thread =
            o->per_thread ? ct_reading_thread_text(text, sizeof text, ct_trace_thread_at(trace, row->thread)) : 0;
        t.calls_width = calls > t.calls_width ? calls : t.calls_width;
        t.thread_width = thread > t.thread_width ? thread : t.thread_width;
    }
    if (o->per_thread && t.thread_width < 6)
        t.thread_width = 6;
    choose_columns(&t, (enum ct_report_sort)o->sort);
    return t;
}

/* Columns left for the function when `after` more follow it. 0: unlimited. */
static size_t name_room(const struct table *t, size_t after) {
    size_t used = indent_of(t) + after, width = (size_t)t->printer->width;
    return !width ? 0 : width > used + LEAST_ROOM ? width - used : LEAST_ROOM;
}

/* Leaves out the module where there is no room for it. */
static void print_function(const struct table *t, const struct ct_report_row *row, size_t after) {
    size_t room = name_room(t, after), took = ct_printer_function(t->printer, row->name, room);
    if (!*row->module || (room && took + strlen(row->module) + 3 > room))
        return;
    ct_printer_colour(t->printer, CT_COLOUR_DIM);
    ct_printer_text(t->printer, " [");
    ct_printer_name(t->printer, row->module, 0);
    ct_printer_text(t->printer, "]");
    ct_printer_colour(t->printer, CT_COLOUR_PLAIN);
}

static void print_head(const struct table *t) {
    ct_printer_colour(t->printer, CT_COLOUR_BOLD);
    ct_printer_format(t->printer, "%*s", t->calls_width, "CALLS");
    for (int i = 0; i < COLUMN_COUNT; i++) {
        if (t->shown[i])
            ct_printer_format(t->printer, "%*s%*s", GAP, "", TIME_WIDTH, columns[i].title);
        if (i == SELF_COLUMN)
            ct_printer_format(t->printer, "%*s%*s", GAP, "", SHARE_WIDTH, "%");
    }
    if (t->thread_width)
        ct_printer_format(t->printer, "%*s%-*s", GAP, "", t->thread_width, "THREAD");
    ct_printer_format(t->printer, "%*s%s", GAP, "", "FUNCTION");
    ct_printer_colour(t->printer, CT_COLOUR_PLAIN);
    ct_printer_text(t->printer, "\n");
}

/* Prints one line each, under the row. */
static void print_inlines(const struct table *t, const char *inlines) {
    while (*inlines) {
        size_t length = strcspn(inlines, "\t");
        char *name = strndup(inlines, length), *display = name ? ct_demangle(name) : NULL;
        ct_printer_spaces(t->printer, indent_of(t));
        ct_printer_text(t->printer, "  inlined: ");
        ct_printer_function(t->printer, display ? display : name ? name : "", 0);
        ct_printer_text(t->printer, "\n");
        free(display);
        free(name);
        inlines += length + (inlines[length] == '\t');
    }
}

static void print_row(const struct table *t, const struct ct_report_row *row) {
    char text[64];
    ct_printer_format(t->printer, "%*s", t->calls_width, ct_text_count(text, row->calls));
    for (int i = 0; i < COLUMN_COUNT; i++) {
        uint64_t ns = *(const uint64_t *)((const char *)row + columns[i].offset);
        if (t->shown[i])
            ct_printer_format(t->printer, "%*s%*s", GAP, "", TIME_WIDTH, row->timed ? ct_text_time(text, ns) : "-");
        if (i == SELF_COLUMN)
            ct_printer_format(t->printer, "%*s%*s", GAP, "", SHARE_WIDTH,
                              row->timed ? ct_text_percent(text, ns, t->report->self_ns) : "-");
    }
    if (t->thread_width) {
        ct_reading_thread_text(text, sizeof text, ct_trace_thread_at(t->trace, row->thread));
        ct_printer_spaces(t->printer, GAP);
        size_t took = ct_printer_name(t->printer, text, 0);
        ct_printer_spaces(t->printer, (size_t)t->thread_width > took ? (size_t)t->thread_width - took : 0);
    }
    ct_printer_spaces(t->printer, GAP);
    print_function(t, row, row->open ? strlen(" ( open)") + strlen(ct_text_count(text, row->open)) : 0);
    if (t->lines && row->known && *row->known->line) {
        ct_printer_text(t->printer, " at ");
        ct_printer_name(t->printer, row->known->line, 0);
    }
    if (row->open)
        ct_printer_format(t->printer, " (%s open)", ct_text_count(text, row->open));
    ct_printer_text(t->printer, "\n");
    if (t->inlines && row->known)
        print_inlines(t, row->known->inlines);
    size_t place = (size_t)(row - t->report->rows);
    if (t->values && place < t->values->row_count)
        ct_report_values_print(t->printer, &t->values->rows[place], row->calls, (size_t)t->calls_width + GAP);
}

/* ---- remarks on the numbers ---- */

static void print_counts(const struct table *t) {
    const struct ct_report *r = t->report;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    ct_printer_format(t->printer, "\nCalls: %s%s; threads: %s", ct_text_count(a, r->calls),
                      r->sampled ? " recorded" : "", ct_text_count(b, r->threads));
    if (r->matched > r->row_count)
        ct_printer_format(t->printer, "; rows: %s of %s (--limit 0 shows all)", ct_text_count(a, r->row_count),
                          ct_text_count(c, r->matched));
    ct_printer_text(t->printer, "\n");
}

static void print_notes(const struct table *t) {
    const struct ct_report *r = t->report;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    for (size_t i = 0; i < ct_trace_process_count(t->trace); i++)
        if (!ct_trace_process_at(t->trace, i)->complete)
            ct_printer_format(t->printer, "Process %d: the recorder has not finished this trace\n",
                              ct_trace_process_at(t->trace, i)->pid);
    if (r->open)
        ct_printer_format(t->printer, "Calls open at the end: %s; their time reaches until then\n",
                          ct_text_count(a, r->open));
    if (r->exceptions)
        ct_printer_format(t->printer, "Calls left by exceptions or longjmp: %s\n", ct_text_count(a, r->exceptions));
    if (r->gaps)
        ct_printer_format(t->printer, "Gaps: %s; events lost: %s; time in gaps, which no time above includes: %s\n",
                          ct_text_count(a, r->gaps), ct_text_count(b, r->lost), ct_text_time(c, r->gap_ns));
    if (r->waited_ns)
        ct_printer_format(t->printer, "Threads waited for the recorder: %s in all, which no time above includes\n",
                          ct_text_time(a, r->waited_ns));
    if (r->unpaired)
        ct_printer_format(t->printer,
                          "Unpaired calls and returns: %s; their other half was lost, so they have no time\n",
                          ct_text_count(a, r->unpaired));
}

static void print_sampled(const struct table *t) {
    char a[CT_TEXT_SIZE];
    if (!t->report->sampled)
        return;
    ct_printer_format(t->printer, "Sampled: every %s call of a function was recorded, with all that it called; %s\n",
                      ct_text_ordinal(a, t->report->sampled),
                      t->report->exact ? "CALLS are all calls, times are those of the sample"
                                       : "CALLS and times are those of the sample");
}

/* Of a trace without events: how often functions were called, if that was counted. */
static void print_counted(const struct table *t, const struct ct_select *select, uint64_t limit) {
    struct ct_call_counts counts = {0};
    char text[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    for (size_t i = 0; i < ct_trace_process_count(t->trace); i++)
        if (ct_select_process(select, t->trace, i))
            (void)ct_call_counts_add(&counts, ct_trace_process_at(t->trace, i)->directory); /* most have none */
    ct_call_counts_sort(&counts);
    if (counts.count)
        ct_printer_format(t->printer, "\nNo events were recorded, only counts: %s calls of %s functions\n",
                          ct_text_count(text, counts.calls), ct_text_count(b, counts.count));
    for (size_t i = 0; i < counts.count && (!limit || i < limit); i++) {
        ct_printer_format(t->printer, "%15s  ", ct_text_count(text, counts.list[i].count));
        ct_printer_function(t->printer, counts.list[i].name, 0);
        ct_printer_text(t->printer, "\n");
    }
    if (limit && counts.count > limit)
        ct_printer_format(t->printer, "Rows: %s of %s (--limit 0 shows all)\n", ct_text_count(text, limit),
                          ct_text_count(b, counts.count));
    ct_call_counts_free(&counts);
}

static bool has_events(const struct ct_trace *trace) {
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_trace_thread_at(trace, i)->event_count)
            return true;
    return false;
}

static int print_table(const struct ct_trace *trace, const struct ct_report *report, const struct options *o,
                       const struct ct_select *select, const struct ct_values *values) {
    static struct ct_printer printer;
    ct_printer_open(&printer, true);
    struct table t = measure_table(&printer, trace, report, o);
    t.lines = o->lines;
    t.inlines = o->inlines;
    t.values = values;
    print_head(&t);
    for (size_t i = 0; i < report->row_count && ct_printer_wanted(&printer); i++)
        print_row(&t, &report->rows[i]);
    print_counts(&t);
    print_notes(&t);
    print_sampled(&t);
    ct_left_out_print(&printer, &report->left_out, o->limit);
    if (!has_events(trace))
        print_counted(&t, select, o->limit);
    if (!o->per_thread)
        ct_report_unhooked_print(&printer, trace, report, o->directories.items);
    return ct_printer_close(&printer);
}

static int print_csv(const struct ct_trace *trace, const struct ct_report *report, const struct options *o) {
    struct ct_output text = {0};
    ct_report_csv(report, o->per_thread, trace, &text);
    if (!o->per_thread)
        ct_report_unhooked_mention(trace, report, o->directories.items);
    return ct_reading_print_text(&text);
}

/* ---- the command ---- */

static int report_blocks(struct ct_trace *trace, const struct options *o, const struct ct_select *select) {
    const struct ct_block_options options = {
        .select = *select,
        .limit = o->limit,
        .min_count = o->min_calls,
        .per_thread = o->per_thread,
        .lines = o->lines,
        .directories = o->directories.items,
    };
    return ct_report_blocks(trace, &options, o->json ? CT_REPORT_JSON : o->csv ? CT_REPORT_CSV : CT_REPORT_TABLE);
}

/* The reports that show moments. */
static int report_moments(struct ct_trace *trace, const struct options *o, const struct ct_select *select) {
    struct ct_moment_clock clock;
    int code = ct_moment_open(&clock, trace, o->clock);
    if (code < 0 && o->slowest)
        code = ct_report_slowest(trace, select, (size_t)o->slowest, o->directories.items, &clock, o->json);
    else if (code < 0)
        code = ct_report_locks(trace, select, o->limit, o->directories.items, &clock, o->json);
    ct_moment_close(&clock);
    return code;
}

static int report_trace(struct ct_trace *trace, struct options *o) {
    struct ct_report_options options = {
        .sort = (enum ct_report_sort)o->sort,
        .limit = o->limit,
        .min_calls = o->min_calls,
        .per_thread = o->per_thread,
        .directories = o->directories.items,
    };
    struct ct_report *report = NULL;
    int code = ct_selection_apply(&o->selection, trace, o->directories.items, &options.select);
    if (code >= 0)
        return code;
    if (o->slowest || o->locks || o->histogram || o->csv) /* the table and JSON say it themselves */
        ct_reading_report_sampled(trace);
    if (o->slowest || o->locks)
        return report_moments(trace, o, &options.select);
    if (o->histogram)
        return ct_report_histogram(trace, &options, o->histogram, o->json);
    if (o->blocks)
        return report_blocks(trace, o, &options.select);
    struct ct_values *values = NULL;
    int status = ct_report_make(&report, trace, &options);
    if (!status && o->args)
        status = ct_values_make(&values, trace, report, &options.select, o->directories.items);
    if (status) {
        code = ct_reading_fail(trace, status);
    } else if (o->json) {
        struct ct_json json = {0};
        if (o->per_thread)
            ct_report_json(report, trace, values, NULL, &json);
        else
            ct_report_unhooked_json(&json, trace, report, values, o->directories.items);
        code = ct_reading_print_json(&json, 0);
    } else {
        code = o->csv ? print_csv(trace, report, o) : print_table(trace, report, o, &options.select, values);
    }
    ct_values_free(values);
    ct_report_free(report);
    return code;
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int check_options(struct options *o) {
    const char *mistake = NULL;
    if (o->json && o->csv)
        mistake = "--json and --csv exclude each other; give one of them";
    else if (o->args && (o->csv || o->per_thread))
        mistake = "--args does not go with --csv or --per-thread; leave them out, or use --json";
    else if (o->blocks && (o->args || o->inlines))
        mistake = "--args and --inlines are for functions; leave out --blocks";
    else if (o->blocks && (o->selection.from || o->selection.to || o->selection.where))
        mistake = "--from, --to and --where are for calls; leave out --blocks";
    else if (o->slowest && (o->blocks || o->args || o->csv || o->per_thread))
        mistake = "--slowest lists single calls; leave out --blocks, --args, --csv and --per-thread";
    else if (o->locks && (o->slowest || o->blocks || o->args || o->csv || o->per_thread))
        mistake = "--locks lists locks; leave out --slowest, --blocks, --args, --csv and --per-thread";
    else if (o->histogram && (o->slowest || o->locks || o->blocks || o->args || o->csv || o->per_thread || o->inlines))
        mistake = "--histogram shows the times of calls; leave out --slowest, --locks, --blocks, --args, --csv, "
                  "--per-thread and "
                  "--inlines";
    else if ((o->locks || o->slowest) && (o->sort != CT_REPORT_BY_TOTAL || o->min_calls || o->lines || o->inlines))
        mistake = "--locks and --slowest have columns and an order of their own; leave out --sort, --min-calls, "
                  "--lines and --inlines";
    else if (o->blocks && o->sort != CT_REPORT_BY_TOTAL)
        mistake = "--blocks lists blocks by how often they were executed; leave out --sort";
    else if (o->clock != CT_CLOCK_START && !o->slowest && !o->locks)
        mistake = "--clock is for moments; give it with --slowest or --locks";
    if (!mistake)
        return ct_selection_check(&o->selection);
    ct_message_error("%s", mistake);
    return CT_EXIT_USAGE;
}

static int run_report(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_report, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    code = check_options(&options);
    if (code < 0)
        code = ct_reading_open(&trace, &operands);
    if (code < 0) {
        if (options.full_names)
            ct_printer_keep_names();
        if (options.mangled)
            ct_trace_keep_mangled(trace);
        code = ct_reading_close(trace, report_trace(trace, &options), options.allow_damaged);
    }
    ct_selection_finish(&options.selection);
    ct_options_release(&ct_command_report, &options);
    return code;
}

static const char *const sort_names[] = {
#define NAME(name, text) text,
    CT_REPORT_SORT_LIST(NAME)
#undef NAME
        NULL,
};

static const struct ct_option option_table[] = {
    {"sort", 's', CT_OPTION_CHOICE, offsetof(struct options, sort), "COLUMN", "sort rows by this column",
     .initial = "total", .choices = sort_names},
    {"limit", 'n', CT_OPTION_NUMBER, offsetof(struct options, limit), "N", "print at most N rows; 0: all",
     .initial = "30"},
    CT_OPTIONS_SELECTION(struct options, 'f', "only functions whose name matches",
                         "only functions of modules whose file name matches"),
    {"slowest", 0, CT_OPTION_NUMBER, offsetof(struct options, slowest), "N",
     "list the N slowest calls instead, and how to see each of them", .min = 1, .max = 1000000},
    {"locks", 0, CT_OPTION_FLAG, offsetof(struct options, locks), NULL,
     "list locks instead: who waited how long for whom, and deadlocks"},
    {"histogram", 0, CT_OPTION_STRING, offsetof(struct options, histogram), "FUNCTION-GLOB",
     "show how long the calls of these functions took instead, as bars and percentiles"},
    CT_OPTION_CLOCK(struct options),
    {"min-calls", 0, CT_OPTION_NUMBER, offsetof(struct options, min_calls), "N",
     "only functions with at least N calls, or blocks that were executed at least N times"},
    CT_OPTION_MANGLED(struct options),
    CT_OPTION_FULL_NAMES(struct options),
    {"lines", 0, CT_OPTION_FLAG, offsetof(struct options, lines), NULL,
     "print the source line of each function, if `contrail symbolize` found it; with --blocks, that of each block, "
     "from the module or its debug file"},
    {"inlines", 0, CT_OPTION_FLAG, offsetof(struct options, inlines), NULL,
     "print the functions that were inlined into each, if `contrail symbolize --inlines` found them"},
    {"args", 'a', CT_OPTION_FLAG, offsetof(struct options, args), NULL,
     "print arguments and results of each function, where they were recorded"},
    {"debug-dir", 0, CT_OPTION_LIST, offsetof(struct options, directories), "DIR",
     "look for binaries and debug files here too, for names and types of arguments, names of locks and lines of "
     "blocks"},
    {"blocks", 'b', CT_OPTION_FLAG, offsetof(struct options, blocks), NULL,
     "list blocks of code instead, by how often they were executed (contrail stalk --events block)"},
    {"per-thread", 0, CT_OPTION_FLAG, offsetof(struct options, per_thread), NULL,
     "one row for each function and thread"},
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL, "print JSON, times in nanoseconds"},
    {"csv", 0, CT_OPTION_FLAG, offsetof(struct options, csv), NULL, "print CSV, times in nanoseconds"},
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

const struct ct_command ct_command_report = {
    .name = "report",
    .group = CT_GROUP_READ,
    .run = run_report,
    .summary = "list functions by calls and times",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Prints a row for each function that was called, over all threads. TRACE is a session or a pid_N directory; "
        "without it, the newest under ./traces.\n\n"
        "TOTAL is the time between call and return; calls of a function by itself are part of the outermost call and "
        "count once. SELF is TOTAL without the functions that it called, % its share of the self time of all "
        "selected calls, also of functions that are not listed. AVG, MAX and the percentiles (within 2 %) "
        "are those of single calls. Functions that are recorded on entry only have calls, but no times (-).\n\n"
        "Time in which a thread waited for the recorder is in none of these. Where the recording has it (--cpu), CPU, "
        "BLOCKED and PREEMPT are parts of SELF: on a processor; off it, waiting for something; off it, although it "
        "could have run.\n\n"
        "On a narrow terminal, columns are left out until names have room: the percentiles first, then MAX and AVG, "
        "then "
        "PREEMPT, BLOCKED and CPU, but never the one of --sort. COLUMNS in the environment replaces the terminal's "
        "width; other outputs have all columns and whole names.\n\n"
        "Calls that were open when the recording ended last until then. Where events were lost, calls without their "
        "return and returns without their call have no time, and the time of the gap counts for none.\n\n"
        "Below the table are functions that could not be hooked and are perhaps called often, because frequent or slow "
        "functions of their module call them directly: an estimate from the module's file, if it is available. JSON "
        "has "
        "all of them (not_hooked); with --csv, standard error has a sentence about them.\n\n"
        "--from, --to, --thread, --process, --function, --module and --where select calls as in all reading commands "
        "(contrail(1), SELECTION): only calls that fit count. Of calls that overlap the time between --from and --to, "
        "the part in it counts.\n\n"
        "With --slowest, single calls are listed, the slowest first: when it began, its duration and self time, its "
        "thread and function, and the command that shows what happened around it. --clock wall prints moments of this "
        "list "
        "and of --locks as date and time, so that they can be laid beside logs; JSON has them beside those of the "
        "machine's clock.\n\n"
        "With --locks, the calls of pthread_mutex_lock and its like are listed by lock: WAITED counts those that began "
        "when another thread held the lock, TOTAL and MAX are times of the calls, MAX HELD is the longest time between "
        "lock and unlock. Which lock it is is known where the arguments were recorded (spawn --detail always, or "
        "around "
        "a mark: `contrail ctl PID mark` before the end shows what a hung program waits for). Threads that wait for "
        "each other in a circle are listed first, as a deadlock.\n\n"
        "With --histogram, the calls of all functions that match are counted together: a row for each power of two of "
        "their durations, with a bar, and percentiles (within 2 %) below. All words of the selection apply; --sort and "
        "--limit have no effect.\n\n"
        "With --args, each parameter of a function that has detail records (spawn --detail, --trigger) is printed "
        "below its row: the range of its numbers and its most frequent values. With more than 32 different values a "
        "share is a lower limit (\"at least\"). Names and types come from debug information when the module or its "
        "debug file is available; otherwise the registers are shown.\n\n"
        "With --blocks, each block that followed threads executed is a row, the most frequent first (--sort has no "
        "effect): COUNT is how often it was entered, INSNS the number of its instructions, EXECUTED how many of them "
        "were executed in all, SHARE their part of all instructions of these threads. --function and --module select "
        "blocks by their place.\n\n"
        "C++ and Rust names are demangled; GLOBs match the whole name, the name without its parameters, or mangled. "
        "Tables show at most one level of template arguments, without defaults, and std::string for its long name; "
        "--full-names shows all, and JSON and CSV have all. "
        "`contrail symbolize` finds source lines and inlined functions.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, 64 usage, 65 parts of the trace are missing, 69 there is no such trace or thread\n",
    .examples = "contrail report\n"
                "contrail report --sort self --limit 10\n"
                "contrail report -m 'libc.so*' -f 'mem*' traces/session_20250102_030405\n"
                "contrail report --args -f 'parse_*'\n"
                "contrail report --from 1.5s --to 1.6s --sort self\n"
                "contrail report --where 'result < 0'\n"
                "contrail report --slowest 10 -f 'handle_*'\n"
                "contrail report --locks\n"
                "contrail report --slowest 10 --clock wall\n"
                "contrail report --histogram 'handle_*' --thread 'worker-*'\n"
                "contrail report --blocks --lines --limit 20\n"
                "contrail report --per-thread --thread 'worker-*' --csv > threads.csv",
};
