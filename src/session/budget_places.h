/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of a recorded process by their numbers, over all of its plans, with what the budget has done to them.
 * Owner: the budget's thread (recording_budget.c), under the recording's `work`. */
#ifndef CT_SESSION_BUDGET_PLACES_H
#define CT_SESSION_BUDGET_PLACES_H

#include "plan/target_plan.h"

struct ct_recording;

struct ct_budget_place {
    const struct ct_target_hook *hook; /* NULL: there is none, or its module was unloaded */
    const struct ct_target_plan *plan;
    uint64_t function_id;
    int32_t host;    /* number of the hook whose bytes hold its springboard; -1: none */
    uint16_t guests; /* hooks with their springboard in its bytes, whose bytes are in place */
    bool may_go;     /* it is recorded, and the engine does not need it */
    bool movable;    /* its bytes can be taken out and put back: otherwise its stub is switched off, and stays */
    bool patched;    /* its bytes are in place */
    bool named;      /* by --only, or by a trigger */
    bool changed;    /* it was out at some time */
    uint64_t first_out_ns, out_calls;
};

struct ct_budget_places {
    struct ct_budget_place *at; /* by number */
    size_t count, plans, gone;
    uint32_t version; /* of the policy */
};

/* Brings the list up to date. */
int ct_budget_places_refresh(struct ct_budget_places *places, const struct ct_recording *r);

#endif
