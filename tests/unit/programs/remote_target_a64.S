/* SPDX-License-Identifier: Apache-2.0 */
/* int spin_and_check(uint64_t iterations, const void *in, void *out)
 *
 * Spins with known values in every register, the flags and the vector registers; 0 when they are all still there. The
 * vector registers (16 times 16 bytes) come from `in` and are stored to `out`. */
        .set    PATTERN, 0x1234

        .text
        .globl  spin_and_check
        .type   spin_and_check, %function
spin_and_check:
        stp     x29, x30, [sp, #-112]!
        stp     x19, x20, [sp, #16]
        stp     x21, x22, [sp, #32]
        stp     x23, x24, [sp, #48]
        stp     x25, x26, [sp, #64]
        stp     x27, x28, [sp, #80]
        stp     x0, x2, [sp, #96]
        mov     x30, x0
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        ldr     q\n, [x1, #(\n * 16)]
        .endr
        mov     x0, #0xb0000000         /* N, C, V */
        msr     nzcv, x0
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
        mov     x\n, #(PATTERN + \n)
        .endr
1:      sub     x30, x30, #1            /* neither changes flags */
        cbnz    x30, 1b
        mrs     x30, nzcv
        lsr     x30, x30, #28
        sub     x30, x30, #0xb
        cbnz    x30, bad
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
        mov     x30, #(PATTERN + \n)
        sub     x30, x30, x\n
        cbnz    x30, bad
        .endr
        mov     x0, #0
        b       3f
bad:    mov     x0, #1
3:      ldr     x2, [sp, #104]
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        str     q\n, [x2, #(\n * 16)]
        .endr
        ldp     x27, x28, [sp, #80]
        ldp     x25, x26, [sp, #64]
        ldp     x23, x24, [sp, #48]
        ldp     x21, x22, [sp, #32]
        ldp     x19, x20, [sp, #16]
        ldp     x29, x30, [sp], #112
        ret
        .size   spin_and_check, . - spin_and_check

/* uint64_t sum_of_six(a, b, c, d, e, f): what tests call from outside. */
        .globl  sum_of_six
        .type   sum_of_six, %function
sum_of_six:
        add     x0, x0, x1
        add     x0, x0, x2
        add     x0, x0, x3
        add     x0, x0, x4
        add     x0, x0, x5
        ret
        .size   sum_of_six, . - sum_of_six

        .globl  fault
        .type   fault, %function
fault:  mov     x0, #0
        ldr     x0, [x0]
        ret
        .size   fault, . - fault
        .section .note.GNU-stack, "", %progbits
