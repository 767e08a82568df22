/* SPDX-License-Identifier: Apache-2.0 */
/* contrail replay: prints the call tree. */
#include "cli/command.h"
#include "cli/reading.h"
#include "cli/replay_json.h"
#include "cli/replay_view.h"

struct options {
    struct ct_option_list functions, modules, threads, directories;
    uint64_t depth, from, to, min_duration, limit;
    bool absolute, show_module, mangled, args, json, blocks, insns, allow_damaged;
};

/* The beginning of the first process: --from, --to and the printed times count from it. */
static uint64_t start_of(const struct ct_trace *trace) {
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t begin = ct_trace_process_at(trace, i)->time_start_ns;
        start = begin < start ? begin : start;
    }
    return start == UINT64_MAX ? 0 : start;
}

static uint64_t end_of(const struct ct_trace *trace) {
    uint64_t end = 0;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t last = ct_trace_process_at(trace, i)->time_end_ns;
        end = last > end ? last : end;
    }
    return end;
}

static size_t count_selected(const struct ct_trace *trace, const struct ct_select *select) {
    size_t selected = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        selected += ct_select_thread(select, trace, i);
    return selected;
}

static int show_replay(struct ct_replay_view *v, struct ct_trace *trace, const struct ct_replay_options *options) {
    char text[CT_TEXT_SIZE];
    ct_printer_open(v->printer, true);
    ct_replay_view_head(v);
    int status = ct_replay(trace, options, ct_replay_view_line, v);
    if (v->limited)
        ct_printer_format(v->printer, "# stopped after %s lines (--limit)\n", ct_text_count(text, v->lines));
    int code = ct_printer_close(v->printer);
    if (status >= 0 && v->damaged)
        status = CT_ERR_BAD_FILE;
    return status < 0 ? ct_reading_fail(trace, status) : code;
}

static int show_json(struct ct_trace *trace, const struct options *o, const struct ct_replay_options *options,
                     struct ct_argument_reader *arguments) {
    static struct ct_printer printer;
    struct ct_replay_json v = {
        .printer = &printer, .trace = trace, .arguments = arguments, .limit = o->limit, .insns = o->insns};
    ct_printer_open(&printer, false);
    ct_replay_json_begin(&v);
    int status = ct_replay(trace, options, ct_replay_json_line, &v);
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

static int replay_trace(struct ct_trace *trace, const struct options *o) {
    static struct ct_printer printer;
    uint64_t start = start_of(trace), end = end_of(trace);
    struct ct_replay_options options = {
        .select = {.functions = o->functions.items,
                   .modules = o->modules.items,
                   .threads = o->threads.items,
                   .from_ns = o->from ? start + o->from : 0,
                   .to_ns = o->to ? start + o->to : 0},
        .max_depth = o->depth,
        .min_ns = o->min_duration,
        .blocks = o->blocks || o->insns,
    };
    struct ct_replay_view v = {.printer = &printer,
                               .start_ns = o->absolute ? 0 : start,
                               .limit = o->limit,
                               .show_module = o->show_module,
                               .trace = trace,
                               .range = o->to != 0,
                               .blocks = options.blocks,
                               .insns = o->insns};
    int code = ct_reading_check_threads(trace, &options.select);
    if (code >= 0)
        return code;
    if (options.blocks && !ct_reading_check_blocks(trace, &options.select))
        return CT_EXIT_UNAVAILABLE;
    int status = 0;
    if (o->args) {
        check_detail(trace);
        status = ct_argument_reader_open(&v.arguments, trace, o->directories.items);
    }
    ct_replay_view_make_room(&v, end > v.start_ns ? end - v.start_ns : 0);
    if (!status && !o->json && count_selected(trace, &options.select) > 1)
        status = ct_replay_view_name_threads(&v, trace);
    if (status)
        code = ct_reading_fail(trace, status);
    else
        code = o->json ? show_json(trace, o, &options, v.arguments) : show_replay(&v, trace, &options);
    ct_argument_reader_close(v.arguments);
    ct_replay_view_free(&v);
    return code;
}

static int run_replay(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_replay, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (options.to && options.to <= options.from) {
        ct_message_error("--to must be later than --from; both count from the beginning of the trace");
        code = CT_EXIT_USAGE;
    } else if (options.min_duration && (options.blocks || options.insns)) {
        ct_message_error("--min-duration is for calls, and a block has no duration; leave out --blocks");
        code = CT_EXIT_USAGE;
    } else {
        code = ct_reading_open(&trace, &operands);
        if (code < 0) {
            if (options.mangled)
                ct_trace_keep_mangled(trace);
            code = ct_reading_close(trace, replay_trace(trace, &options), options.allow_damaged);
        }
    }
    ct_options_release(&ct_command_replay, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"function", 'f', CT_OPTION_LIST, offsetof(struct options, functions), "GLOB",
     "only calls of functions whose name matches, and all calls below them"},
    {"module", 'm', CT_OPTION_LIST, offsetof(struct options, modules), "GLOB",
     "only calls of functions in modules whose file name matches"},
    CT_OPTION_THREAD(struct options),
    {"depth", 'd', CT_OPTION_NUMBER, offsetof(struct options, depth), "N",
     "only N levels of calls, counted from the outermost call, or from those that --function selects"},
    {"from", 0, CT_OPTION_DURATION, offsetof(struct options, from), "TIME",
     "only from this time on, counted from the beginning: 1.5s, 20ms"},
    {"to", 0, CT_OPTION_DURATION, offsetof(struct options, to), "TIME", "only up to this time"},
    {"min-duration", 0, CT_OPTION_DURATION, offsetof(struct options, min_duration), "TIME",
     "only calls that took at least this long: 100us"},
    {"limit", 'n', CT_OPTION_NUMBER, offsetof(struct options, limit), "N", "print at most N lines"},
    CT_OPTION_ABSOLUTE(struct options),
    CT_OPTION_SHOW_MODULE(struct options),
    CT_OPTION_MANGLED(struct options),
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
        "were lost are shown as such. Functions without a name are module+0xoffset; a call without a duration (-) is "
        "one of a function that is recorded on entry only.\n\n"
        "With --args, calls that have a detail record (spawn --detail, --trigger) are shown with their arguments and "
        "results: with names and types from debug information when the module or its debug file is available, "
        "otherwise as registers. Texts are shown when they were captured (spawn --strings), were on the recorded part "
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
        "name as it is shown, without its parameters, or mangled.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, 64 usage, 65 parts of the trace are missing, 69 there is no such trace or thread",
    .examples = "contrail replay\n"
                "contrail replay --function 'parse_*' --depth 3\n"
                "contrail replay --args --function parse_header\n"
                "contrail replay --from 1.5s --to 1.6s --thread worker-1\n"
                "contrail replay --blocks --limit 1000\n"
                "contrail replay --min-duration 1ms traces/session_20250102_030405",
};
