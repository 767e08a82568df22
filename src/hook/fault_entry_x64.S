/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel goes on a fault, and where a handler returns to after a fault in a moved instruction: see
 * fault.h. */
#include "hook/layout.h"
#include "hook/stub_x64.h"

    .text

/* Registers are as the kernel leaves them: rdi, rsi, rdx are the handler's arguments, rax is 0, the restorer is at rsp.
 * The handler gets them unchanged. */
    .globl ct_fault_entry
    .hidden ct_fault_entry
    .balign 32
ct_fault_entry:
    push %rdi
    push %rsi
    push %rdx
    lea 24(%rsp), %rcx
    call ct_fault_delivered
    pop %rdx
    pop %rsi
    pop %rdi
    mov %rax, %r11
    xor %eax, %eax
    test %r11, %r11
    jz 1f
    jmp *%r11
1:  ret

/* rt_sigreturn, for programs that have not said how their handlers return. */
    .globl ct_fault_restore
    .hidden ct_fault_restore
    .balign 16
ct_fault_restore:
    mov $15, %eax
    syscall
    ud2

/* What a shadow entry needs of a stub: an address to know it by, a place to return to, and a number. */
    .globl ct_fault_stub
    .hidden ct_fault_stub
    .balign 16
ct_fault_stub:
    .skip CT_STUB_RESUME, 0xcc
    .byte 0xe9
    .long returned - . - 4
    .short 0x9090
    .long CT_HOOK_NONE

/* rsp is just above the slot, where the frame's ucontext begins. The kernel will restore all registers. */
returned:
    lea -8(%rsp), %rdi
    lea -16(%rsp), %rsp
    call ct_fault_returned
    mov %rax, 8(%rsp)
    lea 8(%rsp), %rsp
    ret

    .section .note.GNU-stack,"",@progbits
