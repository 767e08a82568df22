/* SPDX-License-Identifier: Apache-2.0 */
/* Captures texts and structures that arguments point to, and floating-point arguments and results. Owner: the calling
 * thread. Makes a system call for each of the former: not for a silent agent. */
#ifndef CT_AGENT_VALUES_H
#define CT_AGENT_VALUES_H

#include "hook/runtime.h"

/* At a call or return whose rule asks for values (CT_RULE_TEXTS, CT_RULE_WHOLE, CT_RULE_REALS), before its own record:
 * writes a record with at most `room` bytes of each text; 0: no texts. Leaves it out where there is no room. */
void ct_agent_values_capture(struct ct_block *b, const struct ct_detail_note *note, uint64_t slot,
                             struct ct_special_frame *frame, uint32_t room);

#endif
