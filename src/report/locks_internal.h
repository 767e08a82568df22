/* SPDX-License-Identifier: Apache-2.0 */
/* Between locks.c, which reads the calls, and locks_holders.c, which follows the locks through time. */
#ifndef CT_REPORT_LOCKS_INTERNAL_H
#define CT_REPORT_LOCKS_INTERNAL_H

#include "report/locks.h"

enum ct_lock_role {
    CT_LOCK_OTHER,     /* no lock function */
    CT_LOCK_TAKE,      /* returns when it has the lock */
    CT_LOCK_TRY,       /* has it when its result is 0 */
    CT_LOCK_GIVE,      /* unlocks */
    CT_LOCK_CONDITION, /* unlocks its second argument, and returns when it has that again */
    CT_LOCK_WAIT,      /* waits for something that nobody holds */
    CT_LOCK_GAP,       /* not a call: what the thread holds from here on is not known */
};

/* A call with a known lock, or a gap. */
struct ct_lock_op {
    enum ct_lock_role role;
    bool open;  /* at the end */
    bool taken; /* it has the lock when it has ended */
    bool fits;
    const char *what;
    size_t process, thread;
    uint64_t address, sequence, caller;
    uint64_t began_ns, ended_ns, lasted_ns;
};

/* Fills locks and waits but for the names of locks. `threads`: number of threads in the trace. */
int ct_locks_follow(struct ct_locks *locks, const struct ct_lock_op *ops, size_t count, size_t threads);

#endif
