/* SPDX-License-Identifier: Apache-2.0 */
/* See stalk_gen.h. The state has x0 to x30 and sp, then the flags, and from offset 272 on the vector registers. */
#define FLAGS   256
#define VECTORS 272

    .text
    .globl stalk_run
    .type stalk_run, @function
    .balign 16
stalk_run:
    stp x29, x30, [sp, #-176]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    str x0, [sp, #160]
    adrp x2, function
    str x1, [x2, :lo12:function]
    mov x3, sp
    str x3, [x2, :lo12:stack]

    add x1, x0, #VECTORS
    ld1 {v0.16b - v3.16b}, [x1], #64
    ld1 {v4.16b - v7.16b}, [x1], #64
    ld1 {v8.16b - v11.16b}, [x1], #64
    ld1 {v12.16b - v15.16b}, [x1], #64
    ld1 {v16.16b - v19.16b}, [x1], #64
    ld1 {v20.16b - v23.16b}, [x1], #64
    ld1 {v24.16b - v27.16b}, [x1], #64
    ld1 {v28.16b - v31.16b}, [x1]
    ldr x1, [x0, #FLAGS]
    msr nzcv, x1
    ldr x1, [x0, #248]
    mov sp, x1
    ldp x2, x3, [x0, #16]
    ldp x4, x5, [x0, #32]
    ldp x6, x7, [x0, #48]
    ldp x8, x9, [x0, #64]
    ldp x10, x11, [x0, #80]
    ldp x12, x13, [x0, #96]
    ldp x14, x15, [x0, #112]
    ldp x16, x17, [x0, #128]
    ldp x18, x19, [x0, #144]
    ldp x20, x21, [x0, #160]
    ldp x22, x23, [x0, #176]
    ldp x24, x25, [x0, #192]
    ldp x26, x27, [x0, #208]
    ldp x28, x29, [x0, #224]
    ldp x0, x1, [x0]
    adrp x30, function
    ldr x30, [x30, :lo12:function]
    blr x30

    /* x30 is the address of this instruction: it needs no saving. */
    adrp x30, kept
    str x0, [x30, :lo12:kept]
    ldr x0, [x30, :lo12:stack]
    ldr x0, [x0, #160]
    stp x1, x2, [x0, #8]
    stp x3, x4, [x0, #24]
    stp x5, x6, [x0, #40]
    stp x7, x8, [x0, #56]
    stp x9, x10, [x0, #72]
    stp x11, x12, [x0, #88]
    stp x13, x14, [x0, #104]
    stp x15, x16, [x0, #120]
    stp x17, x18, [x0, #136]
    stp x19, x20, [x0, #152]
    stp x21, x22, [x0, #168]
    stp x23, x24, [x0, #184]
    stp x25, x26, [x0, #200]
    stp x27, x28, [x0, #216]
    str x29, [x0, #232]
    mov x1, sp
    str x1, [x0, #248]
    mrs x1, nzcv
    str x1, [x0, #FLAGS]
    ldr x1, [x30, :lo12:kept]
    str x1, [x0]
    ldr x1, [x30, :lo12:stack]
    mov sp, x1
    add x1, x0, #VECTORS
    st1 {v0.16b - v3.16b}, [x1], #64
    st1 {v4.16b - v7.16b}, [x1], #64
    st1 {v8.16b - v11.16b}, [x1], #64
    st1 {v12.16b - v15.16b}, [x1], #64
    st1 {v16.16b - v19.16b}, [x1], #64
    st1 {v20.16b - v23.16b}, [x1], #64
    st1 {v24.16b - v27.16b}, [x1], #64
    st1 {v28.16b - v31.16b}, [x1]
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #176
    ret
    .size stalk_run, . - stalk_run

    .bss
    .balign 32
function: .quad 0
stack:    .quad 0
kept:     .quad 0
    .section .note.GNU-stack,"",@progbits
