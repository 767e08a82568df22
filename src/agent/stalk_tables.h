/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of call targets and blocks, shared with the controller (stalk_tables.c). */
#ifndef CT_AGENT_STALK_TABLES_H
#define CT_AGENT_STALK_TABLES_H

#include "abi/stalk_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CT_TABLES_NOWHERE UINT32_MAX
#define CT_TABLES_TARGETS 4096u /* targets that a follower finds at once; a few hundred are often called by turns */
#define CT_TABLES_GROUP   32u   /* targets of which some have been counted, or none */
#define CT_TABLES_BLOCKS  2048u /* blocks that a follower finds at once */
#define CT_TABLES_GONE    4095u /* times that code was unmapped */

struct ct_tables_target {
    uint64_t key;
    uint32_t number, count;
};

struct ct_tables_block {
    uint64_t start, end, count;
};

/* Targets and blocks that a follower has counted and not yet added to the tables. All zero at first. */
struct ct_tables_known {
    uint32_t epoch;                                       /* gone_count when the entries were made */
    uint8_t counted[CT_TABLES_TARGETS / CT_TABLES_GROUP]; /* groups that have counts: few have, after each batch */
    struct ct_tables_target targets[CT_TABLES_TARGETS];   /* by a hash of their address */
    struct ct_tables_block blocks[CT_TABLES_BLOCKS];
};

/* Where code was unmapped. */
struct ct_tables_gone {
    uint64_t start, end;
    bool fresh; /* nobody has looked there since */
};

struct ct_tables {
    struct ct_stalk_tables *shared;
    struct ct_stalk_target *targets;
    struct ct_stalk_place *blocks;
    struct ct_tables_gone gone[CT_TABLES_GONE];
    uint32_t gone_count, gone_lock;
};
extern struct ct_tables ct_tables;

/* Where a call ends up: after the jump of a linkage table, if it is bound already; 0: not yet. */
uint64_t ct_tables_function_at(uint64_t key);
/* Code that was loaded after we came: the controller looks at it while it is still there. */
void ct_tables_introduce(uint64_t address);
/* The number of a call's target, CT_TABLES_NOWHERE when there is no room. It means one function for ever: calls of a
 * linkage table's stub that is not bound yet have another number. *bound: the number is final. */
uint32_t ct_tables_number_of(uint64_t to, bool *bound);
/* Where a target's number is, if its key is there. */
static inline struct ct_tables_target *ct_tables_place(struct ct_tables_known *k, uint64_t key) {
    return &k->targets[key * 0x9e3779b97f4a7c15ull / (UINT64_MAX / CT_TABLES_TARGETS + 1)];
}
static inline void ct_tables_count(struct ct_tables_known *k, struct ct_tables_target *c, uint32_t calls) {
    c->count += calls;
    k->counted[(size_t)(c - k->targets) / CT_TABLES_GROUP] = 1;
}
/* The number for a call, which is counted. */
uint32_t ct_tables_number_for(struct ct_tables_known *k, uint64_t key);
void ct_tables_count_target(uint64_t to, uint64_t count);
void ct_tables_count_block(struct ct_tables_known *k, uint64_t start, uint64_t end);
/* Adds the counts to the tables; blocks only when asked. */
void ct_tables_flush(struct ct_tables_known *k, bool blocks);
void ct_tables_forget(struct ct_tables_known *k);
/* Forgets what was unmapped since. Called between batches, when nothing is counted there. */
void ct_tables_forget_old(struct ct_tables_known *k);
/* Names are looked up again for what is loaded there next. */
void ct_tables_unmapped(uint64_t start, uint64_t end);

#endif
