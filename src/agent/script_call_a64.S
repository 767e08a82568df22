/* SPDX-License-Identifier: Apache-2.0 */
/* A call with any arguments, as struct ct_script_work (abi/script_abi.h) describes it. */
#include "hook/save_a64.S"

#define FUNCTION    0
#define INTEGERS    8
#define REALS       72
#define STACK_COUNT 144
#define STACK       152
#define RESULT      664
#define PLACE       728

    .text
    .globl ct_script_call
    .hidden ct_script_call
    .type ct_script_call, @function
    .balign 16
ct_script_call:
    stp x29, x30, [sp, #-32]!
    mov x29, sp
    str x19, [sp, #16]
    mov x19, x0
    ldr x16, [x19, #FUNCTION]
    cbz x16, 3f
    ldr x9, [x19, #STACK_COUNT]
    add x10, x9, #1
    and x10, x10, #~1
    sub sp, sp, x10, lsl #3
    add x11, x19, #STACK
1:  cbz x9, 2f
    sub x9, x9, #1
    ldr x10, [x11, x9, lsl #3]
    str x10, [sp, x9, lsl #3]
    b 1b
2:  ldp d0, d1, [x19, #REALS]
    ldp d2, d3, [x19, #REALS + 16]
    ldp d4, d5, [x19, #REALS + 32]
    ldp d6, d7, [x19, #REALS + 48]
    ldp x0, x1, [x19, #INTEGERS]
    ldp x2, x3, [x19, #INTEGERS + 16]
    ldp x4, x5, [x19, #INTEGERS + 32]
    ldp x6, x7, [x19, #INTEGERS + 48]
    ldr x8, [x19, #PLACE]
    adr x30, 4f
    ret x16                                 /* needs no landing pad, unlike blr */
3:  ldr x8, [x19, #INTEGERS]
    ldp x0, x1, [x19, #INTEGERS + 8]
    ldp x2, x3, [x19, #INTEGERS + 24]
    ldp x4, x5, [x19, #INTEGERS + 40]
    svc #0
4:  add x9, x19, #RESULT
    stp x0, x1, [x9]
    stp d0, d1, [x9, #16]
    stp d2, d3, [x9, #32]
    mov sp, x29
    ldr x19, [sp, #16]
    ldp x29, x30, [sp], #32
    ret
    .size ct_script_call, . - ct_script_call

/* A function that scripts serve. x17: its number; x16 is free. struct ct_cpu_a64 is built at x19, with the vector
 * registers below it. */
#define CONTEXT_SIZE 288

    .globl ct_script_callback_entry
    .hidden ct_script_callback_entry
    .type ct_script_callback_entry, @function
    .balign 16
ct_script_callback_entry:
    sub sp, sp, #CONTEXT_SIZE
    SAVE_GENERAL
    stp x16, x17, [sp, #CONTEXT_X17 - 8]
    add x16, sp, #CONTEXT_SIZE
    str x30, [sp, #CONTEXT_LR]
    stp x16, x30, [sp, #CONTEXT_SP]
    mrs x16, nzcv
    str x16, [sp, #CONTEXT_PSTATE]
    mov x19, sp
    SAVE_VECTORS
    mov x16, sp
    str x16, [x19, #CONTEXT_VECTORS]
    mov x0, x19
    ldr x1, [x19, #CONTEXT_X17]
    bl ct_script_on_callback
    RESTORE_VECTORS
    ldr x16, [sp, #CONTEXT_PSTATE]
    msr nzcv, x16
    RESTORE_GENERAL
    ldr x30, [sp, #CONTEXT_LR]
    add sp, sp, #CONTEXT_SIZE
    ret
    .size ct_script_callback_entry, . - ct_script_callback_entry
    .section .note.GNU-stack, "", @progbits
