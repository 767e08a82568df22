/* SPDX-License-Identifier: Apache-2.0 */
/* contrail report --blocks. */
#ifndef CT_CLI_REPORT_BLOCKS_H
#define CT_CLI_REPORT_BLOCKS_H

#include "report/blocks.h"

enum ct_report_form { CT_REPORT_TABLE, CT_REPORT_JSON, CT_REPORT_CSV };

/* Returns the exit code. */
int ct_report_blocks(struct ct_trace *trace, const struct ct_block_options *options, enum ct_report_form form);

#endif
