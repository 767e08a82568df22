/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_a64.S: what a return does, and calls that always go through C. */

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
