/* SPDX-License-Identifier: Apache-2.0 */
/* Jump tables, x86_64: part of the pass over a module's code (scan_x64.c). */
#ifndef CT_HOOK_SCAN_TABLES_X64_H
#define CT_HOOK_SCAN_TABLES_X64_H

#include "hook/scan.h"

/* How many instructions before a jump are looked at for its table. */
#define CT_SCAN_RECENT 32u

int ct_scan_add_table(struct ct_scan *scan, size_t function, uint64_t address, enum ct_scan_table_kind kind);

/* Where is the table of the jump at `at`, through a register? `recent` is a ring of the instructions that were decoded
 * before it, the newest at (next - 1) % CT_SCAN_RECENT. False: that cannot be seen. */
bool ct_scan_dispatch(const struct ct_scan *scan, const uint64_t *recent, unsigned next, uint64_t at,
                      uint64_t *address);

#endif
