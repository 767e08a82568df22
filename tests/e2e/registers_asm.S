/* SPDX-License-Identifier: Apache-2.0 */
/* A caller that puts a known value in every register and flag, and callees that leave them alone or use flags.
 *
 * void call_with_state(void (*callee)(void), const struct state *in, struct state *out, long misalign)
 * struct state: 16 general registers (hardware order; rsp is not set), flags, then 32 vector registers of 64 bytes,
 * 8 mask registers, 4 x87 values of 16 bytes. The level in state_level says which vector registers exist. */
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

    .set flags_at, 128
    .set zmm_at, 192
    .set mask_at, 192 + 32 * 64
    .set x87_at, 192 + 32 * 64 + 64

function call_with_state
    push %rbp
    mov %rsp, %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    sub $72, %rsp                   /* aligned to 16 now */
    sub %rcx, %rsp                  /* and off by `misalign` */
    mov %rdi, callee_pointer(%rip)
    mov %rdx, out_pointer(%rip)
    mov %rbp, kept_rbp(%rip)
    mov %rsp, kept_rsp(%rip)
    mov %rsi, %rax
    .irp n, 0,1,2,3
    fldt x87_at + \n * 16(%rax)
    .endr
    cmpl $2, state_level(%rip)
    je 2f
    cmpl $1, state_level(%rip)
    je 1f
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movdqu zmm_at + \n * 64(%rax), %xmm\n
    .endr
    jmp 3f
1:  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqu zmm_at + \n * 64(%rax), %ymm\n
    .endr
    jmp 3f
2:  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vmovdqu64 zmm_at + \n * 64(%rax), %zmm\n
    .endr
    .irp n, 0,1,2,3,4,5,6,7
    kmovw mask_at + \n * 8(%rax), %k\n
    .endr
3:  mov 8(%rax), %rcx
    mov 16(%rax), %rdx
    mov 24(%rax), %rbx
    mov 40(%rax), %rbp
    mov 48(%rax), %rsi
    mov 56(%rax), %rdi
    mov 64(%rax), %r8
    mov 72(%rax), %r9
    mov 80(%rax), %r10
    mov 88(%rax), %r11
    mov 96(%rax), %r12
    mov 104(%rax), %r13
    mov 112(%rax), %r14
    mov 120(%rax), %r15
    push flags_at(%rax)
    mov (%rax), %rax
    popf
    call *callee_pointer(%rip)
    mov %rax, kept_rax(%rip)        /* mov and lea leave the flags alone */
    mov out_pointer(%rip), %rax
    mov %rcx, 8(%rax)
    mov %rdx, 16(%rax)
    mov %rbx, 24(%rax)
    mov %rsp, 32(%rax)
    mov %rbp, 40(%rax)
    mov %rsi, 48(%rax)
    mov %rdi, 56(%rax)
    mov %r8, 64(%rax)
    mov %r9, 72(%rax)
    mov %r10, 80(%rax)
    mov %r11, 88(%rax)
    mov %r12, 96(%rax)
    mov %r13, 104(%rax)
    mov %r14, 112(%rax)
    mov %r15, 120(%rax)
    mov kept_rsp(%rip), %rsp
    pushf
    pop flags_at(%rax)
    cld
    mov kept_rax(%rip), %rcx
    mov %rcx, (%rax)
    mov kept_rsp(%rip), %rcx
    sub %rcx, 32(%rax)              /* rsp: the difference, which should be 0 */
    cmpl $2, state_level(%rip)
    je 2f
    cmpl $1, state_level(%rip)
    je 1f
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movdqu %xmm\n, zmm_at + \n * 64(%rax)
    .endr
    jmp 3f
1:  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqu %ymm\n, zmm_at + \n * 64(%rax)
    .endr
    vzeroupper
    jmp 3f
2:  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vmovdqu64 %zmm\n, zmm_at + \n * 64(%rax)
    .endr
    .irp n, 0,1,2,3,4,5,6,7
    kmovw %k\n, mask_at + \n * 8(%rax)
    .endr
    vzeroupper
3:  .irp n, 3,2,1,0
    fstpt x87_at + \n * 16(%rax)
    .endr
    fnclex
    mov kept_rbp(%rip), %rbp
    lea -40(%rbp), %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
end call_with_state

function touch_nothing
    nop
    nop
    nop
    nop
    nop
    nop
    ret
end touch_nothing

/* Calls another hooked function, and touches nothing itself. */
function touch_nothing_twice
    call touch_nothing
    call touch_nothing
    ret
end touch_nothing_twice

function set_carry
    stc
    ret
    .skip 6, 0xcc
end set_carry

function clear_carry
    clc
    ret
    .skip 6, 0xcc
end clear_carry

/* All six arithmetic flags out: rdi gives them. */
function set_flags
    push %rdi
    popf
    ret
    .skip 6, 0xcc
end set_flags

/* The caller's carry in: returns rdi + carry. */
function add_carry
    adc $0, %rdi
    mov %rdi, %rax
    ret
end add_carry

/* The caller's flags in, as a value. */
function read_flags
    pushf
    pop %rax
    ret
    .skip 8, 0xcc
end read_flags

/* int jump_on_carry(void): the caller's view of flags that callees return. */
function jump_on_carry
    sub $8, %rsp
    xor %eax, %eax
    call set_carry
    jnc 1f
    mov $1, %eax
1:  call clear_carry
    jc 1f
    add $2, %eax
1:  add $8, %rsp
    ret
end jump_on_carry

/* long chained_carry(long x): a 3-step add with carry through a function. */
function chained_carry
    sub $8, %rsp
    stc
    call add_carry      /* x + 1 */
    mov %rax, %rdi
    clc
    call add_carry      /* x + 1 */
    mov %rax, %rdi
    stc
    call add_carry      /* x + 2 */
    add $8, %rsp
    ret
end chained_carry

    .bss
    .balign 8
callee_pointer: .skip 8
out_pointer:    .skip 8
kept_rax:       .skip 8
kept_rbp:       .skip 8
kept_rsp:       .skip 8
    .globl state_level
    .hidden state_level
state_level:    .skip 4
    .section .note.GNU-stack, "", @progbits
