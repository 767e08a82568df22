/* SPDX-License-Identifier: Apache-2.0 */
/* Live control of a session over a socket. */
#ifndef CT_SESSION_CONTROL_H
#define CT_SESSION_CONTROL_H

#include <stdbool.h>

struct ct_session;

int ct_control_start(struct ct_session *s);
void ct_control_stop(struct ct_session *s);
/* Makes the session reachable, or no longer, by the pid of another process that it records. */
void ct_control_add(struct ct_session *s, int pid);
void ct_control_remove(struct ct_session *s, int pid);
/* Must a process that begins now be paused? */
bool ct_control_wants_pause(const struct ct_session *s);

#endif
