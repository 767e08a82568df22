/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a call tree on a terminal. */
#include "cli/replay_view.h"
#include "cli/duration_text.h"
#include "cli/reading.h"
#include "trace/signal_text.h"
#include <contrail/session.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WALL_WIDTH = 35, NAME_ROOM_LEAST = 20, SECONDS_LEAST = 3, ARGUMENTS = 2048 };

/* ---- columns ---- */

void ct_replay_view_make_room(struct ct_replay_view *v, uint64_t last_ns) {
    int digits = 1;
    for (uint64_t n = last_ns / 1000000000; n /= 10;)
        digits++;
    v->seconds_width = digits < SECONDS_LEAST ? SECONDS_LEAST : digits;
}

static void print_wall(struct ct_replay_view *v, uint64_t ns) {
    char text[CT_WALL_TEXT];
    ct_wall_text(v->wall, ns, text);
    ct_printer_text(v->printer, text);
}

/* Prints seconds and nanoseconds, without printf: there may be a billion of these lines. */
static void print_time(struct ct_replay_view *v, uint64_t ns) {
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

int ct_replay_view_name_thread(struct ct_replay_view *v, size_t index, const char *text) {
    if (index >= v->thread_count) {
        size_t count = index + index / 2 + 16;
        char **threads = realloc(v->threads, count * sizeof *threads);
        if (!threads)
            return CT_ERR_NO_MEMORY;
        memset(threads + v->thread_count, 0, (count - v->thread_count) * sizeof *threads);
        v->threads = threads;
        v->thread_count = count;
    }
    char *copy = strdup(text);
    if (!copy)
        return CT_ERR_NO_MEMORY;
    free(v->threads[index]);
    v->threads[index] = copy;
    size_t least = strlen("THREAD"), length = strlen(text);
    v->thread_width = v->thread_width > least ? v->thread_width : least;
    v->thread_width = v->thread_width > length ? v->thread_width : length;
    return 0;
}

int ct_replay_view_name_threads(struct ct_replay_view *v, const struct ct_trace *trace) {
    int status = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace) && !status; i++) {
        char text[256];
        ct_reading_thread_text(text, sizeof text, ct_trace_thread_at(trace, i));
        status = ct_replay_view_name_thread(v, i, text);
    }
    return status;
}

void ct_replay_view_free(struct ct_replay_view *v) {
    for (size_t i = 0; i < v->thread_count; i++)
        free(v->threads[i]);
    free(v->threads);
    ct_marks_free(&v->marks);
}

/* ---- lines ---- */

static void print_end(struct ct_replay_view *v, const struct ct_replay_line *line) {
    static const char *const texts[] = {
        [CT_REPLAY_RETURNED] = "",
        [CT_REPLAY_LEFT] = "  left by exception/longjmp",
        [CT_REPLAY_LOST] = "  its return was lost",
        [CT_REPLAY_STILL_OPEN] = "  still open at the end",
    };
    bool in_range = line->end == CT_REPLAY_STILL_OPEN && v->range;
    if (line->kind == CT_REPLAY_END)
        ct_printer_text(v->printer, v->live ? "  called before" : "  its call was not recorded");
    if (line->end == CT_REPLAY_RETURNED)
        return;
    ct_printer_colour(v->printer, CT_COLOUR_YELLOW);
    ct_printer_text(v->printer, in_range ? "  still open at --to" : texts[line->end]);
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

/* Characters of a demangled name before its parameters. */
static size_t length_without_parameters(const char *name) {
    size_t end = strlen(name), depth = 0;
    while (end && name[end - 1] != ')')
        end--;
    for (size_t i = end; i-- > 0;) {
        depth += name[i] == ')';
        if (name[i] == '(' && --depth == 0)
            return i && (i < 8 || strncmp(name + i - 8, "operator", 8) != 0) ? i : strlen(name);
    }
    return strlen(name);
}

/* False: there is no record of it. */
static bool read_arguments(struct ct_replay_view *v, size_t thread, uint32_t detail, struct ct_arguments *arguments) {
    return v->arguments && detail != CT_TRACE_NO_DETAIL &&
           ct_arguments_read(v->arguments, v->indexes ? v->indexes[thread] : thread, detail, arguments) == 0;
}

static void print_arguments(struct ct_replay_view *v, const struct ct_replay_line *line) {
    static struct ct_arguments arguments;
    char text[ARGUMENTS];
    if (!read_arguments(v, line->thread, line->detail, &arguments))
        return;
    ct_arguments_text(&arguments, text, sizeof text);
    ct_printer_text(v->printer, "(");
    ct_printer_name(v->printer, text, 0);
    ct_printer_text(v->printer, ")");
}

static void print_result(struct ct_replay_view *v, const struct ct_replay_line *line) {
    static struct ct_arguments result;
    char text[CT_ARGUMENT_TEXT + 32];
    if (!read_arguments(v, line->thread, line->end_detail, &result))
        return;
    ct_arguments_result(&result, text, sizeof text);
    if (!*text)
        return;
    ct_printer_text(v->printer, result.count ? " = " : " ");
    ct_printer_name(v->printer, text, 0);
}

static void print_name(struct ct_replay_view *v, const struct ct_replay_line *line, bool arguments) {
    size_t used = (v->wall ? WALL_WIDTH + 2 : (size_t)v->seconds_width + 12) + (v->threads ? v->thread_width + 2 : 0) +
                  2 * line->indent + 12;
    size_t width = (size_t)v->printer->width;
    size_t room = !width ? 0 : width > used + NAME_ROOM_LEAST ? width - used : NAME_ROOM_LEAST;
    char *short_name = arguments && v->arguments && line->detail != CT_TRACE_NO_DETAIL
                           ? strndup(line->name, length_without_parameters(line->name))
                           : NULL;
    ct_printer_function(v->printer, short_name ? short_name : line->name, room);
    free(short_name);
    if (arguments)
        print_arguments(v, line);
    if (!v->show_module || !*line->module)
        return;
    ct_printer_text(v->printer, " [");
    ct_printer_name(v->printer, line->module, 0);
    ct_printer_text(v->printer, "]");
}

static void print_duration(struct ct_replay_view *v, const struct ct_replay_line *line) {
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

static void print_gap(struct ct_replay_view *v, const struct ct_replay_line *line) {
    char text[CT_TEXT_SIZE];
    ct_printer_colour(v->printer, CT_COLOUR_RED);
    if (!line->lost) /* a forked child */
        ct_printer_format(v->printer, "-- begins inside calls of its parent --");
    else
        ct_printer_format(v->printer, "-- %s event%s lost here: %s --", ct_text_count(text, line->lost),
                          line->lost == 1 ? "" : "s", loss_text(line->reason));
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

static void print_signal(struct ct_replay_view *v, const struct ct_replay_line *line) {
    struct ct_trace_detail detail = {.size = sizeof detail};
    char text[1024] = "signal";
    if (v->trace && ct_trace_detail(v->trace, line->thread, line->detail, &detail) == 0 &&
        detail.type == CT_TRACE_DETAIL_SIGNAL)
        ct_signal_text(v->trace, ct_trace_thread_at(v->trace, line->thread)->process, &detail, text, sizeof text);
    ct_printer_colour(v->printer, CT_COLOUR_RED);
    ct_printer_text(v->printer, "-- ");
    ct_printer_name(v->printer, text, 0);
    ct_printer_text(v->printer, " --");
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

/* Time that is not the program's own work. */
static void print_off(struct ct_replay_view *v, const struct ct_replay_line *line) {
    char text[CT_TEXT_SIZE];
    size_t length = ct_duration_text(text, line->duration_ns);
    ct_printer_colour(v->printer, CT_COLOUR_DIM);
    ct_printer_format(v->printer, "-- %s %.*s", line->kind == CT_REPLAY_WAITED ? "waited" : "off CPU", (int)length,
                      text);
    if (line->kind == CT_REPLAY_WAITED)
        ct_printer_format(v->printer, " for the recorder (%s) --", line->reason);
    else
        ct_printer_text(v->printer, line->kind == CT_REPLAY_BLOCKED ? " (blocked) --" : " (preempted) --");
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

static void print_call(struct ct_replay_view *v, const struct ct_replay_line *line) {
    switch (line->kind) {
    case CT_REPLAY_LEAF:
        print_name(v, line, true);
        print_result(v, line);
        ct_printer_text(v->printer, "  ");
        print_duration(v, line);
        break;
    case CT_REPLAY_OPEN:
        print_name(v, line, true);
        ct_printer_text(v->printer, " {");
        return;
    case CT_REPLAY_CLOSE:
        ct_printer_text(v->printer, "} ");
        print_duration(v, line);
        ct_printer_text(v->printer, line->end == CT_REPLAY_LOST ? "" : "  ");
        print_name(v, line, false);
        print_result(v, line);
        break;
    case CT_REPLAY_ENTRY:
        print_name(v, line, true);
        ct_printer_text(v->printer, "  -");
        return;
    case CT_REPLAY_END:
        ct_printer_text(v->printer, "} ");
        print_name(v, line, false);
        print_result(v, line);
        break;
    case CT_REPLAY_GAP:
        print_gap(v, line);
        return;
    case CT_REPLAY_SIGNAL:
        print_signal(v, line);
        return;
    case CT_REPLAY_WAITED:
    case CT_REPLAY_BLOCKED:
    case CT_REPLAY_PREEMPTED:
        print_off(v, line);
        return;
    default:
        return;
    }
    print_end(v, line);
}

/* ---- blocks ---- */

/* `at`: bytes from the block's beginning. */
static void print_place(struct ct_replay_view *v, const struct ct_replay_line *line, uint64_t at) {
    if (*line->module) {
        ct_printer_name(v->printer, line->module, 0);
        ct_printer_text(v->printer, "+");
    }
    ct_printer_format(v->printer, "0x%" PRIx64, line->block.offset + at);
    if (!*line->name)
        return;
    ct_printer_text(v->printer, "  ");
    ct_printer_function(v->printer, line->name, 0);
    ct_printer_format(v->printer, "+0x%" PRIx64, line->into + at);
}

static void print_block(struct ct_replay_view *v, const struct ct_replay_line *line, uint64_t at) {
    print_place(v, line, at);
    if (line->kind == CT_REPLAY_COMPILED)
        ct_printer_format(v->printer, "  (translated, %u bytes)", line->block.size);
    else if (v->insns)
        return;
    else if (line->executed < line->block.insns)
        ct_printer_format(v->printer, "  (%u of %u instructions)", line->executed, line->block.insns);
    else
        ct_printer_format(v->printer, "  (%u instruction%s)", line->executed, line->executed == 1 ? "" : "s");
}

static void print_damage(struct ct_replay_view *v, const struct ct_replay_line *line) {
    char text[CT_TEXT_SIZE];
    ct_printer_colour(v->printer, CT_COLOUR_RED);
    if (line->kind == CT_REPLAY_BLOCKS_LOST)
        ct_printer_format(v->printer, "-- %s block%s lost here --", ct_text_count(text, line->lost),
                          line->lost == 1 ? "" : "s");
    else
        ct_printer_format(v->printer, "-- no more blocks: %s --", line->reason);
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

/* ---- a line ---- */

/* The calls around a call that was selected by itself. */
static void print_callers(struct ct_replay_view *v, const struct ct_replay_line *line) {
    if (!line->callers)
        return;
    ct_printer_colour(v->printer, CT_COLOUR_DIM);
    ct_printer_text(v->printer, "  in ");
    ct_printer_function(v->printer, line->callers, 0);
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
}

static int print_line(void *arg, const struct ct_replay_line *line, uint64_t at) {
    struct ct_replay_view *v = arg;
    if (v->limit && v->lines == v->limit) {
        v->limited = true;
        return CT_REPLAY_VIEW_STOP;
    }
    v->lines++;
    if (v->wall)
        print_wall(v, line->time_ns);
    else
        print_time(v, line->time_ns > v->start_ns ? line->time_ns - v->start_ns : 0);
    ct_printer_text(v->printer, "  ");
    if (v->threads) {
        const char *thread = v->threads[line->thread];
        ct_printer_colour(v->printer, CT_COLOUR_DIM);
        ct_printer_spaces(v->printer, v->thread_width - ct_printer_name(v->printer, thread, 0) + 2);
        ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
    }
    ct_printer_spaces(v->printer, 2 * (size_t)line->indent);
    if (line->kind == CT_REPLAY_BLOCK || line->kind == CT_REPLAY_COMPILED)
        print_block(v, line, at);
    else if (line->kind == CT_REPLAY_BLOCKS_LOST || line->kind == CT_REPLAY_DAMAGED)
        print_damage(v, line);
    else
        print_call(v, line);
    print_callers(v, line);
    ct_printer_bytes(v->printer, "\n", 1);
    return ct_printer_wanted(v->printer) ? 0 : CT_REPLAY_VIEW_STOP;
}

int ct_replay_view_marks(struct ct_replay_view *v, uint64_t until_ns) {
    for (const struct ct_mark *m; (m = ct_marks_next(&v->marks, until_ns));) {
        if (v->limit && v->lines == v->limit) {
            v->limited = true;
            return CT_REPLAY_VIEW_STOP;
        }
        v->lines++;
        print_time(v, m->time_ns > v->start_ns ? m->time_ns - v->start_ns : 0);
        ct_printer_spaces(v->printer, 2 + (v->threads ? v->thread_width + 2 : 0));
        ct_printer_colour(v->printer, CT_COLOUR_YELLOW);
        ct_printer_text(v->printer, *m->label ? "-- mark \"" : "-- mark");
        ct_printer_name(v->printer, m->label, 0);
        ct_printer_text(v->printer, *m->label ? "\" --" : " --");
        ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
        ct_printer_text(v->printer, "\n");
    }
    return 0;
}

int ct_replay_view_line(void *arg, const struct ct_replay_line *line) {
    struct ct_replay_view *v = arg;
    if (v->marks_skipped)
        ct_marks_skip(&v->marks, line->time_ns);
    v->marks_skipped = false;
    int status = v->marks.count ? ct_replay_view_marks(v, line->time_ns) : 0;
    if (status)
        return status;
    v->damaged |= line->kind == CT_REPLAY_DAMAGED;
    return ct_replay_each_instruction(line, v->insns, print_line, v);
}

void ct_replay_view_head(const struct ct_replay_view *v) {
    ct_printer_colour(v->printer, CT_COLOUR_DIM);
    if (v->wall)
        ct_printer_format(v->printer, "#%*s  ", WALL_WIDTH - 1, "TIME");
    else
        ct_printer_format(v->printer, "#%*s  ", v->seconds_width + 9, "TIME (s)");
    if (v->threads)
        ct_printer_format(v->printer, "%-*s  ", (int)v->thread_width, "THREAD");
    ct_printer_text(v->printer, v->insns ? "CALL, INSTRUCTION" : v->blocks ? "CALL, BLOCK" : "CALL");
    ct_printer_colour(v->printer, CT_COLOUR_PLAIN);
    ct_printer_text(v->printer, "\n");
}
