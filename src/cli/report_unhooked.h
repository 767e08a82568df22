/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail report` about functions without a hook that were perhaps called often. */
#ifndef CT_CLI_REPORT_UNHOOKED_H
#define CT_CLI_REPORT_UNHOOKED_H

#include "cli/printer.h"
#include "report/functions.h"

struct ct_json;

/* All of them print nothing when there are none, or the modules' files are not available. */
void ct_report_unhooked_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_report *report,
                              const char *const *directories);
/* The report as JSON, with these functions; `values` may be NULL. */
void ct_report_unhooked_json(struct ct_json *json, const struct ct_trace *trace, const struct ct_report *report,
                             const struct ct_values *values, const char *const *directories);
/* One sentence on stderr: CSV has no place for remarks. */
void ct_report_unhooked_mention(const struct ct_trace *trace, const struct ct_report *report,
                                const char *const *directories);

#endif
