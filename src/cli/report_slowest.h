/* SPDX-License-Identifier: Apache-2.0 */
/* The slowest calls, for `contrail report --slowest`. */
#ifndef CT_CLI_REPORT_SLOWEST_H
#define CT_CLI_REPORT_SLOWEST_H

#include "cli/moment.h"
#include "report/select.h"

/* Prints the calls; returns the exit code. */
int ct_report_slowest(struct ct_trace *trace, const struct ct_select *select, size_t most,
                      const char *const *directories, const struct ct_moment_clock *clock, bool json);

#endif
