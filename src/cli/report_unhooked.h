/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail report` about functions without a hook that were perhaps called often. */
#ifndef CT_CLI_REPORT_UNHOOKED_H
#define CT_CLI_REPORT_UNHOOKED_H

#include "cli/printer.h"
#include "report/functions.h"

/* Prints nothing when there are none, or the modules' files are not available. */
void ct_report_unhooked_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_report *report,
                              const char *const *directories);

#endif
