/* SPDX-License-Identifier: Apache-2.0 */
/* Moving threads of another process into and out of translated code (redirect_<isa>.c). */
#ifndef CT_INJECT_REDIRECT_H
#define CT_INJECT_REDIRECT_H

#include "remote/remote.h"

/* A stopped thread, whose block this is, is about to get another pc, in or for translated code: its other registers and
 * its area, as ct_stalk_redirect of stalk/link.h has them in the process itself. */
int ct_inject_redirect(struct ct_remote *remote, struct ct_registers *regs, uint64_t block);

#endif
