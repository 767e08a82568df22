/* SPDX-License-Identifier: Apache-2.0 */
/* A call with any arguments, as struct ct_script_work (abi/script_abi.h) describes it. */
#define FUNCTION    0
#define INTEGERS    8
#define REALS       72
#define REAL_COUNT  136
#define STACK_COUNT 144
#define STACK       152
#define RESULT      664

    .text
    .globl ct_script_call
    .hidden ct_script_call
    .type ct_script_call, @function
ct_script_call:
    push %rbp
    mov %rsp, %rbp
    push %rbx
    push %r12
    mov %rdi, %rbx
    cmpq $0, FUNCTION(%rbx)
    je 3f
    mov STACK_COUNT(%rbx), %rcx
    lea 0(,%rcx,8), %rax
    sub %rax, %rsp
    and $-16, %rsp
1:  test %rcx, %rcx
    jz 2f
    dec %rcx
    mov STACK(%rbx,%rcx,8), %rax
    mov %rax, (%rsp,%rcx,8)
    jmp 1b
2:  movq REALS(%rbx), %xmm0
    movq REALS+8(%rbx), %xmm1
    movq REALS+16(%rbx), %xmm2
    movq REALS+24(%rbx), %xmm3
    movq REALS+32(%rbx), %xmm4
    movq REALS+40(%rbx), %xmm5
    movq REALS+48(%rbx), %xmm6
    movq REALS+56(%rbx), %xmm7
    mov INTEGERS(%rbx), %rdi
    mov INTEGERS+8(%rbx), %rsi
    mov INTEGERS+16(%rbx), %rdx
    mov INTEGERS+24(%rbx), %rcx
    mov INTEGERS+32(%rbx), %r8
    mov INTEGERS+40(%rbx), %r9
    mov REAL_COUNT(%rbx), %rax
    call *FUNCTION(%rbx)
    mov %rdx, RESULT+8(%rbx)
    movq %xmm0, RESULT+16(%rbx)
    movq %xmm1, RESULT+24(%rbx)
    jmp 4f
3:  mov INTEGERS(%rbx), %rax
    mov INTEGERS+8(%rbx), %rdi
    mov INTEGERS+16(%rbx), %rsi
    mov INTEGERS+24(%rbx), %rdx
    mov INTEGERS+32(%rbx), %r10
    mov INTEGERS+40(%rbx), %r8
    mov INTEGERS+48(%rbx), %r9
    syscall
4:  mov %rax, RESULT(%rbx)
    lea -16(%rbp), %rsp
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size ct_script_call, . - ct_script_call
    .section .note.GNU-stack, "", @progbits
