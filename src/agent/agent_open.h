/* SPDX-License-Identifier: Apache-2.0 */
/* Records of open calls, which outlast the thread's window.
 *
 * A call may be open for much longer than the window of its thread reaches back: main, a request, a function that
 * hangs. Before a thread overwrites a chunk, it copies the records of calls that are still open out of it, to the slots
 * of its OPEN segment (abi/shm_abi.h): the outermost call to the first slot, and so on. Open calls are in the order of
 * their times, so one comparison says that a chunk holds none, which is the usual case. Owner: the thread. */
#ifndef CT_AGENT_AGENT_OPEN_H
#define CT_AGENT_AGENT_OPEN_H

#include "abi/shm_abi.h"
#include "hook/runtime.h"
#include <stdbool.h>

/* A chunk that is about to be overwritten. */
struct ct_agent_old_chunk {
    uint64_t start; /* address */
    uint64_t until; /* its records are not newer than this counter value */
    bool exact;     /* `until` is known: a record that is older and not there does not exist */
};

/* Does a call that is open, and has no slot yet, have its record in the chunk? */
bool ct_agent_open_has(const struct ct_block *b, const struct ct_agent_old_chunk *chunk);
/* Copies the records of such calls. `slots`: the first chunk of the OPEN segment, which has `chunks`. */
void ct_agent_open_carry(struct ct_block *b, const struct ct_agent_old_chunk *chunk, uint64_t slots, uint32_t chunks);
/* Is this the record of the call whose frame has this word (when it was entered)? */
bool ct_agent_open_is_of(const struct ct_shm_detail *record, uint64_t word);
/* Copies a record to a place that the controller may be reading. */
void ct_agent_open_copy(struct ct_shm_detail *to, const struct ct_shm_detail *from, uint64_t size);
/* Forgets slots of calls that have returned. */
void ct_agent_open_trim(struct ct_block *b, uint64_t slots);

#endif
