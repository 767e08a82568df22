/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for scan_test: each with the flags that the scan must find, no more and no less.
 *
 * None of them runs. CASE opens a function and notes it in the table `scan_forms`, END closes it. */

#define LOOPED         1
#define CLONES         2
#define USES_RETURN    4
#define CONDITIONAL    8
#define INDIRECT       16
#define POPS_ARGUMENTS 32
#define LONGJMP        64
#define SETS_STACK     256
#define TAKES_GS       1024
#define REALS          2048
#define SYSCALLS       4096

.macro CASE flags, text
    .pushsection .rodata
96: .asciz "\text"
    .popsection
97:
    .pushsection .data.rel.ro.scan_forms, "aw"
    .balign 8
    .quad 96b, 97b, 98f, \flags
    .popsection
.endm
.macro END
98:
.endm

    .pushsection .data.rel.ro.scan_forms, "aw"
    .balign 8
    .globl scan_forms
    .hidden scan_forms
scan_forms:
    .popsection

    .text

/* ---- loops to the entry ---- */

CASE LOOPED, "a short conditional jump to the entry"
0:  dec %edi
    jne 0b
    ret
END
CASE LOOPED, "a near conditional jump to the entry"
0:  dec %edi
    .byte 0x0f, 0x85
    .long 0b - 1f
1:  ret
END
CASE LOOPED, "a short jump to the entry"
0:  dec %edi
    je 1f
    jmp 0b
1:  ret
END
CASE LOOPED, "a near jump to the entry"
0:  dec %edi
    je 1f
    .byte 0xe9
    .long 0b - 1f
1:  ret
END
CASE LOOPED, "loop to the entry"
0:  inc %eax
    loop 0b
    ret
END
CASE LOOPED, "jrcxz to the entry"
0:  inc %eax
    jrcxz 0b
    ret
END
CASE LOOPED, "a jump behind the landing pad"
    endbr64
0:  dec %edi
    jne 0b
    ret
END
CASE LOOPED, "a jump to the landing pad itself"
0:  endbr64
    dec %edi
    jne 0b
    ret
END
CASE 0, "a jump to the second instruction"
    dec %esi
0:  dec %edi
    jne 0b
    ret
END
CASE 0, "a jump to the fifth byte, where there is no landing pad"
    .byte 0x0f, 0x1f, 0x40, 0x00 /* nop of four bytes */
0:  dec %edi
    jne 0b
    ret
END
CASE 0, "a call of itself is no loop"
0:  dec %edi
    je 1f
    call 0b
1:  ret
END

/* ---- clone and vfork ---- */

CASE CLONES|SYSCALLS, "clone"
    mov $56, %eax
    syscall
    ret
END
CASE CLONES|SYSCALLS, "vfork"
    mov $58, %eax
    syscall
    ret
END
CASE CLONES|SYSCALLS, "clone3, other things in between"
    mov $435, %eax
    mov %rdi, %r8
    syscall
    ret
END
CASE CLONES|SYSCALLS, "clone as musl calls it"
    xor %eax, %eax
    mov $56, %al
    mov %rdi, %r11
    syscall
    ret
END
CASE SETS_STACK|SYSCALLS, "where signal handlers return to"
    mov $15, %eax
    syscall
END
CASE SETS_STACK|SYSCALLS, "the same, as musl has it"
    mov $15, %rax
    syscall
END
CASE SYSCALLS, "the number of rt_sigreturn, far from the beginning"
    mov $15, %eax
    lea 0x12345678(%rdi), %rdx
    lea 0x12345678(%rsi), %rdi
    syscall
    ret
END

/* ---- GS ---- */

CASE TAKES_GS, "wrgsbase"
    wrgsbase %rdi
    ret
END
CASE TAKES_GS, "wrgsbase of 32 bits"
    wrgsbase %r9d
    ret
END
CASE TAKES_GS, "a selector for gs"
    mov %edi, %gs
    ret
END
CASE TAKES_GS|SYSCALLS, "arch_prctl(ARCH_SET_GS)"
    mov %rdi, %rsi
    mov $0x1001, %edi
    mov $158, %eax
    syscall
    ret
END
CASE SYSCALLS, "arch_prctl(ARCH_SET_FS)"
    mov %rdi, %rsi
    mov $0x1002, %edi
    mov $158, %eax
    syscall
    ret
END
CASE 0, "wrfsbase, rdgsbase, a selector for fs, ldmxcsr"
    wrfsbase %rdi
    rdgsbase %rax
    mov %edi, %fs
    ldmxcsr (%rdi)
    ret
END

CASE SYSCALLS, "fork"
    mov $57, %eax
    syscall
    ret
END
CASE 0, "the number of clone, but no system call"
    mov $56, %eax
    ret
END
CASE SYSCALLS, "another number after clone's"
    mov $56, %eax
    mov $39, %eax
    syscall
    ret
END
CASE SYSCALLS, "the number in another register"
    mov $56, %ecx
    syscall
    ret
END

#include "scan_returns_x64.S"

/* ---- floating-point numbers ---- */

CASE REALS, "an addition"
    addsd %xmm1, %xmm0
    ret
END
CASE REALS, "a load of one number"
    movss (%rdi), %xmm0
    ret
END
CASE REALS, "a store of one number"
    movsd %xmm0, (%rdi)
    ret
END
CASE REALS, "a comparison"
    comisd %xmm1, %xmm0
    ret
END
CASE REALS, "a copy from register to register"
    movaps %xmm1, %xmm0
    ret
END
CASE REALS, "a changed sign"
    xorps (%rdi), %xmm0
    ret
END
CASE REALS, "a sign that is looked at"
    movmskpd %xmm0, %eax
    ret
END
CASE REALS, "a conversion to an integer"
    cvttsd2si %xmm0, %eax
    ret
END
CASE REALS, "AVX: a multiplication"
    vmulsd %xmm1, %xmm0, %xmm0
    ret
END
CASE REALS, "AVX: a changed sign"
    vxorps %xmm1, %xmm0, %xmm0
    ret
END
CASE REALS, "AVX: a copy of one number"
    vmovsd (%rdi), %xmm0
    ret
END
CASE REALS, "a fused multiplication"
    vfmadd213sd %xmm2, %xmm1, %xmm0
    ret
END
CASE REALS, "rounding"
    roundsd $9, %xmm0, %xmm0
    ret
END
CASE 0, "bytes are copied: movdqu"
    movdqu (%rdi), %xmm0
    ret
END
CASE 0, "bytes are copied: movups"
    movups %xmm0, (%rdi)
    ret
END
CASE 0, "arguments of a variadic function"
    movaps %xmm7, -16(%rsp)
    ret
END
CASE 0, "memory is cleared"
    xorps %xmm0, %xmm0
    movups %xmm0, (%rdi)
    ret
END
CASE 0, "AVX: memory is cleared"
    vxorps %xmm0, %xmm0, %xmm0
    vmovups %xmm0, (%rdi)
    ret
END
CASE 0, "another register than that of results is cleared"
    xorps %xmm1, %xmm1
    ret
END
CASE 0, "MMX: a register is cleared"
    pxor %mm0, %mm0
    ret
END
CASE REALS, "0 is the result"
    xorps %xmm0, %xmm0
    ret
END
CASE REALS, "0 is the result, cleared as an integer"
    pxor %xmm0, %xmm0
    ret
END
CASE REALS, "AVX: 0 is the result"
    vxorps %xmm0, %xmm0, %xmm0
    ret
END
CASE 0, "integers in vectors"
    pxor %xmm1, %xmm0
    ret
END
CASE 0, "AVX: integers in vectors"
    vpaddd %xmm1, %xmm0, %xmm0
    ret
END
CASE 0, "8 bytes are copied"
    movq (%rdi), %xmm0
    ret
END
CASE 0, "bytes are compared"
    pmovmskb %xmm0, %eax
    ret
END

#include "scan_others_x64.S"

/* ---- ret n ---- */

CASE POPS_ARGUMENTS, "ret 8"
    ret $8
END
CASE POPS_ARGUMENTS, "one of two returns"
    test %edi, %edi
    je 0f
    ret
0:  ret $16
END
CASE 0, "rep ret"
    rep
    ret
END
CASE 0, "ret 0"
    .byte 0xc2, 0, 0
END

/* ---- longjmp ---- */

CASE LONGJMP | INDIRECT, "longjmp as libc has it"
    mov 0x30(%rdi), %r8
    mov 0x38(%rdi), %rdx
    ror $0x11, %r8
    xor %fs:0x30, %r8
    ror $0x11, %rdx
    xor %fs:0x30, %rdx
    mov (%rdi), %rbx
    mov %esi, %eax
    mov %r8, %rsp
    jmp *%rdx
END
CASE 0, "setjmp scrambles with the same secret"
    lea 8(%rsp), %rdx
    xor %fs:0x30, %rdx
    rol $0x11, %rdx
    mov %rdx, 0x30(%rdi)
    xor %eax, %eax
    ret
END
CASE SETS_STACK | INDIRECT, "a stack switch without the secret"
    mov %rdi, %rsp
    jmp *%rsi
END
CASE INDIRECT, "a pointer is unscrambled and called"
    mov (%rdi), %rax
    ror $0x11, %rax
    xor %fs:0x30, %rax
    jmp *%rax
END
CASE INDIRECT, "another word of the thread control block"
    xor %fs:0x28, %rdx
    mov %r8, %rsp
    jmp *%rdx
END

/* ---- jumps through pointers ---- */

CASE INDIRECT, "a jump through memory"
    mov (%rdi), %rax
    jmp *48(%rax)
END
CASE 0, "a jump to an imported function"
    jmp *scan_forms(%rip)
END

/* ---- what does not decode ---- */

CASE 0, "a byte that is no instruction in 64-bit mode"
    xor %eax, %eax
    .byte 0x06
    ret
END
CASE 0, "an instruction that the function's end cuts"
    xor %eax, %eax
    .byte 0xe9, 0, 0
END

    .pushsection .data.rel.ro.scan_forms, "aw"
    .quad 0, 0, 0, 0
    .popsection

    .section .note.GNU-stack, "", @progbits
