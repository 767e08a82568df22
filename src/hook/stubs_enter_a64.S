/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_a64.S: what a call does, and sampling. */

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
