/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_a64.S: macros that capture detail. */

/* ---- detail: registers and stack of a call, registers of a return (abi/shm_abi.h) ----
 *
 * x1 to x3, x16, x17 and x30 are free here: the program's values are on the stack, above the note (struct
 * ct_detail_note), which has the event's time and tag. A record counts once its first word, stored last, is right.
 * Nothing is ever read back from a record: it may belong to somebody else by then. */

#define CT_DETAIL_AHEAD 640

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
