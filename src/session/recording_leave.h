/* SPDX-License-Identifier: Apache-2.0 */
/* How a recording gets out of its target, and cleans up after one that was killed. */
#ifndef CT_SESSION_RECORDING_LEAVE_H
#define CT_SESSION_RECORDING_LEAVE_H

#include <stdbool.h>

struct ct_recording;

/* The longest stop of a recorded process, whatever is in its memory. */
#define CT_RECORDING_STILL_MS 10000u

/* Removes everything from the target, which then runs again. */
int ct_recording_uninstall(struct ct_recording *r);
int ct_recording_stop(struct ct_recording *r);
/* Removes what is in the stopped target, which stays stopped. *clean: nothing of ours is left. */
int ct_recording_clean(struct ct_recording *r, bool *clean);
/* Removes hooks of a recorder that was killed, before anything is planned. CT_ERR_BUSY: the recorder lives. */
int ct_recording_clean_after_others(struct ct_recording *r);

#endif
