/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail info` about a session with several processes. */
#ifndef CT_CLI_INFO_TREE_H
#define CT_CLI_INFO_TREE_H

#include "cli/printer.h"
#include "report/processes.h"

/* The session, and its processes as a tree. */
void ct_info_tree_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_processes *processes,
                        bool all);

#endif
