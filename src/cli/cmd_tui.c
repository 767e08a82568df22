/* SPDX-License-Identifier: Apache-2.0 */
/* contrail tui: shows a trace in the terminal. */
#include "tui/tui.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "cli/selection.h"
#include "cli/signals.h"
#include <string.h>
#include <unistd.h>

struct options {
    struct ct_selection selection;
    bool mangled, allow_damaged;
};

static bool is_stopped(void) {
    return ct_signals_stop() != 0;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static int show(struct options *o, struct ct_trace *trace) {
    struct ct_select select;
    int code = ct_selection_apply(&o->selection, trace, NULL, &select);
    if (code >= 0)
        return code;
    ct_signals_install(false);
    int status = ct_tui_run(&(struct ct_tui_options){.trace = trace,
                                                     .select = &select,
                                                     .out = stdout,
                                                     .in = stdin,
                                                     .name = last_part(ct_trace_path(trace)),
                                                     .time_text = ct_text_time,
                                                     .stopped = is_stopped});
    ct_selection_finish(&o->selection);
    if (status == CT_ERR_UNSUPPORTED) {
        ct_message_error(
            "tui needs ncurses and a terminal that it knows; install it (Debian: libncursesw6), or set TERM");
        return CT_EXIT_UNAVAILABLE;
    }
    return status ? ct_message_fail(status, NULL) : 0;
}

static int run(struct options *o, const struct ct_operands *operands) {
    struct ct_trace *trace;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        ct_message_error("tui needs a terminal; use report, graph, replay or query in a pipe");
        return CT_EXIT_USAGE;
    }
    int code = ct_selection_check(&o->selection);
    if (code < 0)
        code = ct_reading_open(&trace, operands);
    if (code >= 0)
        return code;
    if (o->mangled)
        ct_trace_keep_mangled(trace);
    return ct_reading_close(trace, show(o, trace), o->allow_damaged);
}

static int run_tui(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    int code = ct_options_parse(&ct_command_tui, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    code = run(&options, &operands);
    ct_options_release(&ct_command_tui, &options);
    return code;
}

static const struct ct_option option_table[] = {
    CT_OPTIONS_SELECTION(struct options, 'f', "list only functions like this",
                         "list only functions of modules like this"),
    CT_OPTION_MANGLED(struct options),
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

const struct ct_command ct_command_tui = {
    .name = "tui",
    .group = CT_GROUP_READ,
    .run = run_tui,
    .summary = "show a trace in the terminal",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Shows a trace in five views, which the keys 1 to 5 and Tab choose: functions by calls and times; callers and "
        "callees of one; the calls as a tree that folds; a timeline of the threads; and moments: marks, windows of "
        "detail, signals, losses. TRACE is a session or a pid_N directory; without it, the newest under ./traces.\n\n"
        "Enter goes on from what is chosen: from a function to its callers and callees (c: to its slowest call), from "
        "a "
        "moment to the timeline, from there to the call. The slash searches: functions by a part of their names, and "
        "in "
        "the tree the next call of such a function (n: the next one). Escape stops what takes long, q leaves.\n\n"
        "The words of the selection choose threads, the time, and the functions of the first view. Calls are read "
        "where "
        "they are looked at, with the summaries of large threads; only the counts of functions, callers and callees "
        "are "
        "of all calls.",
    .options = option_table,
    .examples = "contrail tui\n"
                "contrail tui traces/session_20250102_030405\n"
                "contrail tui --thread 'worker*' --from 2s --to 3s",
};
