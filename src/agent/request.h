/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the agent to the controller. Freestanding; see request.c. */
#ifndef CT_AGENT_REQUEST_H
#define CT_AGENT_REQUEST_H

#include "hook/runtime.h"

/* From now on, child processes and executed programs are announced. */
void ct_request_open(struct ct_runtime *rt);

/* From now on, a child may be made. */
void ct_request_note_fork(void);
/* Called in the child: true if it has a lane of its own. */
bool ct_request_forked(void);
/* The calling process is about to execute a program: address of its path, and the descriptor that the path is relative
 * to. */
void ct_request_executes(uint64_t path, int directory);

#endif
