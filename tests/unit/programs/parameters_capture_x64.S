/* SPDX-License-Identifier: Apache-2.0 */
/* Calls `capture_target` with everything as it is, and keeps what a detail record would have: registers, vector
 * registers and 512 bytes of stack on entry, the registers of the result on return. One call at a time. */
        .intel_syntax noprefix
        .text
        .globl  capture
        .hidden capture
        .hidden capture_target
        .hidden capture_call
        .hidden capture_return
        .type   capture, @function
capture:
        mov     [rip + capture_call], rdi
        mov     [rip + capture_call + 8], rsi
        mov     [rip + capture_call + 16], rdx
        mov     [rip + capture_call + 24], rcx
        mov     [rip + capture_call + 32], r8
        mov     [rip + capture_call + 40], r9
        mov     [rip + capture_call + 48], rax
        mov     [rip + capture_call + 56], r10
        mov     [rip + capture_call + 64], rsp
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7
        movups  [rip + capture_call + 72 + 16 * \n], xmm\n
        .endr
        lea     rdi, [rip + capture_call + 200]
        mov     rsi, rsp
        mov     ecx, 64
        cld
        rep movsq
        mov     rdi, [rip + capture_call]
        mov     rsi, [rip + capture_call + 8]
        mov     rcx, [rip + capture_call + 24]
        pop     r11
        mov     [rip + back], r11
        lea     r11, [rip + 1f]
        push    r11
        jmp     [rip + capture_target]
1:
        mov     [rip + capture_return], rax
        mov     [rip + capture_return + 8], rdx
        movups  [rip + capture_return + 72], xmm0
        movups  [rip + capture_return + 88], xmm1
        jmp     [rip + back]
        .size   capture, . - capture

        .local  back
        .comm   back, 8, 8
        .section .note.GNU-stack, "", @progbits
