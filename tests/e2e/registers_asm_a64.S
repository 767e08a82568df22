/* SPDX-License-Identifier: Apache-2.0 */
/* A caller that puts a known value in every register and flag, and callees that leave them alone or use flags.
 *
 * void call_with_state(void (*callee)(void), const struct state *in, struct state *out)
 * struct state: x0 to x30, nzcv, q0 to q31. x30 is what leads to places here, because a call changes it anyway. */
    .text
    .macro function name
    .balign 16
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .endm
    .macro end name
    .size \name, . - \name
    .endm

    .set nzcv_at, 31 * 8
    .set vectors_at, 32 * 8
    .set frame, 160

function call_with_state
    stp x29, x30, [sp, #-frame]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    adrp x3, kept
    add x3, x3, :lo12:kept
    mov x4, sp
    stp x0, x2, [x3]
    str x4, [x3, #16]
    mov x30, x1
    add x0, x30, #vectors_at
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ldr q\n, [x0], #16
    .endr
    ldr x0, [x30, #nzcv_at]
    msr nzcv, x0
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29
    ldr x\n, [x30, #\n * 8]
    .endr
    adrp x30, kept
    ldr x30, [x30, :lo12:kept]
    blr x30
    adrp x30, kept
    add x30, x30, :lo12:kept
    ldr x30, [x30, #8]
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29
    str x\n, [x30, #\n * 8]
    .endr
    mrs x0, nzcv
    str x0, [x30, #nzcv_at]
    add x0, x30, #vectors_at
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    str q\n, [x0], #16
    .endr
    adrp x0, kept
    add x0, x0, :lo12:kept
    ldr x0, [x0, #16]
    mov sp, x0
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #frame
    ret
end call_with_state

function touch_nothing
    nop
    nop
    ret
end touch_nothing

/* Calls another hooked function, and touches nothing itself. */
function touch_nothing_twice
    str x30, [sp, #-16]!
    bl touch_nothing
    bl touch_nothing
    ldr x30, [sp], #16
    ret
end touch_nothing_twice

function set_carry
    cmp xzr, xzr
    ret
end set_carry

function clear_carry
    cmn xzr, xzr
    ret
end clear_carry

function set_flags
    msr nzcv, x0
    ret
end set_flags

/* The caller's carry in: returns x0 + carry. */
function add_carry
    adc x0, x0, xzr
    ret
end add_carry

function read_flags
    mrs x0, nzcv
    ret
end read_flags

/* int jump_on_carry(void): the caller's view of flags that callees return. */
function jump_on_carry
    str x30, [sp, #-16]!
    mov w0, #0
    bl set_carry
    b.cc 1f
    mov w0, #1
1:  bl clear_carry
    b.cs 1f
    add w0, w0, #2
1:  ldr x30, [sp], #16
    ret
end jump_on_carry

/* long chained_carry(long x): a 3-step add with carry through a function. */
function chained_carry
    str x30, [sp, #-16]!
    cmp xzr, xzr
    bl add_carry      /* x + 1 */
    cmn xzr, xzr
    bl add_carry      /* x + 1 */
    cmp xzr, xzr
    bl add_carry      /* x + 2 */
    ldr x30, [sp], #16
    ret
end chained_carry

    .bss
    .balign 8
kept: .skip 24 /* callee, out, sp */
    .section .note.GNU-stack, "", @progbits
