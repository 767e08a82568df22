/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail info` about threads that did nothing for long. */
#ifndef CT_CLI_INFO_IDLE_H
#define CT_CLI_INFO_IDLE_H

#include "cli/printer.h"
#include "report/info.h"

/* `label` is the width of the first column. */
void ct_info_idle_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_info *info, int label,
                        bool all);

#endif
