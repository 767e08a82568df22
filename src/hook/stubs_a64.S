/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all stubs share, arm64. It is position-independent and is copied next to each region of stubs.
 *
 *     entry of the function:  b stub        (after bti or paciasp)
 *     before the stub: aut (or nop); mov x16, x30
 *     stub:   bl enter        x30 (the id) shows enter which hook this is, x16 is where the caller goes on
 *             bl body         x30 is `resume` for the body
 *     resume: adr x16, id
 *             b leave         returns to the caller: calls and returns stay balanced
 *
 * Only x16 and x17 change, and x30 as a call changes it: callers that know a local function may keep values in all
 * other registers. Flags stay as they are: comparisons are subtractions and tests of bits. The rest is saved below the
 * stack pointer, where nothing of the program is (there is no red zone). S is the stack pointer of the caller; the
 * frame's slot is S - 8.
 *
 * Signal-safe at every instruction, as on x86_64: while a stub works on a shadow entry, the entry's slot shows this and
 * how far the stub is. `top` is read and written by plain instructions, because handlers restore it; where they do not,
 * the claimed entry shows it. An event slot is reserved by exclusives: they fail if a handler came between. What
 * another thread or process reads is published by stlr. Only one thread writes to a block, its cursor and its events.
 *
 * The code exists twice. The first form finds the block in the word after the one that the thread pointer points to.
 * Where the program uses that word itself, the second one (stubs_table_a64.S) finds it in a table by the thread
 * pointer. x0 points to the block while a stub works. */
#include "hook/layout.h"
#include "hook/save_a64.S"
#include "hook/stub_a64.h"

#ifdef CT_BLOCKS_IN_TABLE
#define NAME(name) ct_table_##name
#else
#define NAME(name) ct_hook_##name
#endif

    .text
    .balign 64
    .globl NAME(code)
    .hidden NAME(code)
NAME(code):

.macro FUNCTION name
    .globl \name
    .hidden \name
    .balign 32
\name:
.endm

/* x0: the block of the thread that has the thread pointer x17, or of another one; always a block. Jumps to `none` when
 * there is no thread pointer. Uses x1. */
#ifdef CT_BLOCKS_IN_TABLE
.macro LOAD_BLOCK none, stray=
    mrs x17, tpidr_el0
    cbz x17, \none
    ldr x1, .Lmix
    ldr x0, .Ltable
    mul x1, x1, x17
    lsr x1, x1, #CT_TABLE_SHIFT
    and x1, x1, #~7
    ldr x0, [x0, x1]
    ldr x1, .Lstray
    add x0, x0, x1
.endm
.macro LOAD_STRAY
.endm
/* A new thread may have the thread pointer of one that has ended, and find its block. Its outermost call, at the
 * latest, checks which thread it is. */
.macro IF_OUTERMOST label
    ldr x2, [x0, #CT_BLOCK_FIRST]
    eor x2, x2, x1
    cbz x2, \label
.endm
#else
.macro LOAD_BLOCK none, stray=16f
    mrs x17, tpidr_el0
    cbz x17, \none
    ldr x0, [x17, #8]
    cbz x0, \stray
.endm
.macro LOAD_STRAY
16: ldr x0, .Lstray
.endm
/* The word of a new thread is cleared by its creator (ct_os_forget_block). */
.macro IF_OUTERMOST label
.endm
#endif

/* Jumps if the block is not the thread's, or needs attention. x17: the thread pointer. */
.macro IF_ATTENTION label
    ldr x1, [x0, #CT_BLOCK_OWNER]
    eor x1, x1, x17
    cbnz x1, \label
.endm

/* ---- slow paths ---- */

/* x0 to x3, x16 and x30 are saved already. The C code uses no vector registers. */
.macro PUSH_REST
    sub sp, sp, #CT_REST_SIZE
    stp x4, x5, [sp]
    stp x6, x7, [sp, #16]
    stp x8, x9, [sp, #32]
    stp x10, x11, [sp, #48]
    stp x12, x13, [sp, #64]
    stp x14, x15, [sp, #80]
    mrs x4, nzcv
    stp x18, x4, [sp, #96]
.endm
/* Calls x17. If the stack ends, it ends here: C code that blocks signals must not fault. */
.macro CALL_SLOW
    sub x16, sp, #CT_SLOW_STACK
    ldr x16, [x16]
    blr x17
.endm
.macro POP_REST
    ldp x18, x4, [sp, #96]
    msr nzcv, x4
    ldp x14, x15, [sp, #80]
    ldp x12, x13, [sp, #64]
    ldp x10, x11, [sp, #48]
    ldp x8, x9, [sp, #32]
    ldp x6, x7, [sp, #16]
    ldp x4, x5, [sp]
    add sp, sp, #CT_REST_SIZE
.endm
/* A slow path may have given the thread another block. A block that is not the thread's own must not be written to; the
 * stray block means that there is nothing to do. */
.macro LOAD_BLOCK_AGAIN
    LOAD_BLOCK 98f, 98f /* not 16: that is where the stub's own first search goes on */
    ldr x1, [x0, #CT_BLOCK_POINTER]
    eor x1, x1, x17
    cbz x1, 99f
98: ldr x0, .Lstray
99:
.endm

/* ---- events ---- */

/* Adds to the word at \address. \old: what was there. */
.macro ADD_OWN old, amount, address, new, failed
91: ldxr \old, [\address]
    add \new, \old, \amount
    stxr \failed, \new, [\address]
    cbnz \failed, 91b
.endm

/* Reserves an event slot: x2. Its address must show whether it is valid, because a handler may have put another buffer
 * in place by now. Uses x16, x17, x30. */
.macro RESERVE full
    add x17, x0, #CT_BLOCK_CURSOR
    ADD_OWN x2, #CT_EVENT_SIZE, x17, x16, w30
    ldr x17, [x0, #CT_BLOCK_EVENT_BIT]
    and x17, x17, x2
    cbz x17, \full
.endm

/* x17: the time of the event at x2, which is valid once the time is stored. With the fast clock it is the thread's last
 * reading of the counter, if that is newer than the last tick; every 16th slot has a reading of its own. Uses x16,
 * x30. */
.macro STAMP fast
  .if \fast
    and x16, x2, #CT_CLOCK_TURN
    cbz x16, 26f
    ldr x17, [x0, #CT_BLOCK_TICK_AT]
    ldr x17, [x17]
    ldr x30, [x0, #CT_BLOCK_READING]
    lsr x17, x17, #1
    rsub x17, x30
    tbnz x17, #63, 26f
    mov x17, x30
  .else
    mrs x17, cntvct_el0
  .endif
25: stlr x17, [x2]
.endm
/* \to = \from / 2 - \to */
.macro rsub to, from
    neg \to, \to
    add \to, \to, \from, lsr #1
.endm
.macro STAMP_READ
26: mrs x17, cntvct_el0
    prfm pstl1keep, [x2, #512] /* what the 16 events after the next 16 go to */
    prfm pstl1keep, [x2, #576]
    prfm pstl1keep, [x2, #640]
    prfm pstl1keep, [x2, #704]
    str x17, [x0, #CT_BLOCK_READING]
    b 25b
.endm

#define INNERMOST(field) (CT_SHADOW_##field - CT_SHADOW_SIZE)

/* ---- detail: registers and stack of a call, registers of a return (abi/shm_abi.h) ----
 *
 * x1 to x3, x16, x17 and x30 are free here: the program's values are on the stack, above the note (struct
 * ct_detail_note), which has the event's time and tag. A record counts once its first word, stored last, is right.
 * Nothing is ever read back from a record: it may belong to somebody else by then. */

#define CT_DETAIL_AHEAD 640

/* Each of these exists twice, without and with detail. N: bytes on the stack below the saved registers, for the
 * note. */
#define PLAIN    0
#define DETAILED 32
#define SLOT(n)  (n) + 40
#define ID(n)    (n) + 32
#define X0X1(n)  (n) + 16

/* Makes the marks of this call or return, if a trigger waits for one. Jumps when there is nothing to capture: this
 * thread is not recorded, or the event has no number. */
.macro CHECK_RULES none
    ldr x16, [x0, #CT_BLOCK_RULES]
    ldr w3, [sp, #CT_NOTE_HOOK]
    cbz x16, \none
    ldr w16, [x16, x3, lsl #2]
    cbz w16, 31f
    PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_MARK]
    add x0, sp, #CT_REST_SIZE
    ldr x1, [sp, #CT_REST_SIZE + X0X1(DETAILED)]
    add x2, sp, #CT_REST_SIZE + SLOT(DETAILED)
    mov x3, sp
    CALL_SLOW
    POP_REST
    LOAD_BLOCK_AGAIN
31: ldr w16, [sp, #CT_NOTE_TAG]
    lsr w16, w16, #4
    cbz w16, \none
.endm

/* x2: a record of the size that is in the block at `size`; both its ends are in one chunk. */
.macro RESERVE_DETAIL size, none
    ldr x3, [x0, #\size]
    add x30, x0, #CT_BLOCK_DETAIL_CURSOR
    ADD_OWN x2, x3, x30, x16, w17
    sub x16, x16, #1
    ldr x17, [x0, #CT_BLOCK_DETAIL_BIT]
    and x16, x16, x2
    and x17, x17, x16
    cbnz x17, 32f
    PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_DETAIL]
    mov x0, x3
    CALL_SLOW
    mov x2, x0
    POP_REST
    LOAD_BLOCK_AGAIN
    cbz x2, \none
32:
.endm
.macro PUBLISH_DETAIL
    ldp x16, x17, [sp, #CT_NOTE_STAMP]
    movn x1, #(~CT_DETAIL_MIX & 0xffff)
    movk x1, #(CT_DETAIL_MIX >> 16 & 0xffff), lsl #16
    ldr x3, [x0, #CT_BLOCK_DETAIL_KEY]
    stp x16, x17, [x2, #CT_DETAIL_STAMP]
    mul x16, x16, x1
    eor x16, x16, x17
    eor x16, x16, x3
    stlr x16, [x2]
.endm

/* The stack is shown from the slot on, which has the return address. */
.macro CAPTURE_CALL
    CHECK_RULES 39f
    RESERVE_DETAIL CT_BLOCK_CALL_SIZE, 39f
    prfm pstl1keep, [x2, #CT_DETAIL_AHEAD]
    prfm pstl1keep, [x2, #CT_DETAIL_AHEAD + 64]
    prfm pstl1keep, [x2, #CT_DETAIL_AHEAD + 128]
    prfm pstl1keep, [x2, #CT_DETAIL_AHEAD + 192]
    ldp x16, x17, [sp, #X0X1(DETAILED)]
    stp x16, x17, [x2, #CT_DETAIL_REGISTERS]
    ldp x16, x17, [sp, #DETAILED]
    stp x16, x17, [x2, #CT_DETAIL_REGISTERS + 16]
    stp x4, x5, [x2, #CT_DETAIL_REGISTERS + 32]
    stp x6, x7, [x2, #CT_DETAIL_REGISTERS + 48]
    add x1, sp, #SLOT(DETAILED)
    stp x29, x1, [x2, #CT_DETAIL_FP]
    ldr x3, [x0, #CT_BLOCK_STACK_BYTES]
    ldr x16, [x0, #CT_BLOCK_VECTOR_BYTES]
    cbz x16, 33f
    add x16, x2, x3
    stp q0, q1, [x16, #CT_DETAIL_STACK]
    stp q2, q3, [x16, #CT_DETAIL_STACK + 32]
    stp q4, q5, [x16, #CT_DETAIL_STACK + 64]
    stp q6, q7, [x16, #CT_DETAIL_STACK + 96]
33: /* how much of the stack: all of it must be mapped */
    ldr x16, [x0, #CT_BLOCK_STACK_LOW]
    sub x16, x1, x16
    tbnz x16, #63, 34f
    ldr x16, [x0, #CT_BLOCK_STACK_HIGH]
    add x17, x1, x3
    sub x16, x16, x17
    tbz x16, #63, 35f
34: orr x16, x1, #4095                      /* not the thread's stack, or its end: the page of the slot is there */
    add x16, x16, #1
    sub x16, x16, x1
    sub x17, x16, x3
    tbz x17, #63, 35f
    add x17, x2, x3                         /* no byte of an older record stays */
36: str xzr, [x17, #CT_DETAIL_STACK - 8]
    sub x17, x17, #8
    sub x3, x3, #8
    eor x30, x3, x16
    cbnz x30, 36b
35: str x3, [x2, #CT_DETAIL_STACK_SIZE]
    add x30, x2, #CT_DETAIL_STACK
    tbz x3, #3, 37f
    ldr x16, [x1], #8
    str x16, [x30], #8
    sub x3, x3, #8
37: cbz x3, 38f
    ldp x16, x17, [x1], #16
    stp x16, x17, [x30], #16
    sub x3, x3, #16
    b 37b
38: /* A chain of tail calls, all with one slot, may be long; only its oldest has the return address. */
    ldr x1, [x0, #CT_BLOCK_TOP]
    add x3, sp, #SLOT(DETAILED)
    ldr x16, [x1, #INNERMOST(SLOT)]
    eor x16, x16, x3
    cbnz x16, 42f                           /* entry-only: the address is in the slot */
41: sub x1, x1, #CT_SHADOW_SIZE
    ldr x16, [x1, #INNERMOST(SLOT)]
    ldr x17, [x1, #INNERMOST(STUB)]
    eor x16, x16, x3
    ldr x30, [x1, #CT_SHADOW_RETURN]
    cbnz x16, 43f
    add x17, x17, #CT_AFTER_TO_RESUME
    eor x17, x17, x30
    cbz x17, 41b
43: str x30, [x2, #CT_DETAIL_STACK]
42: PUBLISH_DETAIL
39:
.endm

.macro CAPTURE_RETURN
    CHECK_RULES 39f
    RESERVE_DETAIL CT_BLOCK_RETURN_SIZE, 39f
    ldp x16, x17, [sp, #X0X1(DETAILED)]
    stp x16, x17, [x2, #CT_DETAIL_REGISTERS]
    ldr x16, [sp, #SLOT(DETAILED)]
    stp x16, x29, [x2, #CT_DETAIL_REGISTERS + 16]
    add x16, sp, #SLOT(DETAILED)
    str x16, [x2, #CT_DETAIL_REGISTERS + 32]
    ldr x16, [x0, #CT_BLOCK_ERRNO]
    ldr x17, [sp, #CT_NOTE_ENTERED]
    ldr w16, [x16]
    cbz x17, 34f
    lsr x17, x17, #CT_ENTERED_BITS
33: stp w17, w16, [x2, #CT_DETAIL_ERRNO]
    ldr x16, [x0, #CT_BLOCK_VECTOR_BYTES]
    cbz x16, 35f
    str q0, [x2, #CT_DETAIL_RETURN_SIZE]
    str q1, [x2, #CT_DETAIL_RETURN_SIZE + 16]
35: PUBLISH_DETAIL
    b 39f
34: mov w17, #CT_ERRNO_UNKNOWN
    b 33b
39:
.endm

/* Fills the slot at x2; w3 is the hook's number. x0 and x1 are kept. */
.macro FILL_EVENT kind, n, fast
  .if \n
    str w3, [sp, #CT_NOTE_HOOK]
    ldr x16, [x0, #CT_BLOCK_BUDGETS]
    cbnz x16, 23f
21: add x30, x0, #CT_BLOCK_ORDINAL
    ADD_OWN w17, #CT_TAG_STEP, x30, w16, w3
    orr w17, w17, #\kind
22: ldr w3, [sp, #CT_NOTE_HOOK]
    str w17, [sp, #CT_NOTE_TAG]
    stp w3, w17, [x2, #8]
    STAMP \fast
    str x17, [sp, #CT_NOTE_STAMP]
  .else
    mov w16, #\kind
    stp w3, w16, [x2, #8]
    STAMP \fast
  .endif
.endm

/* The rest of FILL_EVENT: there is a limit for how many of this function's calls are captured in a second. A return is
 * captured if its call was. x16: the budgets. */
.macro FILL_EVENT_REST kind, n, fast
  .if \n
23:
  .if \kind == 2
    ldr x17, [sp, #CT_NOTE_ENTERED]
    tbnz x17, #0, 21b
    cbz x17, 21b
  .else
    add x16, x16, x3, lsl #2
    ldr w17, [x16]
    sub w17, w17, #1
    tbnz w17, #31, 24f
27: ldxr w17, [x16]
    sub w17, w17, #1
    stxr w30, w17, [x16]
    cbnz w30, 27b
    tbz w17, #31, 21b
24:
  .endif
    ldr x16, [x0, #CT_BLOCK_COUNTERS]
    ldr x17, [x16, #CT_COUNTERS_LIMITED]
    add x17, x17, #1
    str x17, [x16, #CT_COUNTERS_LIMITED]
    mov w17, #\kind
    b 22b
  .endif
  .if \fast
    STAMP_READ
  .endif
.endm

/* The block needs attention. While an unwinder walks, its own calls, and those of handlers on its stack, are ordinary
 * calls: the slot is so little below the slot of its outermost function that it is on the same stack. */
.macro IF_WALKING n, walking
    ldr x1, [x0, #CT_BLOCK_WALKER]
    eor x1, x1, x17
    cbnz x1, 15f
    ldr x1, [x0, #CT_BLOCK_EXPOSED_SLOT]
    add x2, sp, #SLOT(\n)
    sub x1, x1, x2
    sub x1, x1, #1
    tbnz x1, #63, 15f
    ldr x2, [x0, #CT_BLOCK_WALK_REACH]
    sub x1, x1, x2
    tbnz x1, #63, \walking
.endm

/* ---- enter: record the call, keep the return address in the shadow stack ---- */

.macro PROLOGUE n
    stp x2, x3, [sp, #-CT_SAVED_SIZE]!
    stp x0, x1, [sp, #16]
    stp x30, x16, [sp, #32]
  .if \n
    sub sp, sp, #\n
    str xzr, [sp]                           /* all the stack that is needed: if it ends, it ends here */
  .endif
.endm
/* x16 and x30 are not restored. */
.macro EPILOGUE n
    ldp x0, x1, [sp, #X0X1(\n)]
  .if \n
    ldp x2, x3, [sp, #\n]
    add sp, sp, #\n + CT_SAVED_SIZE
  .else
    ldp x2, x3, [sp], #CT_SAVED_SIZE
  .endif
.endm
/* Goes to \offset from the id, with the caller's return address in x30: as if the caller had called it. */
.macro GO_ON n, offset
    ldp x17, x30, [sp, #ID(\n)]
    add x17, x17, #\offset
    EPILOGUE \n
    ret x17
.endm

/* Jumps unless a frame at the slot (x17) is deeper than the innermost one (x1) and on its stack; to `same` if it has
 * the same slot. Slots and addresses are halved: the sentinel's is the highest number. Uses x2. */
.macro IF_NOT_DEEPER same, label
    ldr x2, [x1, #INNERMOST(SLOT)]
    lsr x2, x2, #1
    sub x2, x2, x17, lsr #1
    cbz x2, \same
    tbnz x2, #63, \label
    ldr x2, [x0, #CT_BLOCK_FLOOR]
    lsr x2, x2, #1
    sub x2, x2, x17, lsr #1
    sub x2, x2, #1
    tbz x2, #63, \label
.endm
/* The same slot as the innermost frame, and that frame's resume address in x16: a tail call. */
.macro IF_TAIL_CALL label
    ldr x2, [x1, #INNERMOST(STUB)]
    add x2, x2, #CT_AFTER_TO_RESUME
    eor x2, x2, x16
    cbz x2, \label
.endm

.macro NOTE_ARGUMENT n, register
  .if \n
    add \register, sp, #CT_REST_SIZE
  .else
    mov \register, #0
  .endif
.endm

.macro ENTER n, fast=0
    PROLOGUE \n
    LOAD_BLOCK 20f
    IF_ATTENTION 17f
10: ldr x1, [x0, #CT_BLOCK_TOP]
    IF_OUTERMOST 15f
    add x17, sp, #SLOT(\n)
    IF_NOT_DEEPER 13f, 15f
11: ldr x2, [x0, #CT_BLOCK_LIMIT]
    add x3, x1, #CT_SHADOW_SIZE
    sub x2, x1, x2
    tbz x2, #63, 15f
    str x3, [x0, #CT_BLOCK_TOP]             /* claim: its slot is 0 already */
    ldr x2, [x1, #CT_SHADOW_SLOT]
    cbnz x2, 18f
    str xzr, [x1, #CT_SHADOW_DATA]
    sub x2, x17, #-CT_SHADOW_ENTERING
    str x2, [x1, #CT_SHADOW_SLOT]
    ldr w3, [x30, #CT_AFTER_TO_NUMBER]
    stp x16, x30, [x1, #CT_SHADOW_RETURN]
    RESERVE 14f
    str x2, [x1, #CT_SHADOW_DATA]
    FILL_EVENT 1, \n, \fast
    add x17, sp, #SLOT(\n)
    stlr x17, [x1]                          /* the frame is there */
12:
  .if \n
    ldr x1, [x0, #CT_BLOCK_TOP]
    ldr x16, [x0, #CT_BLOCK_ERRNO]
    ldr x3, [sp, #CT_NOTE_STAMP]
    ldr w2, [sp, #CT_NOTE_TAG]
    ldr w16, [x16]
    and x3, x3, #~1
    lsr w2, w2, #4                          /* it has a number */
    cbz w2, 28f
    orr x3, x3, #1
28: mov x2, #CT_ENTERED_ERRNO
    sub x17, x2, x16
    tbz x17, #63, 29f
    mov x16, x2
29: bfi x3, x16, #CT_ENTERED_BITS, #64 - CT_ENTERED_BITS
    str x3, [x1, #INNERMOST(DATA)]          /* when it was entered, and errno (CT_ENTERED_BITS) */
    CAPTURE_CALL
  .endif
    ldr x30, [sp, #ID(\n)]
    EPILOGUE \n
    ret
    FILL_EVENT_REST 1, \n, \fast

    /* A handler came, and entries of its frames are left: its stack walk let them return unseen. */
18: add x1, x1, #CT_SHADOW_SIZE
    ldr x2, [x1, #CT_SHADOW_SLOT]
    cbnz x2, 18b
    str x1, [x0, #CT_BLOCK_TOP]
    b 15f

13: IF_TAIL_CALL 11b
    b 15f

14: PUSH_REST                               /* buffer full; the entry is claimed */
    ldr x17, [x0, #CT_BLOCK_FN_EVENT]
    mov w0, w3
    mov x1, #1
    add x2, sp, #CT_REST_SIZE + SLOT(\n)
    NOTE_ARGUMENT \n, x3
    CALL_SLOW
    POP_REST
  .if \n
    LOAD_BLOCK_AGAIN
  .endif
    b 12b

17: IF_WALKING \n, 10b
    b 15f
    LOAD_STRAY
15: PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_ENTER]
    add x0, sp, #CT_REST_SIZE + SLOT(\n)
    ldr x1, [sp, #CT_REST_SIZE + ID(\n)]
    NOTE_ARGUMENT \n, x2
    CALL_SLOW
    POP_REST
    cbz x0, 20f
  .if \n
    LOAD_BLOCK_AGAIN
  .endif
    b 12b
20: GO_ON \n, CT_AFTER_TO_BODY              /* not observed */
.endm

/* Entry-only: one event, the caller's return address stays in x30. */
.macro ENTER_ENTRY n, fast=0
    PROLOGUE \n
    LOAD_BLOCK 12f
    IF_ATTENTION 17f
10: ldr x1, [x0, #CT_BLOCK_TOP]
    add x17, sp, #SLOT(\n)
    IF_NOT_DEEPER 13f, 15f
19: ldr w3, [x30, #CT_AFTER_TO_NUMBER]
    RESERVE 14f
    FILL_EVENT 4, \n, \fast
11:
  .if \n
    CAPTURE_CALL
  .endif
12: GO_ON \n, 0
    FILL_EVENT_REST 4, \n, \fast
13: IF_TAIL_CALL 19b
    b 15f
14: PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_EVENT]
    mov w0, w3
    mov x1, #4
    mov x2, #0
    NOTE_ARGUMENT \n, x3
    b 30f
17: IF_WALKING \n, 10b
    b 15f
    LOAD_STRAY
15: PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_ENTRY]
    add x0, sp, #CT_REST_SIZE + SLOT(\n)
    ldr x1, [sp, #CT_REST_SIZE + ID(\n)]
    NOTE_ARGUMENT \n, x2
30: CALL_SLOW
    POP_REST
  .if \n
    LOAD_BLOCK_AGAIN
    ldr x1, [sp, #CT_NOTE_STAMP]
    cbnz x1, 11b
  .endif
    b 12b
.endm

FUNCTION NAME(enter_record)
    ENTER PLAIN
FUNCTION NAME(enter_detail)
    ENTER DETAILED
FUNCTION NAME(enter_entry)
    ENTER_ENTRY PLAIN
FUNCTION NAME(enter_entry_detail)
    ENTER_ENTRY DETAILED
FUNCTION NAME(enter_record_fast)
    ENTER PLAIN, 1
FUNCTION NAME(enter_detail_fast)
    ENTER DETAILED, 1
FUNCTION NAME(enter_entry_fast)
    ENTER_ENTRY PLAIN, 1
FUNCTION NAME(enter_entry_detail_fast)
    ENTER_ENTRY DETAILED, 1

/* ---- sampling: every Nth call of a function is recorded, with all that it calls ---- */

/* Counts the call. Goes on to `next` when a recorded call is open on this stack, or when it is the function's turn;
 * otherwise to the body. A counter (struct ct_shm_count) has the calls, and how many there were when the last one was
 * chosen. Frames that were left unseen count as open: the next call is recorded, and finds out. */
.macro SAMPLE next, skip
    PROLOGUE PLAIN
    LOAD_BLOCK 13f
    IF_ATTENTION 15f
    ldr x1, [x0, #CT_BLOCK_COUNTS]
    cbz x1, 14f
    ldr w2, [x30, #CT_AFTER_TO_NUMBER]
    add x1, x1, x2, lsl #CT_COUNT_SHIFT
    ADD_OWN x2, #1, x1, x3, w17
    ldr x17, [x0, #CT_BLOCK_TOP]
    ldr x17, [x17, #INNERMOST(SLOT)]
    sub x17, x17, #8                        /* neither the sentinel nor a hole */
    tbz x17, #63, 14f
    ldr x2, [x1, #8]
    ldr x17, [x0, #CT_BLOCK_SAMPLE]
    sub x2, x3, x2
    sub x17, x2, x17
    tbnz x17, #63, 13f
    str x3, [x1, #8]
14: ldp x30, x16, [sp, #ID(PLAIN)]
    EPILOGUE PLAIN
    b \next
    LOAD_STRAY
15: PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_SAMPLE]
    ldr x0, [sp, #CT_REST_SIZE + ID(PLAIN)]
    CALL_SLOW
    POP_REST
    cbnz x0, 14b
13: GO_ON PLAIN, \skip
.endm

FUNCTION NAME(sample_record)
    SAMPLE NAME(enter_record), CT_AFTER_TO_BODY
FUNCTION NAME(sample_detail)
    SAMPLE NAME(enter_detail), CT_AFTER_TO_BODY
FUNCTION NAME(sample_entry)
    SAMPLE NAME(enter_entry), 0
FUNCTION NAME(sample_entry_detail)
    SAMPLE NAME(enter_entry_detail), 0

/* ---- leave: record the return, bring the return address back ---- */

/* x16: the id. Flags are kept: hand-written callers may look at them, and the caller is not known. */
.macro LEAVE n, fast=0
    stp x2, x3, [sp, #-CT_SAVED_SIZE]!
    add x17, x16, #CT_AFTER_TO_RESUME       /* fault_place_a64.c takes the first for a sign that we return */
    stp x0, x1, [sp, #16]
    stp x17, x17, [sp, #32]
  .if \n
    sub sp, sp, #\n
    str xzr, [sp]
  .endif
    LOAD_BLOCK 20f                          /* a coroutine may return on a thread that has no block of its own yet */
    IF_ATTENTION 17f
10: ldr x1, [x0, #CT_BLOCK_TOP]
    add x17, sp, #SLOT(\n)
    ldp x2, x30, [x1, #INNERMOST(SLOT)]     /* slot, return address */
    ldr x3, [x1, #INNERMOST(STUB)]
    sub x1, x1, #CT_SHADOW_SIZE
    eor x2, x2, x17
    eor x3, x3, x16
    orr x2, x2, x3
    cbnz x2, 15f
  .if \n
    ldr x2, [x1, #CT_SHADOW_DATA]
    str x2, [sp, #CT_NOTE_ENTERED]
  .endif
    str xzr, [x1, #CT_SHADOW_DATA]
    sub x3, x17, #-CT_SHADOW_RETURNING
11: ldxr x2, [x1]                           /* in case a handler came, and the entry is another frame's */
    eor x2, x2, x17
    cbnz x2, 18f
    stxr w2, x3, [x1]
    cbnz w2, 11b
    ldr x2, [x0, #CT_BLOCK_TOP]
    sub x2, x2, #CT_SHADOW_SIZE
    eor x2, x2, x1
    cbnz x2, 19f
    ldr w3, [x16, #CT_AFTER_TO_NUMBER]
    str x30, [sp, #SLOT(\n)]
    RESERVE 14f
    str x2, [x1, #CT_SHADOW_DATA]
    FILL_EVENT 2, \n, \fast
    str xzr, [x1, #CT_SHADOW_SLOT]
    ldr x2, [x0, #CT_BLOCK_BARE]
    str x1, [x0, #CT_BLOCK_TOP]             /* release */
    sub x2, x2, x1
    tbz x2, #63, 29f
12:
  .if \n
    CAPTURE_RETURN
  .endif
13: ldr x30, [sp, #SLOT(\n)]
    EPILOGUE \n
    ret
    FILL_EVENT_REST 2, \n, \fast
14: PUSH_REST                               /* buffer full; the slow path releases the entry */
    ldr x17, [x0, #CT_BLOCK_FN_EVENT]
    mov w0, w3
    mov x1, #2
    mov x2, #0
    NOTE_ARGUMENT \n, x3
    CALL_SLOW
    b 30f
29: PUSH_REST                               /* the next frame would return unseen */
    ldr x17, [x0, #CT_BLOCK_FN_COVER]
    CALL_SLOW
30: POP_REST
  .if \n
    LOAD_BLOCK_AGAIN
  .endif
    b 12b
19: str x17, [x1]                           /* as in ENTER */
18:
  .if \n
    ldr x2, [sp, #CT_NOTE_ENTERED]
    str x2, [x1, #CT_SHADOW_DATA]
  .endif
    b 15f
17: IF_WALKING \n, 10b
    b 15f
20:
#ifdef CT_BLOCKS_IN_TABLE
    ldr x0, .Lstray
#endif
    LOAD_STRAY
15: PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_LEAVE]
    add x0, sp, #CT_REST_SIZE + SLOT(\n)
    NOTE_ARGUMENT \n, x1
    CALL_SLOW
    POP_REST
    str x0, [sp, #SLOT(\n)]
  .if \n
    LOAD_BLOCK_AGAIN
    ldr x1, [sp, #CT_NOTE_STAMP]
    cbnz x1, 12b
  .endif
    b 13b
.endm

FUNCTION NAME(leave_record)
    LEAVE PLAIN
FUNCTION NAME(leave_detail)
    LEAVE DETAILED
FUNCTION NAME(leave_record_fast)
    LEAVE PLAIN, 1
FUNCTION NAME(leave_detail_fast)
    LEAVE DETAILED, 1

/* ---- functions that the engine must know about: always through C ---- */

.macro ENTER_SPECIAL n
    PROLOGUE \n
    LOAD_BLOCK 20f
    b 15f
    LOAD_STRAY
15: PUSH_REST
    ldr x17, [x0, #CT_BLOCK_FN_SPECIAL]
    add x0, sp, #CT_REST_SIZE + SLOT(\n)
    ldr x1, [sp, #CT_REST_SIZE + ID(\n)]
    mov x2, sp
    NOTE_ARGUMENT \n, x3
    CALL_SLOW
    POP_REST
  .if \n
    str x0, [sp, #CT_NOTE_ENTERED]          /* a call does not need it */
    ldr x1, [sp, #CT_NOTE_STAMP]
    cbz x1, 44f
    LOAD_BLOCK_AGAIN
    CAPTURE_CALL
44: ldr x0, [sp, #CT_NOTE_ENTERED]
  .endif
    cbz x0, 20f
    ldr x30, [sp, #ID(\n)]
    EPILOGUE \n
    ret
20: GO_ON \n, CT_AFTER_TO_BODY
.endm

FUNCTION NAME(enter_special)
    ENTER_SPECIAL PLAIN
FUNCTION NAME(enter_special_detail)
    ENTER_SPECIAL DETAILED

/* ---- listeners: the full context ---- */

/* The structure (save_a64.S), then room, and id and return address at S - 16. */
#define CONTEXT_ID   304
#define CONTEXT_SIZE 320

/* Builds the context at x19, with the vector registers below it. x16: what x30 is for the listener, and what is in the
 * slot; x30: the id. Then x0 is the block. */
.macro SAVE_CONTEXT
    sub sp, sp, #CONTEXT_SIZE
    SAVE_GENERAL
    stp x16, x17, [sp, #CONTEXT_X17 - 8]
    stp x30, x16, [sp, #CONTEXT_ID]
    add x17, sp, #CONTEXT_SIZE
    stp x16, x17, [sp, #CONTEXT_SP - 8]
    mrs x17, nzcv
    str x17, [sp, #CONTEXT_PSTATE]
    mov x19, sp
    SAVE_VECTORS
    mov x17, sp
    str x17, [x19, #CONTEXT_VECTORS]
    LOAD_BLOCK 98f
    b 99f
98:
#ifdef CT_BLOCKS_IN_TABLE
    ldr x0, .Lstray
#endif
    LOAD_STRAY
99:
.endm
/* All but x16, x17 and x30. */
.macro RESTORE_CONTEXT
    RESTORE_VECTORS
    ldr x17, [sp, #CONTEXT_PSTATE]
    msr nzcv, x17
    RESTORE_GENERAL
.endm

FUNCTION NAME(enter_listen)
    SAVE_CONTEXT
    ldr x17, [x0, #CT_BLOCK_FN_ON_CALL]
    mov x0, x19
    add x1, x19, #CONTEXT_SIZE - 8
    ldr x2, [x19, #CONTEXT_ID]
    blr x17
    mov x30, x0
    RESTORE_CONTEXT
    cbz x30, 1f
    sub x17, x30, #1
    cbnz x17, 2f
    ldr x30, [sp, #CONTEXT_ID]              /* observed */
    add sp, sp, #CONTEXT_SIZE
    ret
1:  ldr x30, [sp, #CONTEXT_ID]              /* to the body ... */
    add x30, x30, #CT_AFTER_TO_BODY
2:  mov x17, x30                            /* ... or elsewhere, as if the caller had called it */
    ldr x30, [sp, #CONTEXT_ID + 8]
    add sp, sp, #CONTEXT_SIZE
    ret x17

FUNCTION NAME(leave_listen)
    mov x30, x16
    add x16, x16, #CT_AFTER_TO_RESUME
    SAVE_CONTEXT
    ldr x17, [x0, #CT_BLOCK_FN_ON_RETURN]
    mov x0, x19
    add x1, x19, #CONTEXT_SIZE - 8
    blr x17
    mov x30, x0
    RESTORE_CONTEXT
    add sp, sp, #CONTEXT_SIZE
    ret

    .balign 8
#ifdef CT_BLOCKS_IN_TABLE
.Lmix:
    .quad CT_TABLE_MIX
#endif
/* CT_HOOK_LITERALS: filled when the code is put into a process: the address of the table, and the block of threads that
 * have none. */
.Ltable:
    .quad 0
.Lstray:
    .quad 0

    .globl NAME(code_end)
    .hidden NAME(code_end)
NAME(code_end):

#ifndef CT_BLOCKS_IN_TABLE

/* ---- not copied: helpers of the C slow paths ---- */

FUNCTION ct_hook_on_stack                   /* stack, fn, a, b */
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    .cfi_def_cfa_register x29
    mov sp, x0
    mov x16, x1
    mov x0, x2
    mov x1, x3
    blr x16
    mov sp, x29
    .cfi_def_cfa_register sp
    ldp x29, x30, [sp], #16
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc

FUNCTION ct_hook_call_saved                 /* vectors (size, parts), fn, arg */
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    .cfi_def_cfa_register x29
    SAVE_VECTORS
    mov x0, x3
    mov x1, sp
    blr x2
    RESTORE_VECTORS
    .cfi_def_cfa_register sp
    ldp x29, x30, [sp], #16
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc

#endif

    .section .note.GNU-stack,"",@progbits
