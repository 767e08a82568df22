/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_a64.S: calls and returns with a listener. */

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
