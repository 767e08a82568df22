/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of the index lane in one process: the shared memory as the controller makes it, mapped a second time as
 * the agent sees it, threads' blocks without hooks, and a drain that writes to a directory of its own. */
#ifndef LANE_UTIL_H
#define LANE_UTIL_H

#include "abi/atf.h"
#include "agent/agent_lane.h"
#include "drain/drain.h"
#include "drain/lane.h"
#include "hook/runtime.h"

#define MAX_HOOKS (4u << 20) /* hook numbers count events in most tests */

struct lane_fixture {
    struct ct_lane lane;
    uint8_t *view; /* the agent's mapping, as reserved */
    size_t view_size;
    struct ct_runtime runtime;
    struct ct_clock clock;
    struct ct_drain drain;
    uint64_t *function_ids; /* hook number + 1 */
    char directory[64];
    unsigned seconds; /* how often the drain said that a second is over */
};

/* `chunks`: how many of the pool are to be used, 0 all. */
void lane_start(struct lane_fixture *f, size_t memory, bool lossless, uint32_t chunks);
void lane_start_with(struct lane_fixture *f, const struct ct_lane_options *options, uint32_t chunks);
void lane_end(struct lane_fixture *f);
/* A thread's block; the calling thread may have several. It ends like this: */
struct ct_block *lane_thread(struct lane_fixture *f);
void lane_thread_ends(struct ct_block *b);

void lane_prepare_drain(struct lane_fixture *f); /* without its thread */
void lane_start_drain(struct lane_fixture *f);
int lane_finish_drain(struct lane_fixture *f);

/* A finished trace's events, thread by thread (numbered from 1). Free them. NULL: there is no such file. */
struct atf_index_event *lane_read(struct lane_fixture *f, uint32_t id, size_t *count);
struct ct_drain_thread *lane_drained_thread(struct lane_fixture *f, uint32_t id);

/* How many chunks are in this state. */
uint32_t lane_chunks_in(const struct lane_fixture *f, enum ct_chunk_state state);
/* All losses that the drain knows of. */
uint64_t lane_lost(const struct lane_fixture *f);

static inline uint32_t lane_capacity(const struct lane_fixture *f) {
    return ct_lane_capacity(&f->lane);
}

/* Where the active chunk of a block ends: the slots that are left in it. */
uint32_t lane_room(const struct lane_fixture *f, const struct ct_block *b);

#endif
