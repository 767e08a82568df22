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

/* A function that scripts serve: struct ct_cpu_x64 is built at rbx, with the vector state below it. The number that the
 * thunk has pushed is above it, and then the return address of the caller. */
    .globl ct_script_callback_entry
    .hidden ct_script_callback_entry
    .type ct_script_callback_entry, @function
ct_script_callback_entry:
    lea -152(%rsp), %rsp
    mov %rax, 0(%rsp)
    mov %rcx, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rbx, 24(%rsp)
    mov %rbp, 40(%rsp)
    mov %rsi, 48(%rsp)
    mov %rdi, 56(%rsp)
    mov %r8, 64(%rsp)
    mov %r9, 72(%rsp)
    mov %r10, 80(%rsp)
    mov %r11, 88(%rsp)
    mov %r12, 96(%rsp)
    mov %r13, 104(%rsp)
    mov %r14, 112(%rsp)
    mov %r15, 120(%rsp)
    mov %rsp, %rbx
    lea 160(%rbx), %rax
    mov %rax, 32(%rbx)
    mov %rax, 128(%rbx)
    pushfq
    pop 136(%rbx)
    cld
    sub ct_script_vectors(%rip), %rsp
    and $-64, %rsp
    mov %rsp, 144(%rbx)
    xor %eax, %eax
    mov %rax, 512(%rsp)
    mov %rax, 520(%rsp)
    mov %rax, 528(%rsp)
    mov %rax, 536(%rsp)
    mov %rax, 544(%rsp)
    mov %rax, 552(%rsp)
    mov %rax, 560(%rsp)
    mov %rax, 568(%rsp)
    mov ct_script_vectors+8(%rip), %eax
    xor %edx, %edx
    xsave64 (%rsp)
    mov %rbx, %rdi
    mov 152(%rbx), %rsi
    call ct_script_on_callback
    mov ct_script_vectors+8(%rip), %eax
    xor %edx, %edx
    mov 144(%rbx), %rsp
    xrstor64 (%rsp)
    mov %rbx, %rsp
    mov 0(%rsp), %rax
    mov 8(%rsp), %rcx
    mov 16(%rsp), %rdx
    mov 24(%rsp), %rbx
    mov 40(%rsp), %rbp
    mov 48(%rsp), %rsi
    mov 56(%rsp), %rdi
    mov 64(%rsp), %r8
    mov 72(%rsp), %r9
    mov 80(%rsp), %r10
    mov 88(%rsp), %r11
    mov 96(%rsp), %r12
    mov 104(%rsp), %r13
    mov 112(%rsp), %r14
    mov 120(%rsp), %r15
    lea 160(%rsp), %rsp
    ret
    .size ct_script_callback_entry, . - ct_script_callback_entry
    .section .note.GNU-stack, "", @progbits
