/* What an event has on its way from a target to the controller, besides contrail/event.h: the number in its tag,
 * the kinds that no user sees, the record of its detail. Plain numbers, so that the assembler reads them too. */
#ifndef CT_ABI_EVENT_H
#define CT_ABI_EVENT_H

#define CT_EVENT_SIZE 16

/* Of an event's kind only the low bits are its kind. The rest is its number in its thread if it has a detail record,
 * else 0. (Numbers wrap around, so one event in 2^28 has a number 0 by chance; it counts as one without a record.) */
#define CT_TAG_KIND 15
#define CT_TAG_STEP 16

/* Kinds besides those of enum ct_event_kind.
 * A slot that was reserved and then given up, because a handler jumped out of the stub: */
#define CT_EVENT_VOID 0
/* The events that follow are of another stack; `hook` is its number. A thread begins with stack 0. */
#define CT_EVENT_STACK 5
/* Of the agent that follows threads: their hook is a number of its table of code (abi/stalk_abi.h), UINT32_MAX when
 * that was full. A part has the number of instructions where others have that of their detail. Kinds from BLOCK on are
 * of code. */
#define CT_EVENT_BLOCK    8
#define CT_EVENT_PART     9
#define CT_EVENT_COMPILED 10

/* Registers and stack of an event: offsets in struct ct_shm_detail of abi/shm_abi.h, which asserts them. */
#define CT_DETAIL_STAMP       8
#define CT_DETAIL_TAG         16
#define CT_DETAIL_REGISTERS   24
#define CT_DETAIL_FP          88
#define CT_DETAIL_SP          96
#define CT_DETAIL_STACK_SIZE  104
#define CT_DETAIL_STACK       112
#define CT_DETAIL_RETURN_SIZE 64
#define CT_DETAIL_MIX         -1640531535 /* so that neighbouring words do not look like a record by chance */

#ifndef __ASSEMBLER__
#include <contrail/event.h>

_Static_assert(sizeof(struct ct_event) == CT_EVENT_SIZE, "the stubs write events");
#endif

#endif
