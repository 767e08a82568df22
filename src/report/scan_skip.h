/* SPDX-License-Identifier: Apache-2.0 */
/* Scans that leave events out (ct_scan_setup: least_ns, spans), and how long the longest calls are. */
#ifndef CT_REPORT_SCAN_SKIP_H
#define CT_REPORT_SCAN_SKIP_H

#include "report/scan.h"
#include "report/select.h"

/* At least n calls of the selected threads take this long or longer, as their summaries say; 0: nobody knows. */
int ct_scan_nth_longest(struct ct_trace *trace, const struct ct_facts *facts, const struct ct_select *select, size_t n,
                        uint64_t *least_ns);

/* Parts of scan.c: the cursor is open; the next event is the one at `next`; the scan ends. */
int ct_scan_skip_open(struct ct_scan *scan);
void ct_scan_skip_next(struct ct_scan *scan, uint64_t next);
void ct_scan_skip_close(struct ct_scan *scan);

#endif
