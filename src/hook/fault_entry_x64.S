/* Where the kernel goes with a fault, and where a handler returns to after one in a moved instruction: see fault.h. */
#include "hook/layout.h"
#include "hook/stub_x64.h"

    .text

/* As the kernel leaves it: rdi, rsi, rdx the handler's arguments, rax 0, at rsp the restorer. The handler gets the same. */
    .globl ct_fault_entry
    .hidden ct_fault_entry
    .balign 32
ct_fault_entry:
    push %rdi
    push %rsi
    push %rdx
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

/* What a shadow entry needs of a stub: it is known by its address, has a place to return to, and a number. */
    .globl ct_fault_stub
    .hidden ct_fault_stub
    .balign 16
ct_fault_stub:
    .skip CT_STUB_RESUME, 0xcc
    .byte 0xe9
    .long returned - . - 4
    .short 0x9090
    .long CT_HOOK_NONE

/* rsp is behind the slot, where the frame's ucontext begins. The kernel will restore all registers. */
returned:
    lea -8(%rsp), %rdi
    lea -16(%rsp), %rsp
    call ct_fault_returned
    mov %rax, 8(%rsp)
    lea 8(%rsp), %rsp
    ret

    .section .note.GNU-stack,"",@progbits
