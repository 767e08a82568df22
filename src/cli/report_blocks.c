/* SPDX-License-Identifier: Apache-2.0 */
/* See report_blocks.h. */
#include "cli/report_blocks.h"
#include "cli/command.h"
#include "cli/reading.h"
#include "report/output.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COUNT_WIDTH = 9, INSNS_WIDTH = 5, SHARE_WIDTH = 6, THREAD_WIDTH = 20 };

static void print_place(struct ct_printer *p, const struct ct_block_row *row) {
    if (*row->module_name) {
        ct_printer_name(p, row->module_name, 0);
        ct_printer_text(p, "+");
    }
    ct_printer_format(p, "0x%" PRIx64, row->offset);
    if (*row->name) {
        ct_printer_text(p, "  ");
        ct_printer_function(p, row->name, 0);
        ct_printer_format(p, "+0x%" PRIx64, row->into);
    }
    if (row->line && *row->line) {
        ct_printer_text(p, " at ");
        ct_printer_name(p, row->line, 0);
    }
}

static void print_row(struct ct_printer *p, const struct ct_trace *trace, const struct ct_block_report *report,
                      const struct ct_block_row *row, bool per_thread) {
    char count[CT_TEXT_SIZE], executed[CT_TEXT_SIZE], thread[256];
    ct_printer_format(p, "%*s  %*u  %*s  %*.1f %%  ", COUNT_WIDTH, ct_text_count(count, row->count), INSNS_WIDTH,
                      row->insns, COUNT_WIDTH, ct_text_count(executed, row->executed), SHARE_WIDTH - 2,
                      report->executed ? 100.0 * (double)row->executed / (double)report->executed : 0);
    if (per_thread) {
        ct_reading_thread_text(thread, sizeof thread, ct_trace_thread_at(trace, row->thread));
        size_t took = ct_printer_name(p, thread, THREAD_WIDTH);
        ct_printer_spaces(p, THREAD_WIDTH - took + 2);
    }
    print_place(p, row);
    ct_printer_text(p, "\n");
}

static int print_table(const struct ct_trace *trace, const struct ct_block_report *r, bool per_thread) {
    static struct ct_printer p;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    ct_printer_open(&p, true);
    ct_printer_colour(&p, CT_COLOUR_BOLD);
    ct_printer_format(&p, "%*s  %*s  %*s  %*s  ", COUNT_WIDTH, "COUNT", INSNS_WIDTH, "INSNS", COUNT_WIDTH, "EXECUTED",
                      SHARE_WIDTH, "SHARE");
    if (per_thread)
        ct_printer_format(&p, "%-*s  ", THREAD_WIDTH, "THREAD");
    ct_printer_text(&p, "BLOCK");
    ct_printer_colour(&p, CT_COLOUR_PLAIN);
    ct_printer_text(&p, "\n");
    for (size_t i = 0; i < r->row_count && ct_printer_wanted(&p); i++)
        print_row(&p, trace, r, &r->rows[i], per_thread);
    ct_printer_format(&p, "\nBlocks executed: %s; instructions: %s", ct_text_count(a, r->count),
                      ct_text_count(b, r->executed));
    ct_printer_format(&p, "; threads: %s", ct_text_count(a, r->threads));
    if (r->matched > r->row_count)
        ct_printer_format(&p, "; rows: %s of %s (--limit 0 shows all)", ct_text_count(a, r->row_count),
                          ct_text_count(b, r->matched));
    ct_printer_text(&p, "\n");
    if (r->lost)
        ct_printer_format(&p, "Blocks lost: %s\n", ct_text_count(a, r->lost));
    return ct_printer_close(&p);
}

static int print_csv(const struct ct_trace *trace, const struct ct_block_report *report, bool per_thread) {
    struct ct_output text = {0};
    ct_block_report_csv(report, trace, per_thread, &text);
    return ct_reading_print_text(&text);
}

static int print_json(const struct ct_trace *trace, const struct ct_block_report *report) {
    struct ct_json json = {0};
    ct_block_report_json(report, trace, &json);
    return ct_reading_print_json(&json, 0);
}

int ct_report_blocks(struct ct_trace *trace, const struct ct_block_options *options, enum ct_report_form form) {
    struct ct_block_report *report;
    if (!ct_reading_check_blocks(trace, &options->select))
        return CT_EXIT_UNAVAILABLE;
    int status = ct_block_report_make(&report, trace, options);
    if (status)
        return ct_reading_fail(trace, status);
    int code = form == CT_REPORT_JSON  ? print_json(trace, report)
               : form == CT_REPORT_CSV ? print_csv(trace, report, options->per_thread)
                                       : print_table(trace, report, options->per_thread);
    if (options->lines && report->lines < report->row_count && *report->line_problem)
        ct_message_error("source lines are missing: %s", report->line_problem);
    else if (options->lines && report->row_count && !report->lines)
        ct_message_error("there are no source lines: the modules have no debug information, or are not here; "
                         "--debug-dir says where to look");
    if (report->damaged)
        code = ct_reading_fail(trace, CT_ERR_BAD_FILE);
    ct_block_report_free(report);
    return code;
}
