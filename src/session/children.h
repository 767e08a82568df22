/* SPDX-License-Identifier: Apache-2.0 */
/* The other processes of a session: children that recorded processes fork, and programs that they execute.
 *
 * Each new process has a child thread, which leads its recording to the end. */
#ifndef CT_SESSION_CHILDREN_H
#define CT_SESSION_CHILDREN_H

#include "session/requests.h"

int ct_children_create(struct ct_session *s);
/* When this returns, all child threads have ended. */
void ct_children_destroy(struct ct_session *s);

/* Starts a child thread for the process that wrote this request; false: no process is followed now. */
bool ct_children_start_thread(const struct ct_task *task);
/* Notes one more process that could not be recorded. */
void ct_children_miss(struct ct_session *s, const char *reason);
/* Number of processes that are recorded, or about to be, without the first. */
size_t ct_children_active(struct ct_session *s);
/* Removes the hooks from all of them; their traces are finished when this returns. */
void ct_children_leave(struct ct_session *s);
bool ct_children_are_leaving(struct ct_session *s);
/* Has the trace of one of them failed? */
bool ct_children_broken(struct ct_session *s);
/* Waits until the process with this pidfd (-1: none) ends or the number of children changes, at most `timeout_ms`. */
void ct_children_wait(struct ct_session *s, int pidfd, int timeout_ms);
void ct_children_add_statistics(struct ct_session *s, struct ct_session_statistics *sum);
/* Calls `each` for those that are being recorded. Their list is locked meanwhile: `each` must not wait. */
void ct_children_each(struct ct_session *s, void (*each)(void *arg, struct ct_recording *r), void *arg);

#endif
