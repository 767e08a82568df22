/* SPDX-License-Identifier: Apache-2.0 */
/* int spin_and_check(uint64_t iterations, const void *in, void *out)
 *
 * Spins with known values in every register, the flags, the red zone and the vector registers; 0 when they are all
 * still there. The vector registers (16 times 16 bytes) come from `in` and are stored to `out`. */
        .set    FLAGS, 0xc95            /* CF PF AF SF OF DF */
        .set    PATTERN, 0x12345600

        .text
        .globl  spin_and_check
        .type   spin_and_check, @function
spin_and_check:
        push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        push    %rdx
        mov     %rdi, %rcx
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        movdqu  \n * 16(%rsi), %xmm\n
        .endr
        push    $FLAGS
        popfq
        .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
        movq    $(PATTERN + \n), -8 * \n(%rsp)
        .endr
        .irp r, ax, bx, dx, si, di, bp
        mov     $PATTERN, %r\r
        .endr
        .irp n, 8, 9, 10, 11, 12, 13, 14, 15
        mov     $(PATTERN + \n), %r\n
        .endr
1:      lea     -1(%rcx), %rcx          /* neither changes flags */
        jrcxz   2f
        jmp     1b
2:      lea     -128(%rsp), %rsp
        pushfq
        pop     %rcx
        cld
        lea     128(%rsp), %rsp
        and     $0xcd5, %ecx
        cmp     $FLAGS, %ecx
        jne     bad
        .irp r, ax, bx, dx, si, di, bp
        cmp     $PATTERN, %r\r
        jne     bad
        .endr
        .irp n, 8, 9, 10, 11, 12, 13, 14, 15
        cmp     $(PATTERN + \n), %r\n
        jne     bad
        .endr
        .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
        cmpq    $(PATTERN + \n), -8 * \n(%rsp)
        jne     bad
        .endr
        xor     %eax, %eax
        jmp     3f
bad:    mov     $1, %eax
3:      pop     %rdx
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        movdqu  %xmm\n, \n * 16(%rdx)
        .endr
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   spin_and_check, . - spin_and_check

/* uint64_t sum_of_six(a, b, c, d, e, f): what tests call from outside. */
        .globl  sum_of_six
        .type   sum_of_six, @function
sum_of_six:
        lea     (%rdi, %rsi), %rax
        add     %rdx, %rax
        add     %rcx, %rax
        add     %r8, %rax
        add     %r9, %rax
        ret
        .size   sum_of_six, . - sum_of_six

        .globl  fault
        .type   fault, @function
fault:  mov     0, %rax
        ret
        .size   fault, . - fault
        .section .note.GNU-stack, "", @progbits
