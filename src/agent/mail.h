/* What the agent asks of the controller. Freestanding; see mail.c. */
#ifndef CT_AGENT_MAIL_H
#define CT_AGENT_MAIL_H

#include "hook/runtime.h"

/* Children and executed programs are announced from now on. */
void ct_mail_open(struct ct_runtime *rt);

#endif
