/* What the agent asks of the controller. Freestanding; see mail.c. */
#ifndef CT_AGENT_MAIL_H
#define CT_AGENT_MAIL_H

#include "hook/runtime.h"

/* Children and executed programs are announced from now on. */
void ct_mail_open(struct ct_runtime *rt);

/* A child may be made from now on. */
void ct_mail_note_fork(void);
/* In the child: true when it has a lane of its own. */
bool ct_mail_forked(void);
/* The calling process is about to execute a program: address of its path, and the descriptor that it is relative to. */
void ct_mail_executes(uint64_t path, int directory);

#endif
