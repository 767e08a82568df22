/* SPDX-License-Identifier: Apache-2.0 */
/* Who waited how long for which lock, and who held it: from the recorded calls of pthread_mutex_lock and its like.
 *
 * Times and callers are known of all calls. Which lock a call was about is its first argument, known where the call has
 * a detail record. The holder of a lock is the thread whose lock call has returned and whose unlock call has not begun.
 * Where an unlock has no detail record, or events are missing, its thread counts as holder of nothing.
 *
 * All threads of the selected processes are read, because any of them may hold a lock; only waits that fit count.
 * Memory grows with the number of lock calls that have a detail record. */
#ifndef CT_REPORT_LOCKS_H
#define CT_REPORT_LOCKS_H

#include "report/function_cache.h"

enum { CT_LOCK_NAME = 256 };

/* Waits of one thread for a lock that one other held when they began. */
struct ct_lock_pair {
    size_t waiter, holder; /* threads */
    uint64_t count, total_ns, max_ns;
    uint64_t max_at_ns;     /* when the longest began */
    uint64_t waiter_caller; /* function that made this call; 0: not known */
};

struct ct_lock_holder {
    size_t thread;
    uint64_t since_ns, depth;
    uint64_t caller; /* function that locked it; 0: not known */
};

struct ct_lock {
    size_t process;
    uint64_t address;
    char name[CT_LOCK_NAME];        /* of the variable, or module+0xoffset; "": in no module */
    const char *what;               /* "mutex", "rwlock", "spinlock" */
    uint64_t locked;                /* lock calls that fit */
    uint64_t waited;                /* of them: when another thread held it */
    uint64_t total_ns, max_ns;      /* of the lock calls */
    uint64_t held_max_ns;           /* longest time between lock and unlock; 0: none is known */
    struct ct_lock_pair *pairs;     /* longest total first */
    struct ct_lock_holder *holders; /* at the end */
    size_t pair_count, holder_count, holder_room;
};

/* A lock call that is open at the end. */
struct ct_lock_wait {
    size_t thread, lock;
    uint64_t began_ns, lasted_ns;
    uint64_t caller; /* function that made the call; 0: not known */
    size_t holder;   /* place in the lock's holders; of several, one that waits itself. SIZE_MAX: not known */
    size_t cycle;    /* number of the deadlock that it is part of, from 1 on; 0: none */
    bool fits;       /* private */
};

/* All calls of a function by one caller. */
struct ct_lock_calls {
    struct ct_table_key key;                            /* private */
    const struct ct_cached_function *function, *caller; /* caller NULL: not known */
    uint64_t calls, known;                              /* known: with a detail record */
    uint64_t total_ns, max_ns, open;
};

struct ct_locks {
    struct ct_lock *locks;
    size_t lock_count;
    size_t *order; /* places of locks with calls that fit, longest total first */
    size_t order_count;
    struct ct_lock_wait *waits; /* deadlocks first, each in its order */
    size_t wait_count, cycles;
    struct ct_lock_calls **functions; /* longest total first */
    size_t function_count;
    uint64_t calls, known; /* lock calls that fit; of them with a detail record */
    struct ct_function_cache names;
    struct ct_table rows; /* of `functions` */
};

/* `select` must live. `directories`: further places of binaries, for names of locks; may be NULL. */
int ct_locks_find(struct ct_locks **out, struct ct_trace *trace, const struct ct_select *select,
                  const char *const *directories);
void ct_locks_free(struct ct_locks *locks);
/* True for functions that return when they have a lock: who holds it is worth asking. */
bool ct_locks_is_wait(const char *function);

struct ct_json;
struct ct_wall;
/* `wall`: for times of the wall clock; NULL: not wanted. */
void ct_locks_json(const struct ct_locks *locks, const struct ct_trace *trace, const struct ct_wall *wall,
                   struct ct_json *json);

#endif
