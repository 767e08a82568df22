/* SPDX-License-Identifier: Apache-2.0 */
/* The detail lane: where stubs write registers and stack of calls (abi/shm_abi.h). */
#ifndef CT_AGENT_AGENT_DETAIL_H
#define CT_AGENT_AGENT_DETAIL_H

#include "abi/shm_abi.h"
#include "hook/runtime.h"

/* Opens the lane in the shared memory, which says whether detail is captured at all. */
void ct_agent_detail_open(uint64_t shm);
/* The part of it that marks need; called by the former. */
void ct_agent_marks_open(uint64_t shm);
/* A new thread gets the block. */
void ct_agent_detail_begin(struct ct_block *b);

/* Its thread pointer has changed. */
void ct_agent_detail_moved(struct ct_block *b);

/* Room for a record of `size` bytes, or 0 when there is none. */
uint64_t ct_agent_detail_room(struct ct_block *b, uint64_t size);
/* Called by stubs: room for the record of the event that was just recorded, or 0 when there is none. */
uint64_t ct_agent_detail_reserve(uint64_t size);
/* Called by stubs when triggers wait for the function; `value` is the return value. Of a call, `slot` and `frame` lead
 * to its arguments (hook/frame.h). */
void ct_agent_detail_mark(const struct ct_detail_note *note, uint64_t value, uint64_t slot,
                          struct ct_special_frame *frame);
/* The same for a function that guests listen to (ct_runtime.mark). */
void ct_agent_detail_mark_listened(struct ct_block *b, const struct ct_detail_note *note,
                                   const struct ct_cpu_context *cpu);

#endif
