/* Processes and threads that are named in shared memory, confirmed by the kernel.
 *
 * The target can write any number into a request (abi/shm_abi.h). One counts when /proc shows what only the target, or a process
 * that it has forked, can have: the recording's own shared memory, mapped for writing where it is in the target. No other process
 * can get there, because the memory is sealed against new mappings (lane.h). Besides, it is not older than the recording, and
 * its parents lead to the target, or were made since as well. From the first look on it is held by a pidfd: a number that is
 * used again is noticed. */
#ifndef CT_SESSION_CONFIRM_H
#define CT_SESSION_CONFIRM_H

#include "session/recording.h"

struct ct_confirmed {
    int pid, tid; /* as we see them */
    int pidfd;    /* -1: none; closed by the caller */
};

/* `inner`: what a process calls itself that says it was forked by the recorded one. CT_ERR_NOT_FOUND: there is none (any more);
 * CT_ERR_PERMISSION_DENIED: it is another process. */
int ct_confirm_child(struct ct_recording *r, int inner, struct ct_confirmed *out);
/* The same for a thread that says it is about to execute a program: of the recorded process, or of one that has its memory. */
int ct_confirm_executing(struct ct_recording *r, int inner_pid, int inner_tid, struct ct_confirmed *out);

/* Has this process or thread the recording's memory in its place now? Certain for as long as it is stopped. */
bool ct_confirm_maps(const struct ct_recording *r, int task);
/* The process that was confirmed is there still: whatever was opened by its number since is the same. */
bool ct_confirm_holds(const struct ct_confirmed *confirmed);
/* Is there a process that has the recording's memory and did not ask yet? */
bool ct_confirm_has_other(const struct ct_recording *r);

/* The process or thread is no more, a zombie, or on its way to its end. */
bool ct_confirm_has_ended(int task);

#endif
