/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a recorded process within the budget of the policy (budget.h): looks at the calls of its hooks and at its CPU
 * time, switches hooks off, takes them out and puts them back.
 *
 * A thread of the recorder for each process that has a budget. It changes the process under `work`, and never waits for
 * it. A hook goes off by one store in its stub, at once; its entry bytes are restored in a short stop, in which many
 * hooks are changed together. */
#ifndef CT_SESSION_RECORDING_BUDGET_H
#define CT_SESSION_RECORDING_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct ct_json;
struct ct_recording;
struct ct_recording_budget;
struct ct_session_statistics;

/* Begins if the policy has a budget, or some hooks are out, and it has not begun yet. The caller holds `work`. */
void ct_recording_budget_begin(struct ct_recording *r);
/* What the parent has taken out is out in its forked child too. The child is stopped, and has no drain yet. */
void ct_recording_budget_inherit(struct ct_recording *r, struct ct_recording *parent);
/* No hook changes from now on. The caller does not hold `work`. */
void ct_recording_budget_stop(struct ct_recording *r);
void ct_recording_budget_free(struct ct_recording *r);

/* Is this hook switched off for its cost? The caller holds `work`. */
bool ct_recording_is_left_out(const struct ct_recording *r, uint32_t number);
void ct_recording_budget_count(struct ct_recording *r, struct ct_session_statistics *out);
/* Adds the member "budget" of the manifest, if there ever was one. */
void ct_recording_budget_put(struct ct_recording *r, struct ct_json *json);

#endif
