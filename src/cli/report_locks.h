/* SPDX-License-Identifier: Apache-2.0 */
/* `contrail report --locks`: who waited for which lock, and who held it. */
#ifndef CT_CLI_REPORT_LOCKS_H
#define CT_CLI_REPORT_LOCKS_H

#include "cli/moment.h"
#include "report/select.h"

/* At most `limit` locks, and functions; 0: all. Returns the exit code. */
int ct_report_locks(struct ct_trace *trace, const struct ct_select *select, uint64_t limit,
                    const char *const *directories, const struct ct_moment_clock *clock, bool json);

#endif
