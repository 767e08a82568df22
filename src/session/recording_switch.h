/* SPDX-License-Identifier: Apache-2.0 */
/* Switches functions off and on in a process that runs. */
#ifndef CT_SESSION_RECORDING_SWITCH_H
#define CT_SESSION_RECORDING_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_recording;

/* What the process has of the policy. Written under `work`. */
struct ct_recording_switched {
    uint32_t version;  /* of the policy */
    size_t more_count; /* plans of libraries that were loaded later and have this version */
};

/* Switches functions on and off in the process according to the current policy, whether it runs or not. The caller
 * holds `work`, or is the only thread that knows the recording. */
int ct_recording_switch(struct ct_recording *r);
struct ct_budget_place;
/* Switches a hook off, or on unless the policy says otherwise. The caller holds `work`. */
int ct_recording_set_hook(const struct ct_recording *r, const struct ct_budget_place *place, bool on);
/* Is that done, for all current libraries? Any thread; certain for one that holds `work`. */
bool ct_recording_is_switched(const struct ct_recording *r);

#endif
