/* SPDX-License-Identifier: Apache-2.0 */
/* See left_out.h. */
#include "cli/left_out.h"

static const char *plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

static void print_one(struct ct_printer *printer, const struct ct_left_out *l, bool with_process) {
    char calls[CT_TEXT_SIZE], time[CT_TEXT_SIZE];
    ct_printer_format(printer, "  > %s calls, left out from %s on%s: ", ct_text_short(calls, (double)l->calls),
                      ct_text_time(time, l->from_ns), l->out ? "" : " for a while");
    if (l->function)
        ct_printer_function(printer, l->function->name, 0);
    else
        ct_printer_format(printer, "function %llx", (unsigned long long)l->id);
    if (l->function && *l->function->module) {
        ct_printer_text(printer, " [");
        ct_printer_name(printer, l->function->module, 0);
        ct_printer_text(printer, "]");
    }
    if (with_process)
        ct_printer_format(printer, " of process %d", l->pid);
    ct_printer_text(printer, "\n");
}

void ct_left_out_print(struct ct_printer *printer, const struct ct_left_out_list *list, size_t limit) {
    char a[CT_TEXT_SIZE];
    size_t shown = limit && limit < list->count ? limit : list->count;
    if (!list->count)
        return;
    if (list->limit > 0)
        ct_printer_format(printer, "Left out for the budget of %.4g %%", list->limit * 100);
    else
        ct_printer_text(printer, "Left out for a budget, which was off at the end");
    ct_printer_format(printer, ": %s function%s; the rows above have only what was recorded\n",
                      ct_text_count(a, list->count), plural(list->count));
    for (size_t i = 0; i < shown; i++)
        print_one(printer, &list->items[i], list->processes > 1);
    if (shown < list->count)
        ct_printer_format(printer, "  ... and %s more (--limit 0 shows all)\n", ct_text_count(a, list->count - shown));
}

void ct_left_out_print_budget(struct ct_printer *printer, const struct ct_left_out_list *list) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE], d[CT_TEXT_SIZE];
    if (list->limit > 0)
        ct_printer_format(printer, "%.4g %% of the program's CPU time", list->limit * 100);
    else
        ct_printer_text(printer, "off at the end");
    if (list->used > 0)
        ct_printer_format(printer, ", about %.1f %% used", list->used * 100);
    else
        ct_printer_text(printer, ", what was used is not measured");
    if (list->count)
        ct_printer_format(printer, "; %s function%s left out for it at times, %s at the end",
                          ct_text_count(a, list->count), plural(list->count), ct_text_count(b, list->out));
    if (list->stops)
        ct_printer_format(printer, "; %s stop%s took %s", ct_text_count(c, list->stops), plural(list->stops),
                          ct_text_time(d, list->stopped_ns));
    ct_printer_text(printer, "\n");
}
