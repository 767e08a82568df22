/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail report --args` under each row. */
#ifndef CT_CLI_REPORT_VALUES_H
#define CT_CLI_REPORT_VALUES_H

#include "cli/printer.h"
#include "report/values.h"

/* Prints lines that begin with `indent` spaces. Nothing when there are no records of the function. */
void ct_report_values_print(struct ct_printer *printer, const struct ct_function_values *values, uint64_t calls,
                            size_t indent);

#endif
