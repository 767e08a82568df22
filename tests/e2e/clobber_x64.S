/* SPDX-License-Identifier: Apache-2.0 */
/* unsigned e2e_clobber_level(int level): destroys what the ABI lets a C function destroy.
 * level 0: SSE, 1: AVX, 2: AVX-512. Returns the x87 status word after eight loads on a stack that should be empty. */
    .text
    .globl e2e_clobber_level
    .hidden e2e_clobber_level
    .type e2e_clobber_level, @function
e2e_clobber_level:
    fnclex
    .rept 8
    fldpi
    .endr
    fnstsw %ax
    movzwl %ax, %eax
    .rept 8
    fstp %st(0)
    .endr
    fnclex
    pcmpeqd %xmm0, %xmm0
    pslld $7, %xmm0
    .irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movdqa %xmm0, %xmm\n
    .endr
    cmp $1, %edi
    jb 9f
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vinsertf128 $1, %xmm0, %ymm0, %ymm\n
    .endr
    cmp $2, %edi
    jb 8f
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vpternlogd $0xff, %zmm\n, %zmm\n, %zmm\n
    .endr
    .irp n, 0,1,2,3,4,5,6,7
    kxnorw %k\n, %k\n, %k\n
    .endr
8:  vzeroupper
9:  mov $0x5a5a5a5a5a5a5a5a, %rcx
    mov %rcx, %rdx
    mov %rcx, %rsi
    mov %rcx, %rdi
    mov %rcx, %r8
    mov %rcx, %r9
    mov %rcx, %r10
    mov %rcx, %r11
    ret
    .size e2e_clobber_level, . - e2e_clobber_level
    .section .note.GNU-stack, "", @progbits
