/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that compress blocks for the writers of this process, on cores that would be idle.
 *
 * A worker turns a full packer into the bytes of its block, and does nothing else: files, their order and their errors
 * stay with the writer's owner. The owner never depends on a worker: what waits in the queue when it is needed, the
 * owner does itself. So without workers, or without free cores, everything works as if there was no pool. Memory is
 * bounded by the number of packers that are in the queue or at work. Any thread. */
#ifndef CT_TRACE_PACK_POOL_H
#define CT_TRACE_PACK_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct ct_pack;

/* How many workers this machine can spare: none if it has fewer than four cores for us. */
unsigned ct_pack_pool_spare(void);
/* Users are counted: the first one starts the workers, as many as it can, and the last one ends them. */
void ct_pack_pool_open(unsigned workers);
void ct_pack_pool_close(void);

/* Hands a full packer over. False: no worker takes it, the owner goes on. Else call ct_pack_pool_wait before anything
 * else is done with it. */
bool ct_pack_pool_give(struct ct_pack *pack, uint64_t first_seq);
/* Is there nothing to wait for? */
bool ct_pack_pool_is_done(const struct ct_pack *pack);
/* Returns when the block is complete. */
void ct_pack_pool_wait(struct ct_pack *pack);

/* For tests: each block takes this much longer. Atomic. */
extern unsigned ct_pack_delay_us;

#endif
