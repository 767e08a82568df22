/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: a thread enters it when translated code does not know where to continue. */
#ifndef CT_STALK_ENGINE_H
#define CT_STALK_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

struct stalk_thread;

uint64_t ct_stalk_engine(struct stalk_thread *t);
/* Calls fn(arg), which may be ordinary C: vector state is saved, and the thread is marked as being in a callback. */
void ct_stalk_call_out(struct stalk_thread *t, void (*fn)(void *arg, void *vectors), void *arg);
/* Ends following and calls the sinks. The caller lets the thread continue natively. */
void ct_stalk_finish(struct stalk_thread *t, int status);
void ct_stalk_tell_stop(struct stalk_thread *t);
/* True for the first caller, which does what is left to do. */
bool ct_stalk_claim_end(struct stalk_thread *t);
/* The last step: other threads may now see that following has ended. */
void ct_stalk_unfollowed(struct stalk_thread *t);
/* BEGIN: from now on the thread is in translated code. */
void ct_stalk_begun(struct stalk_thread *t);
/* END: restores the area to what it was where the thread was stopped. */
void ct_stalk_area_back(struct stalk_thread *t);

/* A system call is about to be made. Returns where the thread continues. */
uint64_t ct_stalk_syscall_enter(struct stalk_thread *t);

/* entry_<isa>.S: copied into each region of code memory. */
extern const uint8_t ct_stalk_code[], ct_stalk_code_end[], ct_stalk_collide[], ct_stalk_miss[],
    ct_stalk_return_collide[], ct_stalk_return_miss[], ct_stalk_uncached[], ct_stalk_native_miss[], ct_stalk_landed[],
    ct_stalk_land[], ct_stalk_clock[], ct_stalk_full[], ct_stalk_syscall[], ct_stalk_begin[], ct_stalk_end[],
    ct_stalk_enter[], ct_stalk_saved[], ct_stalk_switch[], ct_stalk_going[], ct_stalk_restore[],
    ct_stalk_signal_entry[], ct_stalk_signal_blocked[], ct_stalk_signal_return[], ct_stalk_child[], ct_stalk_exit[],
    ct_stalk_away[]; /* the last two: arm64 */

#endif
