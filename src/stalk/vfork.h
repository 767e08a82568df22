/* SPDX-License-Identifier: Apache-2.0 */
/* The child of a vfork runs in its parent's memory, and so uses the parent's stalk_thread (vfork.c). */
#ifndef CT_STALK_VFORK_H
#define CT_STALK_VFORK_H

#include "os/os.h"
#include "stalk/thread.h"
#include <stdbool.h>

struct ct_stalker;

/* prepare: before the system call. begin: in the child, when it first enters the engine. end: in the parent, where it
 * is first seen again. */
void ct_stalk_vfork_prepare(struct stalk_thread *t, uint64_t resume);
void ct_stalk_vfork_begin(struct stalk_thread *t);
void ct_stalk_vfork_end(struct stalk_thread *t);
/* Called in the parent, if the child is gone: a child that was killed in the engine may have held the lock. */
void ct_stalk_vfork_release(struct ct_stalker *s);
/* Is the calling thread that child? */
static inline bool ct_stalk_is_vforked(const struct stalk_thread *t) {
    return t->vfork.tid && t->vfork.tid == ct_os_gettid();
}
/* Is the calling thread the parent, back from the vfork? */
static inline bool ct_stalk_is_back(const struct stalk_thread *t) {
    return t->vfork.tid && t->tid == ct_os_gettid();
}

#endif
