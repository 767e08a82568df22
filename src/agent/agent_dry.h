/* SPDX-License-Identifier: Apache-2.0 */
/* Records for which no memory is left while a mark is pending.
 *
 * Nothing is overwritten until the controller has taken what the mark wants. Records of new calls are given up then,
 * but another mark may want one of them: its own, or that of the call whose return is marked. So each thread that runs
 * out of memory has a segment of its own for these (abi/shm_abi.h): a call's record is put into the slot of its depth,
 * where it stays as long as the call is open; a mark's record, and the record of the call that it belongs to, are
 * appended to the marked ones, which stay until no mark is pending. Owner: the thread. */
#ifndef CT_AGENT_AGENT_DRY_H
#define CT_AGENT_AGENT_DRY_H

#include "abi/shm_abi.h"
#include "hook/runtime.h"
#include <stdbool.h>

void ct_agent_dry_open(uint64_t shm);
/* Room for the record of the event that the thread is recording; 0: none. `marked`: the event is a mark. */
uint64_t ct_agent_dry_reserve(struct ct_block *b, uint64_t size, bool marked);
/* A return is about to be marked: keeps the record of its call, if that is here. */
void ct_agent_dry_keep_call(struct ct_block *b, const struct ct_detail_note *note);

#endif
