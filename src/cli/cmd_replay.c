/* contrail replay: the call tree. */
#include "cli/command.h"
#include "cli/duration_text.h"
#include "cli/reading.h"
#include "report/replay.h"
#include <contrail/session.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct ct_option_list functions, modules, threads;
    uint64_t depth, from, to, min_duration, limit;
    bool absolute, show_module, mangled;
};

struct view {
    struct ct_printer *printer;
    const struct ct_trace *trace;
    const struct options *options;
    uint64_t start_ns; /* what times are relative to */
    int seconds_width;
    char **threads; /* their texts, by index; NULL: not shown */
    size_t thread_width;
    uint64_t lines;
    bool limited; /* by --limit */
};

enum { STOP = 1, NAME_ROOM_LEAST = 20 };

/* ---- columns ---- */

static int digits_of(uint64_t n) {
    int digits = 1;
    while (n /= 10)
        digits++;
    return digits;
}

/* Seconds and nanoseconds, without printf: there may be a billion of these lines. */
static void print_time(struct view *v, uint64_t ns) {
    char text[32];
    uint64_t seconds = ns / 1000000000, rest = ns % 1000000000;
    int width = v->seconds_width, at = width;
    text[width] = '.';
    for (int i = 9; i > 0; i--, rest /= 10)
        text[width + i] = (char)('0' + rest % 10);
    do
        text[--at] = (char)('0' + seconds % 10);
    while ((seconds /= 10) && at > 0);
    while (at > 0)
        text[--at] = ' ';
    ct_printer_bytes(v->printer, text, (size_t)width + 10);
}

static int make_threads(struct view *v, size_t count) {
    v->thread_width = strlen("THREAD");
    v->threads = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; v->threads && i < count; i++) {
        char text[256];
        ct_reading_thread_text(text, sizeof text, ct_trace_thread_at(v->trace, i));
        v->threads[i] = strdup(text);
        if (!v->threads[i])
            return CT_ERR_NO_MEMORY;
        v->thread_width = strlen(text) > v->thread_width ? strlen(text) : v->thread_width;
    }
    return v->threads ? 0 : CT_ERR_NO_MEMORY;
}

static void free_threads(struct view *v, size_t count) {
    for (size_t i = 0; v->threads && i < count; i++)
        free(v->threads[i]);
    free(v->threads);
}

/* ---- lines ---- */

static void print_end(struct view *v, const struct ct_replay_line *line) {
    static const char *const texts[] = {
        [CT_REPLAY_RETURNED] = "",
        [CT_REPLAY_LEFT] = "  left by exception/longjmp",
        [CT_REPLAY_LOST] = "  its return was lost",
        [CT_REPLAY_STILL_OPEN] = "  still open at the end",
    };
    bool in_range = line->end == CT_REPLAY_STILL_OPEN && v->options->to;
    if (line->kind == CT_REPLAY_END)
        ct_printer_text(v->printer, "  its call was not recorded");
    if (line->end == CT_REPLAY_RETURNED)
        return;
    ct_printer_colour(v->printer, CT_COLOUR_YELLOW);
    ct_printer_text(v->printer, in_range ? "  still open at --to" : texts[line->end]);
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

static void print_name(struct view *v, const struct ct_replay_line *line) {
    size_t used = (size_t)v->seconds_width + 12 + (v->threads ? v->thread_width + 2 : 0) + 2 * line->indent + 12;
    size_t width = (size_t)v->printer->width;
    size_t room = !width ? 0 : width > used + NAME_ROOM_LEAST ? width - used : NAME_ROOM_LEAST;
    ct_printer_name(v->printer, line->name, room);
    if (!v->options->show_module || !*line->module)
        return;
    ct_printer_text(v->printer, " [");
    ct_printer_name(v->printer, line->module, 0);
    ct_printer_text(v->printer, "]");
}

static void print_duration(struct view *v, const struct ct_replay_line *line) {
    char text[CT_TEXT_SIZE];
    if (line->end == CT_REPLAY_LOST)
        return;
    ct_printer_colour(v->printer, CT_COLOUR_CYAN);
    ct_printer_bytes(v->printer, text, ct_duration_text(text, line->duration_ns));
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

static const char *loss_text(const char *reason) {
#define ROW(name, text)                                                                                                \
    if (!strcmp(reason, #name))                                                                                        \
        return text;
    CT_LOSS_LIST(ROW)
#undef ROW
    return *reason ? reason : "reason not known";
}

static void print_gap(struct view *v, const struct ct_replay_line *line) {
    char text[CT_TEXT_SIZE];
    ct_printer_colour(v->printer, CT_COLOUR_RED);
    if (!line->lost) /* a child that was forked */
        ct_printer_format(v->printer, "-- begins inside calls of its parent --");
    else
        ct_printer_format(v->printer, "-- %s event%s lost here: %s --", ct_text_count(text, line->lost),
                          line->lost == 1 ? "" : "s", loss_text(line->reason));
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

static void print_call(struct view *v, const struct ct_replay_line *line) {
    switch (line->kind) {
    case CT_REPLAY_LEAF:
        print_name(v, line);
        ct_printer_text(v->printer, "  ");
        print_duration(v, line);
        break;
    case CT_REPLAY_OPEN:
        print_name(v, line);
        ct_printer_text(v->printer, " {");
        return;
    case CT_REPLAY_CLOSE:
        ct_printer_text(v->printer, "} ");
        print_duration(v, line);
        ct_printer_text(v->printer, line->end == CT_REPLAY_LOST ? "" : "  ");
        print_name(v, line);
        break;
    case CT_REPLAY_ENTRY:
        print_name(v, line);
        ct_printer_text(v->printer, "  -");
        return;
    case CT_REPLAY_END:
        ct_printer_text(v->printer, "} ");
        print_name(v, line);
        break;
    case CT_REPLAY_GAP:
        print_gap(v, line);
        return;
    case CT_REPLAY_SIGNAL:
        ct_printer_text(v->printer, "-- signal --");
        return;
    }
    print_end(v, line);
}

static int on_line(void *arg, const struct ct_replay_line *line) {
    struct view *v = arg;
    if (v->options->limit && v->lines == v->options->limit) {
        v->limited = true;
        return STOP;
    }
    v->lines++;
    print_time(v, line->time_ns > v->start_ns ? line->time_ns - v->start_ns : 0);
    ct_printer_text(v->printer, "  ");
    if (v->threads) {
        const char *thread = v->threads[line->thread];
        ct_printer_colour(v->printer, CT_COLOUR_DIM);
        ct_printer_spaces(v->printer, v->thread_width - ct_printer_name(v->printer, thread, 0) + 2);
        ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
    }
    ct_printer_spaces(v->printer, 2 * (size_t)line->indent);
    print_call(v, line);
    ct_printer_bytes(v->printer, "\n", 1);
    return ct_printer_wanted(v->printer) ? 0 : STOP;
}

/* ---- the command ---- */

/* The time that --from, --to and the printed times count from: the beginning of the first process. */
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
        selected += ct_select_thread(select, ct_trace_thread_at(trace, i));
    return selected;
}

static void print_head(const struct view *v) {
    ct_printer_colour(v->printer, CT_COLOUR_DIM);
    ct_printer_format(v->printer, "#%*s  ", v->seconds_width + 9, "TIME (s)");
    if (v->threads)
        ct_printer_format(v->printer, "%-*s  ", (int)v->thread_width, "THREAD");
    ct_printer_text(v->printer, "CALL");
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
    ct_printer_text(v->printer, "\n");
}

static int show(struct view *v, const struct ct_replay_options *options) {
    char text[CT_TEXT_SIZE];
    ct_printer_open(v->printer, true);
    print_head(v);
    int status = ct_replay((struct ct_trace *)v->trace, options, on_line, v);
    if (v->limited)
        ct_printer_format(v->printer, "# stopped after %s lines (--limit)\n", ct_text_count(text, v->lines));
    int code = ct_printer_close(v->printer);
    return status < 0 ? ct_reading_fail(v->trace, status) : code;
}

static int replay_trace(struct ct_trace *trace, const struct options *o) {
    static struct ct_printer printer;
    uint64_t start = start_of(trace), end = end_of(trace);
    struct ct_replay_options options = {
        .select = {.functions = o->functions.items, .modules = o->modules.items, .threads = o->threads.items},
        .max_depth = o->depth,
        .from_ns = o->from ? start + o->from : 0,
        .to_ns = o->to ? start + o->to : 0,
        .min_ns = o->min_duration,
    };
    struct view v = {.printer = &printer, .trace = trace, .options = o, .start_ns = o->absolute ? 0 : start};
    size_t count = ct_trace_thread_count(trace);
    int code = ct_reading_check_threads(trace, &options.select);
    if (code >= 0)
        return code;
    v.seconds_width = digits_of(end > v.start_ns ? (end - v.start_ns) / 1000000000 : 0);
    if (v.seconds_width < 3)
        v.seconds_width = 3;
    int status = count_selected(trace, &options.select) > 1 ? make_threads(&v, count) : 0;
    code = status ? ct_reading_fail(trace, status) : show(&v, &options);
    free_threads(&v, count);
    return code;
}

static int run(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_replay, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (options.to && options.to <= options.from) {
        ct_message_error("--to must be later than --from; both count from the beginning of the trace");
        code = CT_EXIT_USAGE;
    } else {
        code = ct_reading_open(&trace, &operands);
        if (code < 0) {
            if (options.mangled)
                ct_trace_keep_mangled(trace);
            code = replay_trace(trace, &options);
            ct_trace_close(trace);
        }
    }
    ct_options_release(&ct_command_replay, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"function", 'f', CT_OPTION_LIST, offsetof(struct options, functions), "GLOB",
     "only calls of functions whose name fits, and all calls below them"},
    {"module", 'm', CT_OPTION_LIST, offsetof(struct options, modules), "GLOB",
     "only calls of functions in modules whose file name fits"},
    {"thread", 't', CT_OPTION_LIST, offsetof(struct options, threads), "TID|GLOB",
     "only threads with this number, or whose name fits"},
    {"depth", 'd', CT_OPTION_NUMBER, offsetof(struct options, depth), "N",
     "only N levels of calls, counted from the outermost, or from those that --function names"},
    {"from", 0, CT_OPTION_DURATION, offsetof(struct options, from), "TIME",
     "only from this time on, counted from the beginning: 1.5s, 20ms"},
    {"to", 0, CT_OPTION_DURATION, offsetof(struct options, to), "TIME", "only up to this time"},
    {"min-duration", 0, CT_OPTION_DURATION, offsetof(struct options, min_duration), "TIME",
     "only calls that took this long: 100us"},
    {"limit", 'n', CT_OPTION_NUMBER, offsetof(struct options, limit), "N", "print at most N lines"},
    {"absolute", 0, CT_OPTION_FLAG, offsetof(struct options, absolute), NULL,
     "print times of the machine's clock (CLOCK_BOOTTIME) instead of times since the beginning"},
    {"show-module", 0, CT_OPTION_FLAG, offsetof(struct options, show_module), NULL,
     "print the module behind each function's name"},
    {"mangled", 0, CT_OPTION_FLAG, offsetof(struct options, mangled), NULL,
     "print names as the symbol tables have them"},
    {0},
};

const struct ct_command ct_command_replay = {
    .name = "replay",
    .group = CT_GROUP_READ,
    .run = run,
    .summary = "print the calls as an indented tree",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Prints the calls in order of time, indented by depth, with how long each took. A call that made no other "
        "(shown) "
        "calls is one line; another opens with { and closes with } and its duration. With several threads a column "
        "tells "
        "which. TRACE is a session or a pid_N directory; without it, the newest under ./traces.\n\n"
        "Calls that were left by an exception or a longjmp, calls that were open at the end, and places where events "
        "were "
        "lost are shown as such. Functions without a name are module+0xoffset; a call without a duration (-) is of a "
        "function that is recorded on entry only.\n\n"
        "On a terminal the output goes through $PAGER (less -R). C++ and Rust names are demangled; GLOBs fit the name "
        "as "
        "it is shown, without its parameters, or mangled.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, 64 usage, 69 there is no such trace or thread",
    .examples = "contrail replay\n"
                "contrail replay --function 'parse_*' --depth 3\n"
                "contrail replay --from 1.5s --to 1.6s --thread worker-1\n"
                "contrail replay --min-duration 1ms traces/session_20250102_030405",
};
