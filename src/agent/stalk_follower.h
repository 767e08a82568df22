/* SPDX-License-Identifier: Apache-2.0 */
/* A followed thread, as the lane sees it: its open calls, and what is written of them (stalk_follower.c). */
#ifndef CT_AGENT_STALK_FOLLOWER_H
#define CT_AGENT_STALK_FOLLOWER_H

#include "agent/stalk_tables.h"
#include "hook/runtime.h"
#include "stalk/records.h"

#define CT_FOLLOWER_MAX_OPEN (1u << 18)

struct ct_follower_frame {
    uint32_t number;
    int32_t depth;
};

struct ct_follower {
    struct ct_block block; /* only what the lane needs */
    int32_t tid;
    uint32_t open;
    uint64_t stamp; /* of the last call, or of the batch */
    struct ct_tables_known known;
    uint32_t stack;                                            /* number of the running one */
    struct stalk_chains *chains;                               /* frames of other stacks; NULL: there were none */
    struct ct_follower_frame frames[CT_FOLLOWER_MAX_OPEN + 1]; /* the last one has no meaning */
};

/* A call whose return nobody could see: it ran natively, or returns are not asked for (stalk_agent.c). */
bool ct_follower_is_unseen(uint32_t number);

void ct_follower_write(struct ct_follower *f, uint32_t number, uint32_t kind, uint64_t stamp);
/* Writes a call, a return, or a change of stack. */
void ct_follower_receive(struct ct_follower *f, const struct ct_stalker_event *e);
/* Writes all calls and returns of these records, and adds them to the counts. */
void ct_follower_take(struct ct_follower *f, struct stalk_branches *b, uint64_t *calls, uint64_t *returns);
/* Forgets the frames of all stacks but the running one. */
void ct_follower_forget_stacks(struct ct_follower *f);

#endif
