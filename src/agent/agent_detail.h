/* The detail lane: where stubs put registers and stack of calls (abi/shm_abi.h). */
#ifndef CT_AGENT_AGENT_DETAIL_H
#define CT_AGENT_AGENT_DETAIL_H

#include "abi/shm_abi.h"
#include "hook/runtime.h"

/* The shared memory is there; whether detail is captured at all stands in it. */
void ct_agent_detail_open(uint64_t shm);
/* A thread takes the block. */
void ct_agent_detail_begin(struct ct_block *b);

/* Called by stubs: room for a record of `size` bytes, 0 when there is none. */
uint64_t ct_agent_detail_reserve(uint64_t size);
/* Called by stubs when triggers wait for the function; `value` is what it returns. */
void ct_agent_detail_mark(const struct ct_detail_note *note, uint64_t value);

#endif
