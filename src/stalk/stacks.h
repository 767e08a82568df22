/* Stacks of a thread, as its calls and returns show them (stacks.c). */
#ifndef CT_STALK_STACKS_H
#define CT_STALK_STACKS_H

#include "stalk/chains.h"
#include <stdbool.h>
#include <stdint.h>

struct stalk_thread;

/* See stacks.c. */
struct stalk_stack {
    uint64_t high; /* first (hook/stack_order.h): its outermost slot that was seen */
    int32_t depth; /* when it was suspended */
    uint32_t next; /* in the list of free ones */
    bool listed;
};
struct stalk_stacks {
    uint32_t running, home;
    uint64_t home_low, home_size; /* the thread's own stack */
    uint32_t count, used, free;
    struct stalk_stack pool[STALK_STACKS];
    uint32_t order[STALK_STACKS]; /* stacks other than the thread's own, by `high` */
    struct stalk_chains chains;
};
/* The running stack's newest frames; `base_depth` is the depth of the first. */
struct stalk_run {
    uint64_t *frames;
    uint32_t count;
    int32_t base_depth;
};
enum stalk_change { STALK_SAME_STACK, STALK_OTHER_STACK, STALK_NEW_STACK };

/* The stack of a call or return whose slot is not just below the innermost frame, or that frame's. *id: of another
 * stack than before. */
enum stalk_change ct_stalk_stacks_run(struct stalk_thread *t, struct stalk_run *run, uint64_t slot, uint32_t *id);
/* Frames that were suspended with the running stack come back when its newer ones have ended. */
void ct_stalk_stacks_refill(struct stalk_thread *t, struct stalk_run *run);

#endif
