/* How a recording gets out of its target, and cleans up after one that was killed. */
#ifndef CT_SESSION_RECORDING_LEAVE_H
#define CT_SESSION_RECORDING_LEAVE_H

#include <stdbool.h>

struct ct_recording;

/* A stop of a process that is recorded lasts no longer, whatever it has in its memory. */
#define CT_RECORDING_STILL_MS 10000u

/* Everything out of the target, which runs again. */
int ct_recording_uninstall(struct ct_recording *r);
int ct_recording_stop(struct ct_recording *r);
/* Takes out what is in the stopped target; it is stopped afterwards too. *clean: nothing of ours is left. */
int ct_recording_clean(struct ct_recording *r, bool *clean);
/* Hooks of a recorder that was killed are removed, before anything is planned. CT_ERR_BUSY: the recorder lives. */
int ct_recording_clean_after_others(struct ct_recording *r);

#endif
