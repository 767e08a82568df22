/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded process that stays traced because of its signals (--trigger crash, --trigger signal=NAME). Each signal
 * becomes a record at its place in the thread's index, with registers, and an entry of the manifest with the stacks at
 * that time.
 *
 * Signals are reported on the tracer (remote.h) while the thread is stopped. The code there takes only three locks: the
 * list's own, the drain's for its queue, and the policy's. Nobody may wait for the tracer while holding one of these.
 * Everything else is for the owner of the recording, or the thread that holds its `work`. */
#ifndef CT_SESSION_CRASH_WATCH_H
#define CT_SESSION_CRASH_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct ct_json;
struct ct_recording;
struct ct_crash_watch;

/* Called before the process is resumed: from then on it is watched, if the session's policy requires it. */
int ct_crash_watch_begin(struct ct_recording *r);
/* Called when the policy has changed while the process runs. The caller holds `work`, and not the policy's lock. */
int ct_crash_watch_apply(struct ct_recording *r);
/* Ends the watch; the caller holds `work`. */
void ct_crash_watch_release(struct ct_recording *r);
/* Ends the watch for a while, because somebody else must trace the process; and starts it again. The caller does not
 * hold `work`. */
void ct_crash_watch_interrupt(struct ct_recording *r);
void ct_crash_watch_again(struct ct_recording *r);
bool ct_crash_watch_is_wanted(struct ct_recording *r);
/* The recording is over: when this returns, no more signals are reported. */
void ct_crash_watch_end(struct ct_recording *r);
void ct_crash_watch_free(struct ct_recording *r);

/* The array "signals" of the manifest. */
void ct_crash_watch_put(struct ct_recording *r, struct ct_json *json);
uint64_t ct_crash_watch_count(struct ct_recording *r);

/* "SIGSEGV"; realtime signals have numbers: "SIGRTMIN+3". */
void ct_signal_name(int signal, char name[16]);

#endif
