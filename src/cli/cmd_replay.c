/* SPDX-License-Identifier: Apache-2.0 */
/* contrail replay: prints the call tree. */
#include "cli/command.h"
#include "cli/reading.h"
#include "cli/replay_json.h"
#include "cli/replay_start.h"
#include "cli/replay_view.h"
#include "cli/selection.h"

struct options {
    struct ct_selection selection;
    struct ct_replay_start_options start;
    struct ct_option_list directories;
    uint64_t depth, min_duration, limit;
    int clock;
    bool absolute, show_module, full_names, mangled, args, json, blocks, insns, allow_damaged;
};

static size_t count_selected(const struct ct_trace *trace, const struct ct_replay_options *options) {
    size_t selected = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        selected += ct_select_thread(&options->select, trace, i);
    return options->only_thread || options->one ? 1 : selected;
}

static int show_replay(struct ct_replay_view *v, struct ct_trace *trace, const struct ct_replay_options *options,
                       struct ct_replay_start *start) {
    char text[CT_TEXT_SIZE];
    start->line = ct_replay_view_line;
    start->arg = v;
    ct_printer_open(v->printer, true);
    ct_replay_view_head(v);
    int status = ct_replay(trace, options, ct_replay_start_line, start);
    if (!status)
        (void)ct_replay_view_marks(v, options->select.to_ns ? options->select.to_ns : UINT64_MAX);
    if (v->limited)
        ct_printer_format(v->printer, "# stopped after %s lines (--limit)\n", ct_text_count(text, v->lines));
    int code = ct_printer_close(v->printer);
    if (status >= 0 && v->damaged)
        status = CT_ERR_BAD_FILE;
    return status < 0 ? ct_reading_fail(trace, status) : code;
}

static int show_json(struct ct_trace *trace, const struct options *o, const struct ct_replay_options *options,
                     struct ct_replay_view *view, struct ct_replay_start *start) {
    static struct ct_printer printer;
    struct ct_replay_json v = {.printer = &printer,
                               .trace = trace,
                               .wall = view->wall,
                               .arguments = view->arguments,
                               .limit = o->limit,
                               .insns = o->insns,
                               .marks = &view->marks,
                               .marks_skipped = view->marks_skipped};
    start->line = ct_replay_json_line;
    start->arg = &v;
    ct_printer_open(&printer, false);
    ct_replay_json_begin(&v);
    int status = ct_replay(trace, options, ct_replay_start_line, start);
    if (!status)
        (void)ct_replay_json_marks(&v, options->select.to_ns ? options->select.to_ns : UINT64_MAX);
    ct_replay_json_end(&v);
    int code = ct_printer_close(&printer);
    if (status >= 0 && v.damaged)
        status = CT_ERR_BAD_FILE;
    return status < 0 ? ct_reading_fail(trace, status) : code;
}

/* Without any detail the calls are shown as usual, but the user should know why. */
static void check_detail(const struct ct_trace *trace) {
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_trace_thread_at(trace, i)->has_detail)
            return;
    ct_message_error("no arguments were recorded in %s; record with --detail always, or with a --trigger",
                     ct_trace_path(trace));
}

/* Marks before --from are not shown. */
static int read_marks(struct ct_replay_view *v, const struct ct_trace *trace, uint64_t from_ns) {
    int status = ct_marks_read(&v->marks, trace);
    ct_marks_skip(&v->marks, from_ns);
    return status;
}

static int print_lines(struct ct_trace *trace, const struct options *o, const struct ct_replay_options *options,
                       struct ct_replay_start *start) {
    static struct ct_printer printer;
    struct ct_wall wall = {0};
    uint64_t first = ct_selection_start(trace), end = ct_selection_end(trace);
    struct ct_replay_view v = {.printer = &printer,
                               .start_ns = o->absolute || o->clock == CT_CLOCK_BOOT ? 0 : first,
                               .limit = o->limit,
                               .show_module = o->show_module,
                               .trace = trace,
                               .range = options->select.to_ns != 0,
                               .blocks = options->blocks,
                               .insns = o->insns};
    int code = o->clock == CT_CLOCK_WALL ? ct_reading_wall(&wall, trace) : -1, status = 0;
    if (code >= 0)
        return code;
    v.wall = wall.count ? &wall : NULL;
    if (o->args) {
        check_detail(trace);
        status = ct_argument_reader_open(&v.arguments, trace, o->directories.items);
    }
    ct_replay_view_make_room(&v, end > v.start_ns ? end - v.start_ns : 0);
    if (!status && !o->json && count_selected(trace, options) > 1)
        status = ct_replay_view_name_threads(&v, trace);
    v.marks_skipped = start->skip != 0;
    if (!status && !options->select.where && !options->one)
        status = read_marks(&v, trace, options->select.from_ns);
    if (status)
        code = ct_reading_fail(trace, status);
    else
        code = o->json ? show_json(trace, o, options, &v, start) : show_replay(&v, trace, options, start);
    ct_argument_reader_close(v.arguments);
    ct_replay_view_free(&v);
    ct_wall_free(&wall);
    return code;
}

static int replay_trace(struct ct_trace *trace, struct options *o) {
    struct ct_replay_start start = {.skip = 0};
    struct ct_replay_options options = {
        .max_depth = o->depth,
        .min_ns = o->min_duration,
        .blocks = o->blocks || o->insns,
        .directories = o->directories.items,
    };
    int code = ct_selection_apply(&o->selection, trace, o->directories.items, &options.select);
    if (code < 0 && options.blocks && !ct_reading_check_blocks(trace, &options.select))
        code = CT_EXIT_UNAVAILABLE;
    if (code < 0)
        code = ct_replay_start_find(&start, trace, &o->start, &options);
    return code < 0 ? print_lines(trace, o, &options, &start) : code;
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int check_options(struct options *o) {
    if (o->min_duration && (o->blocks || o->insns)) {
        ct_message_error("--min-duration is for calls, and a block has no duration; leave out --blocks");
        return CT_EXIT_USAGE;
    }
    if (o->selection.where && (o->blocks || o->insns)) {
        ct_message_error("--where is for calls; leave out --blocks");
        return CT_EXIT_USAGE;
    }
    int code = ct_replay_start_check(&o->start);
    return code < 0 ? ct_selection_check(&o->selection) : code;
}

static int run_replay(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_replay, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    code = check_options(&options);
    if (code < 0)
        code = ct_reading_open(&trace, &operands);
    if (code < 0) {
        ct_reading_report_sampled(trace);
        if (options.full_names)
            ct_printer_keep_names();
        if (options.mangled)
            ct_trace_keep_mangled(trace);
        code = ct_reading_close(trace, replay_trace(trace, &options), options.allow_damaged);
    }
    ct_selection_finish(&options.selection);
    ct_options_release(&ct_command_replay, &options);
    return code;
}

static const struct ct_option option_table[] = {
    CT_OPTIONS_SELECTION(struct options, 'f', "only calls of functions whose name matches, and all calls below them",
                         "only calls of functions in modules whose file name matches"),
    {"around", 0, CT_OPTION_STRING, offsetof(struct options, start.around), "MOMENT",
     "only lines around a moment: crash, mark, mark=N, mark=LABEL, a time, or a call: call=FUNCTION, or call=N:M as "
     "`contrail "
     "report "
     "--slowest` prints it"},
    {"context", 'C', CT_OPTION_NUMBER, offsetof(struct options, start.context), "N",
     "with --around, print N lines before the moment and N after it", .initial = "20", .max = 1000000},
    {"tail", 0, CT_OPTION_NUMBER, offsetof(struct options, start.tail), "N", "only the last N lines", .min = 1,
     .max = 1000000000},
    {"first", 0, CT_OPTION_FLAG, offsetof(struct options, start.first), NULL,
     "only the first call that the other options select, and all calls below it"},
    {"last", 0, CT_OPTION_FLAG, offsetof(struct options, start.last), NULL, "only the last one"},
    {"depth", 'd', CT_OPTION_NUMBER, offsetof(struct options, depth), "N",
     "only N levels of calls, counted from the outermost call, or from those that --function selects"},
    {"min-duration", 0, CT_OPTION_DURATION, offsetof(struct options, min_duration), "TIME",
     "only calls that took at least this long: 100us"},
    {"limit", 'n', CT_OPTION_NUMBER, offsetof(struct options, limit), "N", "print at most N lines"},
    CT_OPTION_ABSOLUTE(struct options),
    CT_OPTION_CLOCK(struct options),
    CT_OPTION_SHOW_MODULE(struct options),
    CT_OPTION_MANGLED(struct options),
    CT_OPTION_FULL_NAMES(struct options),
    {"args", 'a', CT_OPTION_FLAG, offsetof(struct options, args), NULL,
     "print arguments and results of calls, where they were recorded"},
    {"debug-dir", 0, CT_OPTION_LIST, offsetof(struct options, directories), "DIR",
     "look for binaries and debug files here too, for names and types of arguments"},
    {"blocks", 0, CT_OPTION_FLAG, offsetof(struct options, blocks), NULL,
     "print the blocks that each thread has executed, between its calls (contrail stalk --events block)"},
    {"instructions", 0, CT_OPTION_FLAG, offsetof(struct options, insns), NULL,
     "like --blocks, with a line for each instruction"},
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL, "print JSON: an array of lines"},
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

const struct ct_command ct_command_replay = {
    .name = "replay",
    .group = CT_GROUP_READ,
    .run = run_replay,
    .summary = "print the calls as an indented tree",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Prints the calls in order of time, indented by depth, with the duration of each. A call that made no other "
        "(shown) calls is one line; any other opens with { and closes with } and its duration. With several threads a "
        "column shows the thread. TRACE is a session or a pid_N directory; without it, the newest under ./traces.\n\n"
        "Calls that were left by an exception or a longjmp, calls that were open at the end, and places where events "
        "were lost are shown as such, and so are moments that were marked with `contrail ctl PID mark`, with "
        "their labels (in JSON, kind \"mark\"). Functions "
        "without a name are module+0xoffset; a call without a duration (-) is "
        "one of a function that is recorded on entry only.\n\n"
        "A line `-- waited ... for the recorder --` is time in which the thread waited for contrail (while libraries "
        "were hooked, for example); durations of calls do not include it. Where the recording has it (--cpu), time off "
        "the processor is a line too: blocked (it waited for something) or preempted (it could have run).\n\n"
        "--from, --to, --thread, --process, --function, --module and --where select calls as in all reading commands "
        "(contrail(1), SELECTION). With --where, --first and --last, each call is shown with the calls that it was "
        "made in: "
        "\"in main > serve\". Around a crash or a call, only its thread is shown.\n\n"
        "With --args, calls that have a detail record (spawn --detail, --trigger) are shown with their arguments and "
        "results: with names and types from debug information when the module or its debug file is available, "
        "otherwise as registers. Texts and structures are shown when they were captured (spawn --strings, --structs), "
        "were on the recorded part "
        "of "
        "the stack, or are constants of a module whose file is available. A value that is not certain or was not "
        "recorded is ?. After a result "
        "comes "
        "errno, if the call has set it: open(...) = -1 ENOENT.\n\n"
        "With --blocks, every block that a followed thread executed is a line inside its call, in the order in which "
        "the thread ran: module+0xoffset, function+0xoffset, and the number of its instructions. Its time is that of "
        "the call or return before it or, when none were recorded, the time at which it was handed over: the order "
        "between threads is no more exact than that. --function shows the blocks of matching calls and functions, "
        "--module those of matching modules.\n\n"
        "On a terminal the output goes through $PAGER (less -R). C++ and Rust names are demangled; GLOBs match the "
        "whole name, the name without its parameters, or mangled. Lines show at most one level of template arguments, "
        "without "
        "defaults, and "
        "std::string for its long name; --full-names shows all, and JSON has all.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, 64 usage, 65 parts of the trace are missing, 69 there is no such trace or thread",
    .examples = "contrail replay\n"
                "contrail replay --function 'parse_*' --depth 3\n"
                "contrail replay --args --function parse_header\n"
                "contrail replay --from 1.5s --to 1.6s --thread worker-1\n"
                "contrail replay --around crash --args\n"
                "contrail replay --where 'duration > 1ms and result < 0'\n"
                "contrail replay --function serve --last --depth 4\n"
                "contrail replay --tail 50\n"
                "contrail replay --blocks --limit 1000\n"
                "contrail replay --min-duration 1ms traces/session_20250102_030405",
};
