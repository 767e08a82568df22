/* SPDX-License-Identifier: Apache-2.0 */
/* The child of a vfork, which runs in its parent's memory while the parent waits. It continues in translated code in
 * place of its parent, with the parent's area, engine stack and record buffer, so that we see which program it
 * executes. Nothing that it does is an event. When it has executed a program or has ended, its parent finds everything
 * as it was.
 *
 * Signal actions are the child's own: they go to the kernel unchanged (ct_stalk_sigaction_vforked). The parent may be
 * seen again first in a signal handler: the code that sees it first calls ct_stalk_vfork_end. Owner: the child until it
 * has left, then the parent. */
#include "stalk/vfork.h"
#include "os/thread.h"
#include "stalk/events.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"

void ct_stalk_vfork_prepare(struct stalk_thread *t, uint64_t resume) {
    ct_stalk_events_drain(t, true);
    t->vfork.tid = 0;
    t->vfork.muted = t->muted;
    t->vfork.activation = t->activation;
    t->vfork.native = t->area->native;
    t->vfork.fault_pc = t->fault_pc;
    t->vfork.through = t->through;
    t->vfork.resume = resume;
}

void ct_stalk_vfork_begin(struct stalk_thread *t) {
    t->muted = 1;
    t->activation = 0;
    __atomic_store_n(&t->vfork.tid, ct_os_gettid(), __ATOMIC_RELEASE);
}

#define PATIENCE 250000 /* times 20 us: no live thread holds the lock that long */

void ct_stalk_vfork_release(struct ct_stalker *s) {
    for (unsigned i = 0; i < PATIENCE; i++) {
        if (!__atomic_load_n(&s->lock, __ATOMIC_ACQUIRE))
            return;
        ct_os_sleep_us(20);
    }
    ct_stalk_unlock(s);
}

/* The child may have been killed at any place. */
void ct_stalk_vfork_end(struct stalk_thread *t) {
    t->vfork.tid = 0;
    ct_stalk_events_forget(t);
    t->muted = t->vfork.muted;
    t->activation = t->vfork.activation;
    t->fault_pc = t->vfork.fault_pc;
    t->through = t->vfork.through;
    t->in_callback = 0;
    t->status = 0;
    t->area->native = t->vfork.native;
    if ((uint32_t)t->area->reason != CT_REASON_BACK) /* else the parent itself is in the engine */
        t->area->in_engine = 0;
    t->area->pending = 0;
    t->at_entry = false;
    t->following = 1;
}
