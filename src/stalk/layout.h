/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets that translated code, assembly and C share. They are plain numbers, so that the assembler can read them;
 * area.h asserts that they match the structure.
 *
 * The thread area is in the thread's block (hook/layout.h), whether hooks or the Stalker made that block. Translated
 * code reaches it through GS, on arm64 through x18. Registers are saved in hardware numbering, so a register is at
 * CT_AREA + 8 * its number. */
#ifndef CT_STALK_LAYOUT_H
#define CT_STALK_LAYOUT_H

#include "isa/host.h"
#include CT_HOST_HEADER(layout)

#define CT_AREA_FLAGS (CT_AREA_REST + 0x00)
#define CT_AREA_RESUME                                                                                                 \
    (CT_AREA_REST + 0x08) /* where the thread continues after the engine: translated or original code */
/* The same place: flags before an indirect branch, as lahf and seto give them (x86_64). */
#define CT_AREA_BRANCHED  CT_AREA_RESUME
#define CT_AREA_REASON    (CT_AREA_REST + 0x10) /* why the engine is entered: CT_REASON_* | index */
#define CT_AREA_TARGET    (CT_AREA_REST + 0x18) /* indirect branches: their target; otherwise the code to return to */
#define CT_AREA_THREAD    (CT_AREA_REST + 0x20) /* struct stalk_thread */
#define CT_AREA_STACK     (CT_AREA_REST + 0x28) /* top of the engine's stack */
#define CT_AREA_FN_ENGINE (CT_AREA_REST + 0x30)
#define CT_AREA_IN_ENGINE (CT_AREA_REST + 0x38) /* 4 bytes: signals are put off */
#define CT_AREA_ALTERNATE                                                                                              \
    (CT_AREA_REST + 0x3c) /* 4 bytes: a handler runs on the alternate stack; the engine blocks signals */
#define CT_AREA_EVENTS                                                                                                 \
    (CT_AREA_REST + 0x40) /* the newest event record; records grow downward to an address with 16 zero bits */
#define CT_AREA_PENDING  (CT_AREA_REST + 0x48) /* signals were put off, and are blocked */
#define CT_AREA_MASK     (CT_AREA_REST + 0x50) /* the signal mask before that */
#define CT_AREA_COUNTERS (CT_AREA_REST + 0x58) /* call counts */
#define CT_AREA_NATIVE   (CT_AREA_REST + 0x60) /* stack slot of the return address of an excluded call */
#define CT_AREA_SPILL    (CT_AREA_REST + 0x68) /* a register that the engine may be entered without */
#define CT_AREA_TID      (CT_AREA_REST + 0x70) /* 4 bytes */
#define CT_AREA_BUSY     (CT_AREA_REST + 0x74) /* 4 bytes: it runs natively in our functions, which use its state */
#define CT_AREA_OWN      (CT_AREA_REST + 0x78) /* the thread pointer of a thread that is followed now */
#define CT_AREA_SIZE     (CT_AREA_REST - CT_AREA + 0x80)

/* The upper four bits of the reason. */
#define CT_REASON_EXIT    0x00000000 /* a direct branch that is not linked: index of the exit */
#define CT_REASON_MISS    0x10000000 /* an indirect branch whose target is not in the table */
#define CT_MISS_RETURN    1          /* index of a miss: it is a return */
#define CT_REASON_CALLOUT 0x20000000 /* index of the callout */
#define CT_REASON_SYSCALL 0x30000000
#define CT_REASON_FULL    0x40000000 /* no room for events */
#define CT_REASON_BEGIN   0x50000000 /* a thread was stopped and redirected: follow it from where it was */
#define CT_REASON_END     0x60000000 /* a thread was stopped and redirected: it leaves translated code */
#define CT_REASON_VFORKED 0xa0000000 /* the child of a vfork continues in place of its parent */
#define CT_REASON_BACK    0xb0000000 /* the child of a vfork has left its parent's memory */

#define CT_REASON_LAND    0x70000000 /* an exception has left excluded code */
#define CT_REASON_SITE    0x90000000 /* an indirect branch whose target is not in its inline cache: index of the exit */
#define CT_REASON_LANDED  0x80000000 /* setjmp has returned, perhaps once more */
#define CT_REASON_POINTER 0xd0000000 /* arm64: a new thread pointer; index of the register that has it */
#define CT_REASON_CHANGED 0xc0000000 /* code has changed since it was translated: index of the exit */

#define CT_EVENT_ROOM     0x10000 /* bytes of a record buffer, and its alignment */
#define CT_RECORD_SIZE    16      /* of calls and returns without a timestamp */
#define CT_RECORD_TARGET  0       /* 6 bytes of the target, then 6 of the stack pointer: user space has 47 bits */
#define CT_RECORD_SP      6
#define CT_RECORD_SITE    12
#define CT_RECORD_TIME    16
#define CT_RECORD_SPARE   24 /* of a record with a timestamp: saves a register meanwhile */

#endif
