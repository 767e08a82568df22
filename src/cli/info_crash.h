/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail info` about signals, and about calls that were open when the process died. */
#ifndef CT_CLI_INFO_CRASH_H
#define CT_CLI_INFO_CRASH_H

#include "cli/printer.h"
#include "report/crash.h"

/* `all`: prints every thread and call. */
void ct_info_crash_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_crash *crash,
                         bool all);

#endif
