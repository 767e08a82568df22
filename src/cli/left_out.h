/* SPDX-License-Identifier: Apache-2.0 */
/* How `report` and `info` show what a recording has left out for its budget. */
#ifndef CT_CLI_LEFT_OUT_H
#define CT_CLI_LEFT_OUT_H

#include "cli/reading.h"
#include "report/left_out.h"

/* A line for each function, at most `limit` (0: all), below the table of a report. */
void ct_left_out_print(struct ct_printer *printer, const struct ct_left_out_list *list, size_t limit);
/* One line with the budget and what it has cost. */
void ct_left_out_print_budget(struct ct_printer *printer, const struct ct_left_out_list *list);

#endif
