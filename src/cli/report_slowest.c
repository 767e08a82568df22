/* SPDX-License-Identifier: Apache-2.0 */
/* The slowest calls: a line for each, and the command that shows it. */
#include "cli/report_slowest.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/reading.h"
#include "report/calls.h"
#include <string.h>

enum { TIME_WIDTH = 8, GAP = 2, WHEN_WIDTH = 13 };

/* Widths of columns. */
struct widths {
    int when;
    size_t thread;
};

/* The path as a word of a shell. */
static void quote_path(const char *path, char *text, size_t size) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%";
    size_t used = 0;
    if (*path && *path != '-' && strspn(path, plain) == strlen(path)) {
        snprintf(text, size, "%s", path);
        return;
    }
    text[used++] = '\'';
    for (; *path && used + 8 < size; path++)
        used += (size_t)snprintf(text + used, size - used, *path == '\'' ? "'\\''" : "%c", *path);
    snprintf(text + used, size - used, "'");
}

static void command_text(const struct ct_trace *trace, const struct ct_found_call *call, char *text, size_t size) {
    char name[CT_CALLS_NAME], path[4096];
    ct_calls_name(trace, call->thread, call->sequence, name);
    quote_path(ct_trace_path(trace), path, sizeof path);
    snprintf(text, size, "contrail replay --around %s %s", name, path);
}

static size_t thread_width(const struct ct_trace *trace, const struct ct_calls *calls) {
    size_t width = strlen("THREAD");
    char text[256];
    for (size_t i = 0; i < calls->count; i++) {
        size_t length =
            (size_t)ct_reading_thread_text(text, sizeof text, ct_trace_thread_at(trace, calls->at[i].thread));
        width = length > width ? length : width;
    }
    return width;
}

static int when_width(const struct ct_calls *calls, const struct ct_moment_clock *clock) {
    size_t width = WHEN_WIDTH;
    char text[CT_WALL_TEXT];
    for (size_t i = 0; i < calls->count; i++) {
        size_t length = strlen(ct_moment_text(clock, calls->at[i].began_ns, text));
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_call(struct ct_printer *p, const struct ct_trace *trace, const struct ct_found_call *call,
                       const struct ct_moment_clock *clock, struct widths width) {
    char duration[CT_TEXT_SIZE], self[CT_TEXT_SIZE], when[CT_WALL_TEXT], text[8192];
    ct_printer_format(p, "%*s%*s%*s%*s%*s%*s", width.when, ct_moment_text(clock, call->began_ns, when), GAP, "",
                      TIME_WIDTH, ct_text_time(duration, call->duration_ns), GAP, "", TIME_WIDTH,
                      ct_text_time(self, call->self_ns), GAP, "");
    ct_reading_thread_text(text, sizeof text, ct_trace_thread_at(trace, call->thread));
    ct_printer_spaces(p, width.thread - ct_printer_name(p, text, width.thread) + GAP);
    ct_printer_function(p, call->known->name, 0);
    if (*call->known->module) {
        ct_printer_colour(p, CT_COLOUR_DIM);
        ct_printer_text(p, " [");
        ct_printer_name(p, call->known->module, 0);
        ct_printer_text(p, "]");
        ct_printer_colour(p, CT_COLOUR_PLAIN);
    }
    ct_printer_text(p, call->open ? "  still open at the end\n" : "\n");
    command_text(trace, call, text, sizeof text);
    ct_printer_spaces(p, (size_t)width.when + GAP);
    ct_printer_colour(p, CT_COLOUR_DIM);
    ct_printer_name(p, text, 0);
    ct_printer_colour(p, CT_COLOUR_PLAIN);
    ct_printer_text(p, "\n");
}

static int print_calls(const struct ct_trace *trace, const struct ct_calls *calls,
                       const struct ct_moment_clock *clock) {
    static struct ct_printer p;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    struct widths width = {when_width(calls, clock), thread_width(trace, calls)};
    ct_printer_open(&p, true);
    ct_printer_colour(&p, CT_COLOUR_BOLD);
    ct_printer_format(&p, "%*s%*s%*s%*s%*s%*s%-*s%*s%s", width.when,
                      clock->clock == CT_CLOCK_WALL ? "WHEN" : "WHEN (s)", GAP, "", TIME_WIDTH, "DURATION", GAP, "",
                      TIME_WIDTH, "SELF", GAP, "", (int)width.thread, "THREAD", GAP, "", "FUNCTION");
    ct_printer_colour(&p, CT_COLOUR_PLAIN);
    ct_printer_text(&p, "\n");
    for (size_t i = 0; i < calls->count && ct_printer_wanted(&p); i++)
        print_call(&p, trace, &calls->at[i], clock, width);
    ct_printer_format(&p, "\nCalls: %s of %s\n", ct_text_count(a, calls->count), ct_text_count(b, calls->fitting));
    return ct_printer_close(&p);
}

int ct_report_slowest(struct ct_trace *trace, const struct ct_select *select, size_t most,
                      const char *const *directories, const struct ct_moment_clock *clock, bool json) {
    struct ct_calls *calls;
    struct ct_json text = {0};
    int status = ct_calls_find(&calls, trace, select, CT_CALLS_SLOWEST, most, directories);
    if (status)
        return ct_reading_fail(trace, status);
    if (json)
        ct_calls_json(calls, trace, ct_moment_wall(clock), command_text, &text);
    int code = json ? ct_reading_print_json(&text, 0) : print_calls(trace, calls, clock);
    ct_calls_free(calls);
    return code;
}
