/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail info` about a session with several processes. */
#include "cli/info_tree.h"
#include "cli/message.h"
#include "trace/reader.h"
#include <stdlib.h>
#include <string.h>

enum { SCREENFUL = 20, COMMAND_WIDTH = 100, LABEL = 11, INDENT = 2, DEEPEST = 20 };

static void print_label(struct ct_printer *printer, const char *text) {
    ct_printer_colour(printer, CT_COLOUR_BOLD);
    ct_printer_format(printer, "%-*s", LABEL, text);
    ct_printer_colour(printer, CT_COLOUR_PLAIN);
}

static void print_session(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_processes *p) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    print_label(printer, "Session");
    ct_printer_name(printer, ct_trace_path(trace), 0);
    ct_printer_text(printer, "\n");
    print_label(printer, "Recorded");
    ct_printer_format(printer, "%s processes in %s, %s events\n", ct_text_count(a, p->count),
                      ct_text_time(b, p->end_ns - p->start_ns), ct_text_count(c, p->events));
    print_label(printer, "Size");
    ct_printer_format(printer, "%s on disk\n", ct_text_size(a, ct_find_disk_bytes(ct_trace_path(trace))));
}

/* A command line of a compiler or linker may be pages long. */
static void print_command(struct ct_printer *printer, const char *text, bool all) {
    char *cut = all || strlen(text) <= COMMAND_WIDTH ? NULL : strndup(text, COMMAND_WIDTH);
    ct_printer_name(printer, cut ? cut : text, 0);
    ct_printer_text(printer, cut ? "…\n" : "\n");
    free(cut);
}

static void print_row(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_processes *p,
                      const struct ct_process_row *row, bool all) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    uint64_t start_ns = row->start_ns > p->start_ns ? row->start_ns - p->start_ns : 0;
    uint64_t span_ns = row->end_ns > row->start_ns ? row->end_ns - row->start_ns : 0;
    unsigned depth = row->depth < DEEPEST ? row->depth : DEEPEST;
    ct_printer_format(printer, "  %8d  %9s  %9s  %13s  %-12s  ", ct_trace_process_at(trace, row->process)->pid,
                      ct_text_time(a, start_ns), ct_text_time(b, span_ns), ct_text_count(c, row->events), row->ended);
    ct_printer_spaces(printer, (size_t)depth * INDENT);
    print_command(printer, row->command_line, all);
}

void ct_info_tree_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_processes *p,
                        bool all) {
    char text[CT_TEXT_SIZE];
    size_t shown = all || p->count <= SCREENFUL + 1 ? p->count : SCREENFUL;
    print_session(printer, trace, p);
    ct_printer_colour(printer, CT_COLOUR_BOLD);
    ct_printer_format(printer, "\nProcesses (%s)\n", ct_text_count(text, p->count));
    ct_printer_colour(printer, CT_COLOUR_PLAIN);
    ct_printer_format(printer, "  %8s  %9s  %9s  %13s  %-12s  %s\n", "PID", "START", "LASTED", "EVENTS", "ENDED",
                      "COMMAND");
    for (size_t i = 0; i < shown; i++)
        print_row(printer, trace, p, &p->rows[i], all);
    if (shown < p->count)
        ct_printer_format(printer, "  ... and %s more (--all)\n", ct_text_count(text, p->count - shown));
}
