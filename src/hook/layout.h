/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets that generated code, assembly and C share: the thread block and shadow entries (stubs: stub_<isa>.h). Plain
 * numbers, so that the assembler can read them too; runtime.h asserts that they match the structures. */
#ifndef CT_HOOK_LAYOUT_H
#define CT_HOOK_LAYOUT_H

#include "abi/event.h"
#include "isa/host.h"
#include CT_HOST_HEADER(layout)

/* Thread block, found through GS, or through the table (agent/table.c). The first page is wiped in a forked child, the
 * second is kept. The offsets differ in their low 12 bits: otherwise loads from one page would wait for stores to the
 * other. */
#define CT_BLOCK_OWNER         0x040 /* thread pointer (fs:0) of the owner; CT_OWNER_* when something needs attention */
#define CT_BLOCK_CURSOR        0x048 /* next event slot */
#define CT_BLOCK_DETAIL_CURSOR 0x050 /* next detail record */
#define CT_BLOCK_ORDINAL       0x058 /* tag of the thread's next event, without its kind (32 bits) */
#define CT_BLOCK_WALKER        0x060 /* as OWNER, while an unwinder walks and nothing else needs attention; else 0 */
#define CT_BLOCK_KEPT          0x1000
#define CT_BLOCK_TOP           0x1100 /* first free shadow entry */
#define CT_BLOCK_LIMIT         0x1108 /* end of the shadow stack */
#define CT_BLOCK_SELF          0x1110
#define CT_BLOCK_FN_ENTER      0x1118
#define CT_BLOCK_FN_ENTRY      0x1120
#define CT_BLOCK_FN_LEAVE      0x1128
#define CT_BLOCK_FN_EVENT      0x1130
#define CT_BLOCK_FLOOR         0x1138 /* a frame with a lower slot may be on another stack than the innermost frame */
#define CT_BLOCK_FN_ON_CALL    0x1140
#define CT_BLOCK_FN_ON_RETURN  0x1148
#define CT_BLOCK_VECTORS_SIZE  0x1150
#define CT_BLOCK_VECTORS_PARTS 0x1158
#define CT_BLOCK_EVENT_BIT     0x1160 /* the one bit that addresses of valid event slots have set */
#define CT_BLOCK_NEXT          0x1170 /* scripts/gdb/contrail.py reads these two, TOP and the shadow entries */
#define CT_BLOCK_BASE          0x1178
#define CT_BLOCK_FN_DETAIL     0x1180
#define CT_BLOCK_FN_MARK       0x1188
#define CT_BLOCK_RULES         0x1190 /* by hook: 32 bits (abi/shm_abi.h); 0: no detail of this thread */
#define CT_BLOCK_BUDGETS       0x1198 /* by hook: 32 bits, how many calls may still be captured; 0: no limit */
#define CT_BLOCK_CALL_SIZE     0x11a0 /* of a detail record of a call */
#define CT_BLOCK_RETURN_SIZE   0x11a8
#define CT_BLOCK_DETAIL_BIT    0x11b0 /* as EVENT_BIT */
#define CT_BLOCK_STACK_BYTES   0x11b8 /* how much of the stack is captured: at least 8 */
#define CT_BLOCK_STACK_LOW     0x11c0 /* a range that is mapped from any place in it to its end; empty: none known */
#define CT_BLOCK_STACK_HIGH    0x11c8
#define CT_BLOCK_DETAIL_KEY    0x11d0
#define CT_BLOCK_VECTOR_BYTES  0x11d8 /* 0: vector registers are not captured */
#define CT_BLOCK_COUNTERS      0x11e0 /* pointer to struct ct_counters */
#define CT_BLOCK_FN_SPECIAL    0x11e8
#define CT_BLOCK_EXPOSED_SLOT  0x11f0 /* of that unwinder's outermost function */
#define CT_BLOCK_WALK_REACH    0x11f8 /* how far below it frames are certainly on the same stack */
#define CT_BLOCK_POINTER       0x1218 /* the thread pointer; CT_OWNER_ATTENTION: nobody's */
#define CT_BLOCK_FIRST         0x1220 /* TOP when no call is open; 0: the main thread's, which nobody else gets */
#define CT_BLOCK_ERRNO         0x1438 /* where the thread's errno is; always readable */
#define CT_BLOCK_TICK_AT       0x1450 /* always readable */
#define CT_BLOCK_READING       0x1458 /* of the counter: the last one, less what its slot would add */
#define CT_BLOCK_BARE          0x1468 /* slots of entries below this one hold no stub's address (exposed.c); 0: none */
#define CT_BLOCK_FN_COVER      0x1470
#define CT_BLOCK_COUNTS        0x1478 /* by hook: struct ct_shm_count (abi/shm_abi.h); 0: calls are not sampled */
#define CT_BLOCK_SAMPLE        0x1480 /* every how many calls */
#define CT_BLOCK_FN_SAMPLE     0x1488
#define CT_BLOCK_COUNTS_ALONE  0x1490 /* no other thread writes to these counts; 0: perhaps one does */
/* The highest place of a return address from which on CT_STACK_PLAIN bytes of stack are mapped. 0: not known, or
 * another size is captured, or vector registers too. */
#define CT_BLOCK_STACK_PLAIN 0x1498
#define CT_STACK_PLAIN       128
#define CT_COUNT_SHIFT       4 /* the size of a count is this power of two */
#define CT_COUNTERS_LIMITED  32
/* The fast clock: slots whose address has none of these bits read the counter. The others add these bits, shifted
 * (CT_CLOCK_SHIFT of stub_<isa>.h), to an earlier reading. */
#define CT_CLOCK_TURN 0xf0

/* The table of a recorded process: offsets of blocks from the stray block, by the highest bits of thread pointer *
 * MIX. */
#define CT_TABLE_MIX      0x9e3779b97f4a7c15
#define CT_TABLE_BITS     15
#define CT_TABLE_SHIFT    (61 - CT_TABLE_BITS) /* with the low three bits cleared: the entry's offset */
#define CT_TABLE_LITERALS 16 /* the last bytes of the shared code: address of the table; the stray block */

/* Shadow stack entry. */
#define CT_SHADOW_SLOT      0  /* address of the return address on the stack, or CT_SLOT_* */
#define CT_SHADOW_RETURN    8  /* the real return address */
#define CT_SHADOW_STUB      16 /* the stub's address + CT_STUB_AFTER_ENTER */
#define CT_SHADOW_DATA      24 /* the listener's own; for recorded frames the event that is being written */
#define CT_SHADOW_SIZE      32
#define CT_SHADOW_ENTERING  -7 /* added to the slot's address while a stub works on the entry, see runtime.h */
#define CT_SHADOW_RETURNING -6

/* struct ct_detail_note: on the stack while a stub works. */
#define CT_NOTE_STAMP   0
#define CT_NOTE_TAG     8
#define CT_NOTE_HOOK    12
#define CT_NOTE_ENTERED 16
#define CT_NOTE_SIZE    24
#define CT_DETAIL_RED   40 /* below the note */
/* About how much stack slow paths need at most. */
#define CT_SLOW_RED 640

/* The number in a shadow entry that belongs to no hook (fault.h). */
#define CT_HOOK_NONE 0x90909090

#endif
