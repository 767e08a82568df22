/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_x64.S: helpers of the C slow paths. They are not copied to stubs. */

FUNCTION ct_hook_on_stack                   /* stack, fn, a, b */
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    mov %rdi, %rsp
    mov %rsi, %rax
    mov %rdx, %rdi
    mov %rcx, %rsi
    call *%rax
    mov %rbp, %rsp
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc

FUNCTION ct_hook_call_saved                 /* vectors (size, parts), fn, arg */
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    push %rbx
    push %r12
    .cfi_offset %rbx, -24
    .cfi_offset %r12, -32
    mov %rsi, %rbx
    mov %rdx, %r8
    mov %rcx, %r9
    sub %rdi, %rsp
    and $-64, %rsp
    mov %rsp, %r12
    xor %eax, %eax
    lea 512(%rsp), %rdi
    mov $8, %ecx
    rep stosq
    mov %ebx, %eax
    xor %edx, %edx
    xsave64 (%r12)
    fninit
    push $0x1f80
    ldmxcsr (%rsp)
    lea 8(%rsp), %rsp
    mov %r9, %rdi
    mov %r12, %rsi
    call *%r8
    mov %ebx, %eax
    xor %edx, %edx
    xrstor64 (%r12)
    lea -16(%rbp), %rsp
    pop %r12
    pop %rbx
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
