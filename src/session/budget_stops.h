/* SPDX-License-Identifier: Apache-2.0 */
/* The stops in which the budget restores entry bytes of hooks that are off, and puts those back that shall come back.
 *
 * One stop is bounded by work: at most CT_BUDGET_STOP_HOOKS hooks change in it. It is bounded by time too, and long
 * ones are rare. Owner: the budget's thread (recording_budget.c), under the recording's `work`. */
#ifndef CT_SESSION_BUDGET_STOPS_H
#define CT_SESSION_BUDGET_STOPS_H

#include "session/budget.h"
#include "session/budget_places.h"

#define CT_BUDGET_STOP_HOOKS 128u /* some 4 us each */

struct ct_budget_batch {
    uint32_t numbers[CT_BUDGET_STOP_HOOKS];
    const struct ct_target_hook *hooks[CT_BUDGET_STOP_HOOKS], *hosts[CT_BUDGET_STOP_HOOKS];
    bool done[CT_BUDGET_STOP_HOOKS];
    size_t count;
};

/* Of a stop, or of all so far. */
struct ct_budget_stopped {
    uint64_t stops, ns, longest_ns, hooks, most_hooks;
};

struct ct_budget_stops {
    struct ct_budget_batch out, back; /* of the next stop */
    uint64_t next_ns;                 /* none is made before */
};

/* Plans the next stop: hooks that come back, with their hosts, then hooks that are off and still have our bytes. */
void ct_budget_stops_plan(struct ct_budget_stops *s, const struct ct_budget *budget,
                          const struct ct_budget_places *places, const uint32_t *back, size_t count);
/* Makes the stop, if there is anything to change. A stop that is not possible soon is given up: the process runs on,
 * and the changes wait. */
struct ct_budget_stopped ct_budget_stops_make(struct ct_budget_stops *s, struct ct_recording *r,
                                              struct ct_budget_places *places);
void ct_budget_stopped_add(struct ct_budget_stopped *all, const struct ct_budget_stopped *one);

/* Notes whether a hook's bytes are in place. */
void ct_budget_stops_patched(struct ct_budget_places *places, uint32_t number, bool patched);

#endif
