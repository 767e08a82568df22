/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_x64.S: calls and returns with a listener. */

/* ---- listeners: the full context ---- */

/* Builds struct ct_cpu_x64 on the stack at rbx and saves the vector state below it. `gap`: bytes between the structure
 * and what was on the stack. After this the C code may use every register. */
.macro SAVE_CONTEXT gap
    lea -(152+\gap)(%rsp), %rsp
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
    pushfq
    pop 136(%rbx)
    cld
    LOAD_BLOCK
    sub BLOCK(CT_BLOCK_VECTORS_SIZE), %rsp
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
    mov BLOCK(CT_BLOCK_VECTORS_PARTS), %eax
    xor %edx, %edx
    xsave64 (%rsp)
    fninit
    push $0x1f80
    ldmxcsr (%rsp)
    lea 8(%rsp), %rsp
.endm
.macro RESTORE_CONTEXT gap
    LOAD_BLOCK
    mov BLOCK(CT_BLOCK_VECTORS_PARTS), %eax
    xor %edx, %edx
    mov 144(%rbx), %rsp
    xrstor64 (%rsp)
    mov %rbx, %rsp
    push 136(%rsp)
    popfq
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
    lea 152+\gap(%rsp), %rsp
.endm

FUNCTION NAME(enter_listen)               /* stack: stub word, return address = S */
    SAVE_CONTEXT 0
    mov %rbx, %rdi
    lea 160(%rbx), %rsi
    mov 152(%rbx), %rdx
    mov %rsi, 32(%rbx)
    call *BLOCK(CT_BLOCK_FN_ON_CALL)
    mov 152(%rbx), %rcx
    cmp $1, %rax
    jb 1f
    ja 2f
    mov %rcx, 160(%rbx)                     /* observed: return to the stub from S, so that rsp becomes S + 8 */
    RESTORE_CONTEXT 8
    ret
1:  movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rax
2:  mov %rax, 152(%rbx)                     /* to the body, or elsewhere */
    RESTORE_CONTEXT 0
    ret

FUNCTION NAME(leave_listen)               /* rsp = S + 8 */
    lea -8(%rsp), %rsp
    SAVE_CONTEXT 0
    mov %rbx, %rdi
    lea 152(%rbx), %rsi
    lea 160(%rbx), %rax
    mov %rax, 32(%rbx)
    call *BLOCK(CT_BLOCK_FN_ON_RETURN)
    mov %rax, 152(%rbx)
    RESTORE_CONTEXT 0
    ret
