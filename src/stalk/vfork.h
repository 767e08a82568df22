/* A vfork's child runs on its parent's memory, and so on the parent's stalk_thread (vfork.c). */
#ifndef CT_STALK_VFORK_H
#define CT_STALK_VFORK_H

#include "os/os.h"
#include "stalk/thread.h"
#include <stdbool.h>

struct ct_stalker;

/* Before the system call; in the child, when it is in the engine for the first time; in the parent, wherever it is
 * first seen. */
void ct_stalk_vfork_prepare(struct stalk_thread *t, uint64_t resume);
void ct_stalk_vfork_begin(struct stalk_thread *t);
void ct_stalk_vfork_end(struct stalk_thread *t);
/* Where the parent runs: a child that was killed in the engine may have had the lock. */
void ct_stalk_vfork_release(struct ct_stalker *s);
/* The calling thread is that child. */
static inline bool ct_stalk_is_vforked(const struct stalk_thread *t) {
    return t->vfork.tid && t->vfork.tid == ct_os_gettid();
}
/* The calling thread is its parent, and is back. */
static inline bool ct_stalk_is_back(const struct stalk_thread *t) {
    return t->vfork.tid && t->tid == ct_os_gettid();
}

#endif
