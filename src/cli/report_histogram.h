/* SPDX-License-Identifier: Apache-2.0 */
/* How long single calls took, for `contrail report --histogram`. */
#ifndef CT_CLI_REPORT_HISTOGRAM_H
#define CT_CLI_REPORT_HISTOGRAM_H

#include "report/functions.h"

/* Prints the calls of the functions that the options select, or that match the glob; returns the exit code. */
int ct_report_histogram(struct ct_trace *trace, const struct ct_report_options *options, const char *glob, bool json);

#endif
