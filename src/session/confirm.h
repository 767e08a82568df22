/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and threads that are named in shared memory, confirmed by the kernel.
 *
 * The target can write any number into a request (abi/shm_abi.h). A number counts if /proc shows what only the target,
 * or a process that it forked, can have: the recording's own shared memory, mapped for writing at the target's address.
 * No other process can map it, because the memory is sealed against new mappings (lane.h). Besides, the process is not
 * older than the recording, and its parents lead to the target or are not older either. From the first check on we hold
 * it by a pidfd, so we notice a number that is used again. */
#ifndef CT_SESSION_CONFIRM_H
#define CT_SESSION_CONFIRM_H

#include "session/recording.h"

struct ct_confirmed {
    int pid, tid; /* in our pid namespace */
    int pidfd;    /* -1: none; the caller closes it */
};

/* `inner`: the number that a process has in its own pid namespace; it claims that the recorded process forked it.
 * CT_ERR_NOT_FOUND: there is none (any more); CT_ERR_PERMISSION_DENIED: it is another process. */
int ct_confirm_child(struct ct_recording *r, int inner, struct ct_confirmed *out);
/* Confirms a thread that claims to be about to execute a program: of the recorded process, or of one that has its
 * memory. */
int ct_confirm_executing(struct ct_recording *r, int inner_pid, int inner_tid, struct ct_confirmed *out);

/* Does this process or thread have the recording's memory at its address now? Certain as long as it is stopped. */
bool ct_confirm_maps(const struct ct_recording *r, int task);
/* Does the confirmed process still exist? Then everything that was opened by its number since is about it. */
bool ct_confirm_holds(const struct ct_confirmed *confirmed);
/* Is there a process that has the recording's memory and has not asked yet? */
bool ct_confirm_has_other(const struct ct_recording *r);

/* Has the process or thread ended: gone, a zombie, or ending? */
bool ct_confirm_has_ended(int task);

#endif
