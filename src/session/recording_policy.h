/* The session's policy as it is in one recorded process: triggers and windows. recording_switch.h has which functions
 * are recorded. */
#ifndef CT_SESSION_RECORDING_POLICY_H
#define CT_SESSION_RECORDING_POLICY_H

#include "session/policy.h"
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct ct_recording;

/* The drain thread's. */
struct ct_recording_time_trigger {
    time_t second;               /* of the last look at time triggers */
    char lasts[CT_TRIGGER_TEXT]; /* the one that lasts now, "" when there is none */
};

/* Function triggers, as the policy has them now, take effect in the process. Any thread that may look at modules. */
void ct_recording_apply_policy(struct ct_recording *r);
/* All of the policy, if the process does not have it as it is now, whether it runs or not. The caller holds `work`. */
void ct_recording_bring_policy(struct ct_recording *r);
/* For ct_drain.trigger_text. */
void ct_recording_trigger_text(void *recording, uint32_t id, char *text, size_t size);
/* For ct_drain.on_pass: while a time trigger lasts, a window is held open. */
void ct_recording_on_pass(void *recording, uint64_t now_ns);

#endif
