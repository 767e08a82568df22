/* SPDX-License-Identifier: Apache-2.0 */
/* contrail diff: what changed between two traces of one program. */
#include "cli/command.h"
#include "cli/reading.h"
#include "cli/selection.h"
#include "report/diff.h"
#include <stdlib.h>
#include <string.h>

struct options {
    int sort;
    uint64_t limit, min_change, next;
    struct ct_selection selection;
    struct ct_option_list directories, more[CT_DIFF_SIDES];
    bool json, full_names, mangled, all, allow_damaged;
};

/* ---- the table ---- */

enum { COUNT_WIDTH = 9, CHANGE_WIDTH = 9, TIME_WIDTH = 8, STATE_WIDTH = 4, GAP = 2, LEAST_ROOM = 20 };
enum {
    TABLE_WIDTH =
        2 * (TIME_WIDTH + GAP + CHANGE_WIDTH + GAP) + COUNT_WIDTH + GAP + CHANGE_WIDTH + GAP + STATE_WIDTH + GAP
};

static void print_name(struct ct_printer *printer, const char *name, const char *module, size_t used) {
    size_t room = 0;
    if (printer->width)
        room = (size_t)printer->width > used + LEAST_ROOM ? (size_t)printer->width - used : LEAST_ROOM;
    size_t took = ct_printer_function(printer, name, room);
    if (*module && (!room || took + strlen(module) + 3 <= room)) {
        ct_printer_colour(printer, CT_COLOUR_DIM);
        ct_printer_text(printer, " [");
        ct_printer_name(printer, module, 0);
        ct_printer_text(printer, "]");
        ct_printer_colour(printer, CT_COLOUR_PLAIN);
    }
    ct_printer_text(printer, "\n");
}

/* Prints B's value, and by how much it differs from A's. `same`: by noise. */
static void print_values(struct ct_printer *printer, int width, uint64_t a, uint64_t b, bool there, bool same,
                         const char *(*text_of)(char *buffer, uint64_t n)) {
    char text[CT_TEXT_SIZE], change[CT_TEXT_SIZE + 1] = "=";
    if (same) {
        strcpy(change, "~");
    } else if (a != b) {
        change[0] = a < b ? '+' : '-';
        strcpy(change + 1, text_of(text, a < b ? b - a : a - b));
    }
    ct_printer_format(printer, "%*s%*s%*s%*s", width, there ? text_of(text, b) : "-", GAP, "", CHANGE_WIDTH, change,
                      GAP, "");
}

static void print_times(struct ct_printer *printer, const struct ct_diff_row *row, uint64_t a, uint64_t b) {
    if (row->side[CT_DIFF_A].timed || row->side[CT_DIFF_B].timed)
        print_values(printer, TIME_WIDTH, a, b, row->side[CT_DIFF_B].timed, row->same_times, ct_text_time);
    else
        ct_printer_format(printer, "%*s%*s%*s%*s", TIME_WIDTH, "-", GAP, "", CHANGE_WIDTH, "-", GAP, "");
}

static void print_row(struct ct_printer *printer, const struct ct_diff_row *row) {
    const struct ct_diff_values *a = &row->side[CT_DIFF_A], *b = &row->side[CT_DIFF_B];
    print_times(printer, row, a->compared_ns, b->compared_ns);
    print_times(printer, row, a->total_ns, b->total_ns);
    print_values(printer, COUNT_WIDTH, a->calls, b->calls, b->calls, false, ct_text_count);
    ct_printer_format(printer, "%-*s%*s", STATE_WIDTH, !a->calls ? "new" : !b->calls ? "gone" : "", GAP, "");
    print_name(printer, row->name, row->module, TABLE_WIDTH);
}

static void print_table(struct ct_printer *printer, const struct ct_diff *d) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE], e[CT_TEXT_SIZE];
    if (d->row_count) {
        ct_printer_colour(printer, CT_COLOUR_BOLD);
        ct_printer_format(printer, "%*s%*s  %*s%*s  %*s%*s  %*s%s", TIME_WIDTH, d->cpu ? "CPU" : "SELF",
                          GAP + CHANGE_WIDTH, "CHANGE", TIME_WIDTH, "TOTAL", GAP + CHANGE_WIDTH, "CHANGE", COUNT_WIDTH,
                          "CALLS", GAP + CHANGE_WIDTH, "CHANGE", STATE_WIDTH + GAP, "", "FUNCTION");
        ct_printer_colour(printer, CT_COLOUR_PLAIN);
        ct_printer_text(printer, "\n");
    }
    for (size_t i = 0; i < d->row_count && ct_printer_wanted(printer); i++)
        print_row(printer, &d->rows[i]);
    ct_printer_format(printer, "%sFunctions: %s new, %s gone, %s changed, %s unchanged", d->row_count ? "\n" : "",
                      ct_text_count(a, d->added), ct_text_count(b, d->gone), ct_text_count(c, d->changed),
                      ct_text_count(e, d->unchanged));
    if (d->row_count < d->matched)
        ct_printer_format(printer, "; rows: %s of %s (--limit 0 shows all)", ct_text_count(a, d->row_count),
                          ct_text_count(b, d->matched));
    ct_printer_text(printer, "\n");
    if (d->noise)
        ct_printer_format(printer,
                          "Noise: %s %s %s that differ by no more than those of equal runs (--all shows them)\n",
                          ct_text_count(a, d->noise), d->noise == 1 ? "function has" : "functions have",
                          d->cpu ? "CPU times" : "times");
}

/* ---- the paths ---- */

static const char *const side_names[CT_DIFF_SIDES] = {"A", "B"};

static void print_call(struct ct_printer *printer, const struct ct_diff_call *call, const char *sign) {
    size_t indent = 4 + 2 * (size_t)(call->depth < 40 ? call->depth : 40);
    ct_printer_format(printer, "  %s ", sign);
    ct_printer_spaces(printer, indent - 4);
    print_name(printer, call->known->name, call->known->module, indent);
}

static void print_paths(struct ct_printer *printer, const struct ct_diff *d, const struct options *o) {
    const struct ct_diff_path *path = &d->path;
    char text[CT_TEXT_SIZE];
    if (!path->compared) {
        ct_printer_text(printer, "Main threads: one of the traces has none\n");
        return;
    }
    if (!path->part) {
        ct_printer_format(printer, "Main threads: all calls are equal: %s\n", ct_text_count(text, path->common));
        return;
    }
    ct_printer_format(printer, "\nMain threads: calls in common: %s; then they diverge:\n",
                      ct_text_count(text, path->common));
    for (size_t i = 0; i < path->stack_count; i++)
        print_call(printer, &path->stack[i], " ");
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        for (size_t i = 0; i < path->next_count[s] && ct_printer_wanted(printer); i++)
            print_call(printer, &path->next[s][i], side_names[s]);
        if (path->next_count[s] < o->next)
            ct_printer_format(printer, "  %s (no more calls)\n", side_names[s]);
    }
}

static void print_notes(struct ct_printer *printer, struct ct_trace *const traces[], const struct ct_diff *d) {
    char text[CT_TEXT_SIZE];
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        for (size_t i = 0; i < ct_trace_process_count(traces[s]); i++)
            if (!ct_trace_process_at(traces[s], i)->complete)
                ct_printer_format(printer, "%s: process %d: the recorder has not finished this trace\n", side_names[s],
                                  ct_trace_process_at(traces[s], i)->pid);
        if (d->reports[s]->lost)
            ct_printer_format(printer, "%s: events lost: %s; a difference may be due to that\n", side_names[s],
                              ct_text_count(text, d->reports[s]->lost));
    }
}

static void print_side(struct ct_printer *printer, int side, const struct ct_trace *trace, const struct ct_diff *d) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    ct_printer_format(printer, "%s: %s (calls: %s; threads: %s)", side_names[side], ct_trace_path(trace),
                      ct_text_count(a, d->reports[side]->calls), ct_text_count(b, d->reports[side]->threads));
    if (d->more_count[side])
        ct_printer_format(printer, ", and %s more", ct_text_count(a, d->more_count[side]));
    ct_printer_text(printer, "\n");
}

static int print_diff(struct ct_trace *const traces[], const struct ct_diff *d, const struct options *o) {
    static struct ct_printer printer;
    ct_printer_open(&printer, true);
    for (int s = 0; s < CT_DIFF_SIDES; s++)
        print_side(&printer, s, traces[s], d);
    ct_printer_text(&printer, "\n");
    print_table(&printer, d);
    print_paths(&printer, d, o);
    print_notes(&printer, traces, d);
    return ct_printer_close(&printer);
}

/* ---- the command ---- */

struct traces {
    struct ct_trace *first[CT_DIFF_SIDES], **more[CT_DIFF_SIDES];
    size_t more_count[CT_DIFF_SIDES];
};

/* The selection for each further trace of a side, by its own times, malloc'ed. Returns -1 to continue, otherwise the
 * exit code. */
static int select_more(const struct traces *traces, int side, struct options *o, struct ct_diff_options *options) {
    struct ct_select *more = calloc(traces->more_count[side] + 1, sizeof *more);
    int code = more ? -1 : ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    for (size_t i = 0; i < traces->more_count[side] && code < 0; i++)
        code = ct_selection_apply(&o->selection, traces->more[side][i], o->directories.items, &more[i]);
    options->more[side] = traces->more[side];
    options->more_select[side] = more;
    options->more_count[side] = traces->more_count[side];
    return code;
}

static int show_diff(const struct traces *traces, const struct options *o, const struct ct_diff_options *options) {
    struct ct_diff *diff;
    int code, status = ct_diff_make(&diff, traces->first, options);
    if (status)
        return ct_message_fail(status, NULL);
    if (o->json) {
        struct ct_json json = {0};
        ct_diff_json(diff, traces->first, &json);
        code = ct_reading_print_json(&json, 0);
    } else {
        code = print_diff(traces->first, diff, o);
    }
    ct_diff_free(diff);
    return code;
}

static int diff_traces(const struct traces *traces, struct options *o) {
    struct ct_diff_options options = {
        .directories = o->directories.items,
        .sort = (enum ct_diff_sort)o->sort,
        .limit = o->limit,
        .min_change = o->min_change,
        .next = o->next,
        .all = o->all,
    };
    int code = -1;
    for (int side = 0; side < CT_DIFF_SIDES && code < 0; side++) {
        code = ct_selection_apply(&o->selection, traces->first[side], o->directories.items, &options.select[side]);
        if (code < 0)
            code = select_more(traces, side, o, &options);
    }
    if (code < 0)
        code = show_diff(traces, o, &options);
    for (int side = 0; side < CT_DIFF_SIDES; side++)
        free((void *)options.more_select[side]);
    return code;
}

static int open_trace(struct ct_trace **out, char *path, const struct options *o) {
    char *at[] = {path, NULL};
    int code = ct_reading_open_next(out, &(struct ct_operands){.count = 1, .at = at});
    if (code >= 0) {
        *out = NULL;
        return code;
    }
    ct_reading_report_damage(*out);
    ct_reading_report_clock(*out);
    ct_reading_report_sampled(*out);
    if (o->mangled)
        ct_trace_keep_mangled(*out);
    return code;
}

static size_t count_of(const struct ct_option_list *list) {
    size_t count = 0;
    while (list->items && list->items[count])
        count++;
    return count;
}

static int open_traces(struct traces *t, const struct options *o, const struct ct_operands *operands) {
    int code = -1;
    for (int s = 0; s < CT_DIFF_SIDES && code < 0; s++) {
        size_t count = count_of(&o->more[s]);
        code = open_trace(&t->first[s], operands->at[s], o);
        t->more[s] = calloc(count + 1, sizeof(struct ct_trace *));
        if (code < 0 && !t->more[s])
            code = ct_message_fail(CT_ERR_NO_MEMORY, NULL);
        for (; code < 0 && t->more_count[s] < count; t->more_count[s] += code < 0)
            code = open_trace(&t->more[s][t->more_count[s]], (char *)o->more[s].items[t->more_count[s]], o);
    }
    return code;
}

static int close_traces(struct traces *t, int code, bool allow_damaged) {
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        for (size_t i = 0; i < t->more_count[s]; i++)
            code = ct_reading_close(t->more[s][i], code, allow_damaged);
        free(t->more[s]);
        if (t->first[s])
            code = ct_reading_close(t->first[s], code, allow_damaged);
    }
    return code;
}

static int run_diff(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct traces traces = {0};
    int code = ct_options_parse(&ct_command_diff, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    code = ct_selection_check(&options.selection);
    ct_reading_drop_rights(&operands);
    if (options.full_names)
        ct_printer_keep_names();
    if (code < 0)
        code = open_traces(&traces, &options, &operands);
    if (code < 0)
        code = diff_traces(&traces, &options);
    code = close_traces(&traces, code, options.allow_damaged);
    ct_selection_finish(&options.selection);
    ct_options_release(&ct_command_diff, &options);
    return code;
}

static const char *const sort_names[] = {
#define NAME(name, text) text,
    CT_DIFF_SORT_LIST(NAME)
#undef NAME
        NULL,
};

static const struct ct_option option_table[] = {
    {"sort", 's', CT_OPTION_CHOICE, offsetof(struct options, sort), "COLUMN",
     "sort rows by how much this changed, or by name", .initial = "self", .choices = sort_names},
    {"limit", 'n', CT_OPTION_NUMBER, offsetof(struct options, limit), "N", "print at most N rows; 0: all",
     .initial = "30"},
    {"min-change", 0, CT_OPTION_NUMBER, offsetof(struct options, min_change), "PCT",
     "only functions whose sort column changed by at least PCT percent, and new and gone ones", .initial = "0"},
    {"next", 0, CT_OPTION_NUMBER, offsetof(struct options, next), "N",
     "print N calls of each side from the point where the main threads diverge", .initial = "5", .min = 1, .max = 1000},
    CT_OPTIONS_SELECTION(struct options, 'f', "only functions whose name matches",
                         "only functions of modules whose file name matches"),
    {"debug-dir", 0, CT_OPTION_LIST, offsetof(struct options, directories), "DIR",
     "look for binaries and debug files here too, for arguments in --where"},
    {"before", 0, CT_OPTION_LIST, offsetof(struct options, more[CT_DIFF_A]), "TRACE",
     "another trace of what A is a trace of: what differs between these is noise"},
    {"after", 0, CT_OPTION_LIST, offsetof(struct options, more[CT_DIFF_B]), "TRACE",
     "another trace of what B is a trace of"},
    {"all", 'a', CT_OPTION_FLAG, offsetof(struct options, all), NULL,
     "print functions too whose times differ by no more than noise"},
    CT_OPTION_MANGLED(struct options),
    CT_OPTION_FULL_NAMES(struct options),
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL, "print JSON, times in nanoseconds"},
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

const struct ct_command ct_command_diff = {
    .name = "diff",
    .group = CT_GROUP_READ,
    .run = run_diff,
    .summary = "compare two traces of a program",
    .operands = "A B",
    .min_operands = 2,
    .max_operands = 2,
    .description =
        "Prints which functions were called only in B (new), only in A (gone), or a different number of times or with "
        "different times, largest change of self time first; and the first point where the main threads diverge. A "
        "and B are sessions or pid_N directories.\n\n"
        "SELF (or CPU, see below), TOTAL and CALLS are B's, as in `contrail report`, each followed by the difference "
        "to "
        "A. Functions are "
        "the same when their names and the file names of their modules are equal, so the two may be different builds; "
        "functions without names are compared by their offset.\n\n"
        "No two runs take the same time. So functions whose times differ by no more than noise are only counted (~ "
        "when their calls differ). "
        "Compared are self times, or CPU times where all traces have them (spawn --cpu). A difference counts when it "
        "is larger than four times the standard error that follows from the spread of single calls, than 40 % of the "
        "larger value, than 50 ns for each call, and than 20 us; with fewer than 8 calls, than half of the larger "
        "value and 20 ms "
        "(200 us of CPU time). The median of single calls counts as much as the sum. With more traces (--before, "
        "--after), values are means; the two sides must not overlap, and must "
        "differ by more than the traces of each side do; 10 % are enough then. Numbers of calls are exact.\n\n"
        "The main threads are compared call by call, by name and by the calls around each. Printed are the calls that "
        "were open in both, then the next calls of A and of B. --function and --module select what is compared there "
        "too: with the program's own module, differences in the C library do not count.\n\n"
        "--from, --to, --thread, --process and --where select calls as in all reading commands (contrail(1), "
        "SELECTION), "
        "in each trace by its own times. With --thread or --process, the first selected thread of each is compared "
        "instead of the main thread.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, whether they differ or not, 64 usage, 65 parts of a trace are missing,\n"
             "  69 there is no such trace\n",
    .examples = "contrail diff traces/session_20250102_030405 traces/session_20250102_040506\n"
                "contrail diff --module server --min-change 10 before after\n"
                "contrail diff --before A2 --before A3 --after B2 --after B3 A1 B1\n"
                "contrail diff --sort calls --limit 0 --json before after",
};
