/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a thread's block that translated code and the engine share. It is reached through GS, on arm64
 * through x18. */
#ifndef CT_STALK_AREA_H
#define CT_STALK_AREA_H

#include "isa/host.h"
#include "stalk/layout.h"
#include <stdint.h>
#include CT_HOST_HEADER(machine)

struct stalk_thread;

struct stalk_area {
    uint64_t gpr[STALK_REGISTERS];
    uint64_t flags, resume, reason, target;
    struct stalk_thread *thread;
    uint64_t stack, fn_engine;
    uint32_t in_engine, alternate;
    uint64_t events;
    uint64_t pending, mask;
    uint64_t *counters;
    uint64_t native;
    uint64_t spill;
    uint32_t tid, busy;
    uint64_t own;
};
#define STALK_ASSERT_AT(field, offset)                                                                                 \
    _Static_assert(__builtin_offsetof(struct stalk_area, field) + CT_AREA == (offset), #field)
STALK_ASSERT_AT(flags, CT_AREA_FLAGS);
STALK_ASSERT_AT(resume, CT_AREA_RESUME);
STALK_ASSERT_AT(reason, CT_AREA_REASON);
STALK_ASSERT_AT(target, CT_AREA_TARGET);
STALK_ASSERT_AT(thread, CT_AREA_THREAD);
STALK_ASSERT_AT(stack, CT_AREA_STACK);
STALK_ASSERT_AT(fn_engine, CT_AREA_FN_ENGINE);
STALK_ASSERT_AT(in_engine, CT_AREA_IN_ENGINE);
STALK_ASSERT_AT(alternate, CT_AREA_ALTERNATE);
STALK_ASSERT_AT(events, CT_AREA_EVENTS);
STALK_ASSERT_AT(pending, CT_AREA_PENDING);
STALK_ASSERT_AT(mask, CT_AREA_MASK);
STALK_ASSERT_AT(counters, CT_AREA_COUNTERS);
STALK_ASSERT_AT(native, CT_AREA_NATIVE);
STALK_ASSERT_AT(spill, CT_AREA_SPILL);
STALK_ASSERT_AT(tid, CT_AREA_TID);
STALK_ASSERT_AT(busy, CT_AREA_BUSY);
STALK_ASSERT_AT(own, CT_AREA_OWN);
_Static_assert(sizeof(struct stalk_area) <= CT_AREA_SIZE, "the area does not fit in the block");

#endif
