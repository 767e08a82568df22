/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on the stacks of a stopped process: of signal handlers that have not returned. */
#ifndef CT_REMOTE_FRAMES_H
#define CT_REMOTE_FRAMES_H

#include "remote/remote.h"

/* Code that a signal handler interrupted: where it continues. */
struct ct_remote_frame {
    uint64_t pc; /* the callback may change it */
    uint64_t sp;
    uint64_t sp_at; /* where the kernel keeps sp; other registers are beside it */
};

/* Calls `each` for every such frame of the thread whose stack pointer is `sp`, on other stacks too if handlers ran
 * there. Non-zero from `each` ends the walk and is returned. CT_ERR_TIMEOUT: not all frames were seen
 * (ct_remote_limit). */
int ct_remote_each_frame(struct ct_remote *remote, uint64_t sp, int (*each)(void *arg, struct ct_remote_frame *frame),
                         void *arg);

/* Is a thread at an address for which `is_ours` returns true, or will it be when its handlers have returned? Also true
 * if there is no time to check all of them. */
bool ct_remote_comes_to(struct ct_remote *remote, bool (*is_ours)(const void *arg, uint64_t pc), const void *arg);

#endif
