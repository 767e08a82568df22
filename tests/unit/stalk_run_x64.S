/* SPDX-License-Identifier: Apache-2.0 */
/* void stalk_run(struct stalk_state *state, void *function): all general registers, flags and vector registers come
 * from the state, then the function is called on the state's stack; what it leaves is stored back. One at a time. */
    .text
    .globl stalk_run
    .type stalk_run, @function
stalk_run:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rdi, state(%rip)
    mov %rsi, function(%rip)
    mov %rsp, stack(%rip)
    mov %rdi, %rax
    fxrstor 256(%rax)
    mov 32(%rax), %rsp
    push 128(%rax)
    popfq
    mov 8(%rax), %rcx
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
    mov 0(%rax), %rax
    call *function(%rip)
    mov %rax, kept(%rip)
    mov state(%rip), %rax
    mov %rsp, 32(%rax)
    mov stack(%rip), %rsp
    pushfq
    pop 128(%rax)
    cld
    mov %rcx, 8(%rax)
    mov %rdx, 16(%rax)
    mov %rbx, 24(%rax)
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
    fxsave 256(%rax)
    mov kept(%rip), %rcx
    mov %rcx, 0(%rax)
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
    .size stalk_run, . - stalk_run

    .bss
    .balign 8
state:    .quad 0
function: .quad 0
stack:    .quad 0
kept:     .quad 0
    .section .note.GNU-stack,"",@progbits
