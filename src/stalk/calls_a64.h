/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of system calls, and the copy of the instruction (lower_a64.c), arm64. See calls_x64.h. */
#ifndef CT_STALK_CALLS_A64_H
#define CT_STALK_CALLS_A64_H

#include "os/os.h"
#include "stalk/memory.h"
#include "stalk/thread.h"

enum { CALL_NUMBER = 8, CALL_RESULT = 0, ARG0 = 0, ARG1, ARG2, ARG3, ARG4, ARG5, CALL_SP = STALK_SP };
enum { CALL_SIZE = 4, CALL_AFTER = 20 };

/* The copy is `svc; b over; .quad next; ldr x17, ...; over:`. */
static inline uint64_t next_of(const struct stalk_thread *t) {
    uint64_t next;
    ct_stalk_copy(&next, (const void *)(t->area->target + 8), sizeof next);
    return next;
}

static inline void set_clobbered(struct stalk_area *a, uint64_t next) {
    (void)a, (void)next;
}

/* The word beside the new thread pointer may be that of a thread that has ended. A child that is to be followed finds
 * its creator there. */
static inline void give_block(const struct stalk_thread *t, uint64_t thread_pointer, bool followed) {
    uint64_t place = thread_pointer + 8, word = followed ? (uint64_t)t->area - CT_AREA : 0, now;
    if (thread_pointer && !ct_os_peek(place, &now, sizeof now) && now != word)
        *(uint64_t *)place = word;
}

#endif
