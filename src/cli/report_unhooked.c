/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail report` about functions without a hook that were perhaps called often. */
#include "cli/report_unhooked.h"
#include "cli/message.h"
#include "report/info.h"
#include "report/unhooked.h"

static void print_one(struct ct_printer *printer, const struct ct_unhooked *u) {
    char calls[CT_TEXT_SIZE], self[CT_TEXT_SIZE];
    const char *why = ct_info_reason_text(u->function->skip);
    ct_printer_text(printer, "Not hooked, but perhaps called often: ");
    ct_printer_function(printer, u->function->name, 0);
    ct_printer_text(printer, " [");
    ct_printer_name(printer, u->function->module, 0);
    ct_printer_text(printer, "], by ");
    ct_printer_function(printer, u->caller->name, 0);
    ct_printer_format(printer, " (calls: %s, self: %s): ", ct_text_count(calls, u->caller->calls),
                      u->caller->timed ? ct_text_time(self, u->caller->self_ns) : "-");
    ct_printer_name(printer, *why ? why : u->function->skip, 0);
    ct_printer_text(printer, "\n");
}

void ct_report_unhooked_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_report *report,
                              const char *const *directories) {
    struct ct_unhooked_list list;
    char text[CT_TEXT_SIZE];
    int status = ct_unhooked_find(&list, trace, report, directories);
    for (size_t i = 0; !status && i < list.count && i < CT_UNHOOKED_SHOWN; i++)
        print_one(printer, &list.items[i]);
    if (!status && list.count > CT_UNHOOKED_SHOWN)
        ct_printer_format(printer, "... and %s more; ", ct_text_count(text, list.count - CT_UNHOOKED_SHOWN));
    if (!status && list.count)
        ct_printer_text(printer, "`contrail info --skipped` lists all functions without a hook\n");
    ct_unhooked_free(&list);
}

void ct_report_unhooked_json(struct ct_json *json, const struct ct_trace *trace, const struct ct_report *report,
                             const struct ct_values *values, const char *const *directories) {
    struct ct_unhooked_list list;
    int status = ct_unhooked_find(&list, trace, report, directories);
    ct_report_json(report, trace, values, status ? NULL : &list, json);
    ct_unhooked_free(&list);
}

void ct_report_unhooked_mention(const struct ct_trace *trace, const struct ct_report *report,
                                const char *const *directories) {
    struct ct_unhooked_list list;
    char text[CT_TEXT_SIZE];
    int status = ct_unhooked_find(&list, trace, report, directories);
    if (!status && list.count)
        ct_message_error(
            "functions not hooked, but perhaps called often: %s (%s by %s); `contrail report --json` lists "
            "them",
            ct_text_count(text, list.count), list.items[0].function->name, list.items[0].caller->name);
    ct_unhooked_free(&list);
}
