/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that pass floating-point numbers on, without computing with any. Private to scan.c and scan_<isa>.c.
 *
 * A number that a function was called with is still in its register at its first call, and the result of its last call
 * may be its own. If one of these goes to a function that has such numbers, so may the function itself. */
#ifndef CT_HOOK_SCAN_REALS_H
#define CT_HOOK_SCAN_REALS_H

#include "hook/scan.h"

/* Where a function's first and last calls go; 0: it makes none, or it is not known where. */
struct ct_scan_calls {
    uint64_t first, last;
    bool any;
};

static inline void ct_scan_note_call(struct ct_scan_calls *calls, uint64_t target) {
    calls->first = calls->any ? calls->first : target;
    calls->last = target;
    calls->any = true;
}

/* At the end of a function; the index is among scan->funcs. */
int ct_scan_add_calls(struct ct_scan *scan, const struct ct_scan_calls *calls, size_t function);
int ct_scan_join_calls(struct ct_scan *scan, const struct ct_scan *part);
/* When all functions were looked at: sets CT_SCAN_REALS of those that pass numbers on. Frees the calls. */
void ct_scan_spread_reals(struct ct_scan *scan);
void ct_scan_free_calls(struct ct_scan *scan);

#endif
