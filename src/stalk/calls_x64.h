/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of system calls, and the copy of the instruction (lower_x64.c), x86_64. For syscall.c. */
#ifndef CT_STALK_CALLS_X64_H
#define CT_STALK_CALLS_X64_H

#include "stalk/thread.h"

enum { CALL_NUMBER = 0, CALL_RESULT = 0, ARG0 = 7, ARG1 = 6, ARG2 = 2, ARG3 = 10, ARG4 = 8, ARG5 = 9, CALL_SP = 4 };
enum { CALL_SIZE = 2, CALL_AFTER = 2 }; /* bytes of the instruction; where its copy continues */

/* The copy is `syscall; mov rcx, next`. */
static inline uint64_t next_of(const struct stalk_thread *t) {
    return *(const uint64_t *)(t->area->target + 4);
}

/* What the instruction itself changes; `next`: 0 if the copy continues, which sets rcx. */
static inline void set_clobbered(struct stalk_area *a, uint64_t next) {
    enum { RCX = 1, R11 = 11 };
    a->gpr[R11] = a->flags;
    if (next)
        a->gpr[RCX] = next;
}

/* A child that shares our memory is about to get a thread pointer: GS is inherited. */
static inline void give_block(const struct stalk_thread *t, uint64_t thread_pointer, bool followed) {
    (void)t, (void)thread_pointer, (void)followed;
}

#endif
