/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a thread, as its calls and returns reveal them (stacks.c). */
#ifndef CT_STALK_STACKS_H
#define CT_STALK_STACKS_H

#include "stalk/chains.h"
#include <stdbool.h>
#include <stdint.h>

struct stalk_thread;

/* One stack; see stacks.c. */
struct stalk_stack {
    uint64_t high; /* must be first (hook/stack_order.h): the outermost slot seen */
    int32_t depth; /* when it was suspended */
    uint32_t next; /* in the list of free ones */
    bool listed;
};
struct stalk_stacks {
    uint32_t running, home;
    uint64_t home_low, home_size; /* the thread's own stack */
    uint32_t count, used, free;
    struct stalk_stack pool[STALK_STACKS];
    uint32_t order[STALK_STACKS]; /* stacks other than the thread's own, sorted by `high` */
    struct stalk_chains chains;
};
/* The newest frames of the running stack; `base_depth` is the depth of the first. */
struct stalk_run {
    uint64_t *frames;
    uint32_t count;
    int32_t base_depth;
};
enum stalk_change { STALK_SAME_STACK, STALK_OTHER_STACK, STALK_NEW_STACK };

/* Finds the stack of a call or return whose slot is neither just below the innermost frame nor that frame's, and
 * switches to it. *id: the new stack, if it is another one than before. */
enum stalk_change ct_stalk_stacks_run(struct stalk_thread *t, struct stalk_run *run, uint64_t slot, uint32_t *id);
/* The running stack's newest frames have ended: brings back frames that were suspended with it. */
void ct_stalk_stacks_refill(struct stalk_thread *t, struct stalk_run *run);

#endif
