/* Records that translated code writes, and the events that they become. */
#ifndef CT_STALK_EVENTS_H
#define CT_STALK_EVENTS_H

#include "stalk/layout.h"
#include <contrail/stalker.h>
#include <stdbool.h>
#include <stdint.h>

struct stalk_alternate;
struct stalk_thread;

/* An event for the agent alone: calls and returns that follow are on another stack. `target` is its number, from 0 on;
 * they are used again. `location` is 1 when it is a new one: what was open on another that had the number was left. */
#define STALK_STACK_EVENT 0x20u

/* Bytes of a record: number of the site; for calls and returns the stack pointer, a target and perhaps the time too. */
static inline unsigned ct_stalk_record_size(uint32_t mask) {
    if (!(mask & (CT_STALKER_CALL | CT_STALKER_RET)))
        return 8;
    return mask & CT_STALKER_TIMESTAMPS ? 32 : CT_RECORD_SIZE;
}

/* Where the site's number is in a record of that size. */
static inline unsigned ct_stalk_site_offset(unsigned record_size) {
    return record_size == 8 ? 0 : CT_RECORD_SITE;
}

int ct_stalk_events_open(struct stalk_thread *t);
/* Frees what events needed. */
void ct_stalk_events_free(struct stalk_thread *t);
/* Expands the records into the queue, and delivers it when it is time or `deliver`. */
void ct_stalk_events_drain(struct stalk_thread *t, bool deliver);
/* The thread was interrupted at pc, in the middle of a block: what the block's record says too much is taken back.
 * `reached`: the instruction at pc was tried. */
void ct_stalk_events_cut(struct stalk_thread *t, uint64_t pc, bool reached);
/* The process is about to end, or to become another: the calling thread `by` takes what the others have recorded so
 * far. They run on. `counts`: of calls too, which is only right if it ends indeed. */
void ct_stalk_events_drain_others(struct stalk_thread *by, bool counts);
/* The thread goes on in the cache that has taken the place of its own: what it has recorded is expanded first. */
void ct_stalk_events_change_over(struct stalk_thread *t);
/* Of a thread that runs natively. */
void ct_stalk_events_drain_native(struct stalk_thread *t);
/* What a vfork's child has recorded in its parent's stead is forgotten. */
void ct_stalk_events_forget(struct stalk_thread *t);
void ct_stalk_event_compile(struct stalk_thread *t, uint64_t start, uint64_t end);
/* A handler is about to run, in place of what is at pc: a call. `slot`: where its return address lies; `switched`:
 * that is on the alternate stack, and pc's was not. */
void ct_stalk_event_handler(struct stalk_thread *t, uint64_t pc, uint64_t handler, uint64_t slot,
                            const struct stalk_alternate *switched);

#endif
