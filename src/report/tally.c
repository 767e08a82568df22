/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and times of one function. */
#include "report/tally.h"

bool ct_tally_spread(struct ct_tally *tally, enum ct_report_spread spread, uint64_t self_ns, const struct ct_off *off) {
    uint64_t ns = spread == CT_REPORT_SPREAD_CPU ? ct_off_rest(self_ns, off) : self_ns;
    tally->squares += (ct_sum)ns * ns;
    return ct_histogram_add(&tally->spread, ns);
}

bool ct_tally_merge(struct ct_tally *into, const struct ct_tally *from) {
    into->calls += from->calls;
    into->exceptions += from->exceptions;
    into->open += from->open;
    into->unpaired += from->unpaired;
    into->total_ns += from->total_ns;
    into->self_ns += from->self_ns;
    into->sum_ns += from->sum_ns;
    ct_off_add(&into->total_off, &from->total_off);
    ct_off_add(&into->self_off, &from->self_off);
    into->squares += from->squares;
    into->entry_only |= from->entry_only;
    into->known |= from->known;
    return ct_histogram_merge(&into->times, &from->times) && ct_histogram_merge(&into->spread, &from->spread);
}

void ct_tally_release(void *tally) {
    ct_histogram_free(&((struct ct_tally *)tally)->times);
    ct_histogram_free(&((struct ct_tally *)tally)->spread);
}
