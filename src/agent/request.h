/* What the agent asks of the controller. Freestanding; see request.c. */
#ifndef CT_AGENT_REQUEST_H
#define CT_AGENT_REQUEST_H

#include "hook/runtime.h"

/* Children and executed programs are announced from now on. */
void ct_request_open(struct ct_runtime *rt);

/* A child may be made from now on. */
void ct_request_note_fork(void);
/* In the child: true when it has a lane of its own. */
bool ct_request_forked(void);
/* The calling process is about to execute a program: address of its path, and the descriptor that it is relative to. */
void ct_request_executes(uint64_t path, int directory);

#endif
