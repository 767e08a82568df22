/* SPDX-License-Identifier: Apache-2.0 */
/* What an event carries on its way from a target to the controller, besides contrail/event.h: the number in its tag,
 * the kinds that no user sees, its detail record. Plain numbers, so that the assembler can read them too. */
#ifndef CT_ABI_EVENT_H
#define CT_ABI_EVENT_H

#define CT_EVENT_SIZE 16

/* Only the low bits of an event's kind are its kind. The rest is the event's number in its thread if it has a detail
 * record, else 0. (Numbers wrap around, so one event in 2^28 has number 0 by chance; it counts as one without a
 * record.) */
#define CT_TAG_KIND 15
#define CT_TAG_STEP 16

/* Kinds besides those of enum ct_event_kind.
 * A slot that was reserved and then abandoned, because a handler jumped out of the stub: */
#define CT_EVENT_VOID 0
/* The events after this one are on another stack; `hook` is its number. A thread begins with stack 0. */
#define CT_EVENT_STACK 5
/* Events of the agent that follows threads: their hook is an index into its table of code (abi/stalk_abi.h), UINT32_MAX
 * when the table was full. A part has its number of instructions where others have the number of their detail record.
 * Kinds from BLOCK on are about code. */
#define CT_EVENT_BLOCK    8
#define CT_EVENT_PART     9
#define CT_EVENT_COMPILED 10

/* A detail record with more values of the event that has the same number: struct ct_shm_values of abi/shm_abi.h. */
#define CT_EVENT_VALUES 6

/* Registers and stack of an event: offsets in struct ct_shm_detail of abi/shm_abi.h, which asserts them. */
#define CT_DETAIL_STAMP       8
#define CT_DETAIL_TAG         16
#define CT_DETAIL_REGISTERS   24
#define CT_DETAIL_FP          88
#define CT_DETAIL_SP          96
#define CT_DETAIL_STACK_SIZE  104
#define CT_DETAIL_STACK       112
#define CT_DETAIL_ERRNO       64
#define CT_DETAIL_RETURN_SIZE 72
/* When a call was entered, in one word: the low bits of its time stamp, of which the lowest says that it has a detail
 * record, and errno. Numbers that do not fit are the highest one. */
#define CT_ENTERED_BITS  52
#define CT_ENTERED_ERRNO 0xfff
#define CT_ERRNO_UNKNOWN 0xffffffff
#define CT_DETAIL_MIX    -1640531535 /* keeps neighbouring words from looking like a record by chance */

#ifndef __ASSEMBLER__
#include <contrail/event.h>

_Static_assert(sizeof(struct ct_event) == CT_EVENT_SIZE, "the stubs write events");
#endif

#endif
