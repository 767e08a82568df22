/* SPDX-License-Identifier: Apache-2.0 */
/* The Stalker of scripts. Freestanding; see script_stalk.c. */
#ifndef CT_AGENT_SCRIPT_STALK_H
#define CT_AGENT_SCRIPT_STALK_H

#include "abi/boot_abi.h"
#include "abi/script_abi.h"
#include "hook/runtime.h"

/* Called once, before the first hook. */
void ct_script_stalk_open(struct ct_script_shared *shared, struct ct_boot *boot);
/* Is there a script for which the calling thread is followed? If not, the engine lets it go soon. */
bool ct_script_stalk_is_wanted(void);

#endif
