/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_a64.S: what all of the shared code uses: the thread's block, slow paths, events and their times. */

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

/* Each of these exists twice, without and with detail. N: bytes on the stack below the saved registers, for the
 * note. */
#define PLAIN    0
#define DETAILED 32
#define SLOT(n)  (n) + 40
#define ID(n)    (n) + 32
#define X0X1(n)  (n) + 16

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
