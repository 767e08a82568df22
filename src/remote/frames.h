/* What is on the stacks of a stopped process: frames of signal handlers that have not returned. */
#ifndef CT_REMOTE_FRAMES_H
#define CT_REMOTE_FRAMES_H

#include "remote/remote.h"

/* Code that a signal handler interrupted: where it will go on. */
struct ct_remote_frame {
    uint64_t pc; /* may be changed by the callback */
    uint64_t sp;
};

/* Every such frame of the thread whose stack pointer is `sp`, also where handlers ran on other stacks. Non-zero from `each`
 * ends it and is returned. CT_ERR_TIMEOUT: not all of them were seen (ct_remote_limit). */
int ct_remote_each_frame(struct ct_remote *remote, uint64_t sp, int (*each)(void *arg, struct ct_remote_frame *frame),
                         void *arg);

/* Is a thread, or will one be when its handlers have returned, at a place of which `is_ours` says so? True also when
 * there is no time to look at all of them. */
bool ct_remote_comes_to(struct ct_remote *remote, bool (*is_ours)(const void *arg, uint64_t pc), const void *arg);

/* Our number of the process that calls itself `inner` in the pid namespace of process `other`; 0: there is none. */
int ct_remote_outer_pid(int other, int inner);
/* Which pid namespace a process is in: a number that others of the same have too; -1: not known. */
long ct_remote_namespace(int pid);
/* What a thread calls itself; -1: there is none. */
int ct_remote_inner_number(int pid, int tid);
/* Our number of the thread of process `pid` that calls itself `inner`; 0: there is none. */
int ct_remote_outer_tid(int pid, int inner);
/* The process's own number as it sees it itself. */
int ct_remote_inner_pid(const struct ct_remote *remote);

#endif
