/* SPDX-License-Identifier: Apache-2.0 */
/* Records that translated code writes, and the events that they become. */
#ifndef CT_STALK_EVENTS_H
#define CT_STALK_EVENTS_H

#include "stalk/layout.h"
#include <contrail/stalker.h>
#include <stdbool.h>
#include <stdint.h>

struct stalk_alternate;
struct stalk_thread;

/* An event for the agent only: the calls and returns that follow are on another stack. `target` is the number of that
 * stack, from 0 on; numbers are reused. `location` is 1 for a new stack: what was open on an older stack with this
 * number was left. */
#define STALK_STACK_EVENT 0x20u

/* Bytes of a record: the number of the site; for calls and returns also the stack pointer, a target and perhaps the
 * time. */
static inline unsigned ct_stalk_record_size(uint32_t mask) {
    if (!(mask & (CT_STALKER_CALL | CT_STALKER_RET)))
        return 8;
    return mask & CT_STALKER_TIMESTAMPS ? 32 : CT_RECORD_SIZE;
}

/* Offset of the site's number in a record of that size. */
static inline unsigned ct_stalk_site_offset(unsigned record_size) {
    return record_size == 8 ? 0 : CT_RECORD_SITE;
}

int ct_stalk_events_open(struct stalk_thread *t);
/* Frees the memory of the thread's events. */
void ct_stalk_events_free(struct stalk_thread *t);
/* Expands the records into the queue. Delivers the queue if it is full, or if `deliver`. */
void ct_stalk_events_drain(struct stalk_thread *t, bool deliver);
/* The thread was interrupted at pc, in the middle of a block: the block's record is cut to what was executed.
 * `reached`: the instruction at pc was tried. */
void ct_stalk_events_cut(struct stalk_thread *t, uint64_t pc, bool reached);
/* The process is about to end or to execute another program: the calling thread `by` takes what the others have
 * recorded so far. They keep running. `counts`: also their call counts, which is right only if the process really
 * ends. */
void ct_stalk_events_drain_others(struct stalk_thread *by, bool counts);
/* The thread changes to the cache that replaces its own. What it has recorded is expanded first. */
void ct_stalk_events_change_over(struct stalk_thread *t);
/* Drains the events of a thread that runs natively. */
void ct_stalk_events_drain_native(struct stalk_thread *t);
/* Delivers what a thread has recorded that another process has stopped, at any place. CT_ERR_BUSY: it is in the middle
 * of delivering, and must go on first. */
int ct_stalk_events_drain_stopped(struct stalk_thread *t);
/* Drops what the child of a vfork has recorded in place of its parent. */
void ct_stalk_events_forget(struct stalk_thread *t);
void ct_stalk_event_compile(struct stalk_thread *t, uint64_t start, uint64_t end);
/* A handler is about to run: this is a call, made at pc. `slot`: where its return address is. `switched`: set if the
 * slot is on the alternate stack and pc's frame was not. */
void ct_stalk_event_handler(struct stalk_thread *t, uint64_t pc, uint64_t handler, uint64_t slot,
                            const struct stalk_alternate *switched);

#endif
