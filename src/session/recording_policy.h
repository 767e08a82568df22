/* SPDX-License-Identifier: Apache-2.0 */
/* The session's policy in one recorded process: triggers and windows. recording_switch.h decides which functions are
 * recorded. */
#ifndef CT_SESSION_RECORDING_POLICY_H
#define CT_SESSION_RECORDING_POLICY_H

#include "session/policy.h"
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct ct_recording;

/* Used by the drain thread. */
struct ct_recording_time_trigger {
    time_t second;               /* of the last check of time triggers */
    char lasts[CT_TRIGGER_TEXT]; /* the time trigger that is active now; "": none */
};

/* Puts the policy's current function triggers into effect in the process. Any thread that may read modules. */
void ct_recording_apply_policy(struct ct_recording *r);
/* Notes function triggers that fit no function (ct_session_idle). */
void ct_recording_note_triggers(struct ct_recording *r);
/* Notes globs of --only and --exclude that fit no function and no module (ct_session_idle_filters). */
void ct_recording_note_filters(struct ct_recording *r);
/* Applies the whole policy if the process does not have the current one, whether it runs or not. The caller holds
 * `work`. */
void ct_recording_bring_policy(struct ct_recording *r);
/* For ct_drain.trigger_text. */
void ct_recording_trigger_text(void *recording, uint32_t id, char *text, size_t size);
/* For ct_drain.on_pass: holds a window open while a time trigger is active. */
void ct_recording_on_pass(void *recording, uint64_t now_ns);

#endif
