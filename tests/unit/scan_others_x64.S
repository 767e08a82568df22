/* SPDX-License-Identifier: Apache-2.0 */
/* Part of scan_forms_x64.S: functions that look as if they used their return address, and do not. */

/* ---- not the return address ---- */

CASE 0, "the seventh argument at the entry"
    mov 8(%rsp), %rax
    ret
END
CASE 0, "the seventh argument after pushes"
    push %rbx
    sub $16, %rsp
    mov 32(%rsp), %rax
    add $16, %rsp
    pop %rbx
    ret
END
CASE 0, "the seventh argument through a frame pointer"
    push %rbp
    mov %rsp, %rbp
    mov 16(%rbp), %rax
    pop %rbp
    ret
END
CASE 0, "its own pushed register"
    push %rbx
    mov (%rsp), %rax
    pop %rbx
    ret
END
CASE 0, "the saved frame pointer"
    push %rbp
    mov %rsp, %rbp
    mov (%rbp), %rax
    pop %rbp
    ret
END
CASE 0, "a local below it: the red zone"
    mov %rdi, -8(%rsp)
    mov -8(%rsp), %rax
    ret
END
CASE 0, "the address of the seventh argument, for va_start"
    lea 8(%rsp), %rax
    ret
END
CASE 0, "a realigned stack: no depth is known"
    and $-32, %rsp
    mov (%rsp), %rax
    hlt
END
CASE 0, "the compiler's realignment with a copy of the return address"
    lea 8(%rsp), %r10
    and $-32, %rsp
    push -8(%r10)
    push %rbp
    mov %rsp, %rbp
    push %r10
    sub $24, %rsp
    mov -8(%rbp), %r10
    leave
    lea -8(%r10), %rsp
    ret
END
CASE 0, "another stack: xchg of rsp"
    xchg %rdi, %rsp
    mov (%rsp), %rax
    xchg %rdi, %rsp
    ret
END
CASE 0, "another stack: the short xchg"
    xchg %rax, %rsp
    mov (%rsp), %rax
    hlt
END
CASE SETS_STACK, "another stack: mov to rsp"
    mov %rdi, %rsp
    mov (%rsp), %rax
    pop %rcx
    hlt
END
CASE 0, "another stack: rsp from memory"
    mov (%rdi), %rsp
    pop %rcx
    hlt
END
CASE 0, "another stack: lea of rsp from another register"
    lea 64(%rdi), %rsp
    mov (%rsp), %rax
    hlt
END
CASE 0, "another stack, although there is a frame pointer"
    push %rbp
    mov %rsp, %rbp
    mov %rdi, %rsp
    mov 8(%rsp), %rax
    hlt
END
CASE 0, "a pushed register, after lea to rsp from the frame pointer"
    push %rbp
    mov %rsp, %rbp
    push %rbx
    sub %rax, %rsp
    lea -8(%rbp), %rsp
    mov 8(%rsp), %rax
    pop %rbx
    pop %rbp
    ret
END
CASE 0, "a stack that was aligned with a register"
    and %rax, %rsp
    mov (%rsp), %rcx
    hlt
END
CASE 0, "a stack that grew by a register"
    add %rax, %rsp
    mov (%rsp), %rcx
    hlt
END
CASE 0, "alloca without a frame pointer"
    sub %rax, %rsp
    mov (%rsp), %rcx
    hlt
END
CASE 0, "32 bits of it"
    mov (%rsp), %eax
    ret
END
CASE 0, "32 bits through a frame pointer"
    push %rbp
    mov %rsp, %rbp
    mov 8(%rbp), %eax
    pop %rbp
    ret
END
CASE 0, "a byte of it: probing the stack"
    orb $0, (%rsp)
    ret
END
CASE 0, "probing the stack with 32 bits"
    orl $0, (%rsp)
    ret
END
CASE 0, "r12, which is encoded like rsp"
    mov (%r12), %rax
    ret
END
CASE 0, "r13, which is encoded like rbp"
    push %rbp
    mov %rsp, %rbp
    mov 8(%r13), %rax
    pop %rbp
    ret
END
CASE 0, "rbp as an ordinary register"
    mov 8(%rbp), %rax
    ret
END
CASE 0, "rbp after another value was moved to it"
    push %rbp
    mov %rsp, %rbp
    mov %rdi, %rbp
    mov 8(%rbp), %rax
    pop %rbp
    ret
END
CASE 0, "rbp after lea"
    push %rbp
    mov %rsp, %rbp
    lea 8(%rdi), %rbp
    mov 8(%rbp), %rax
    pop %rbp
    ret
END
CASE 0, "rbp after it was popped"
    push %rbp
    mov %rsp, %rbp
    pop %rbp
    mov 8(%rbp), %rax
    ret
END
CASE 0, "rbp after leave"
    push %rbp
    mov %rsp, %rbp
    leave
    mov 8(%rbp), %rax
    ret
END
CASE 0, "a byte of it, widened"
    movzbl (%rsp), %eax
    ret
END
CASE REALS, "32 bits of it, to a vector register"
    cvtsi2sdl (%rsp), %xmm0
    ret
END
CASE 0, "thread-local storage at an offset that looks like it"
    push %rbp
    mov %rsp, %rbp
    mov %fs:8(%rbp), %rax
    mov %gs:8(%rsp), %rax
    pop %rbp
    ret
END
CASE 0, "behind a return nothing is known of a place that no branch led to"
    push %rbx
    pop %rbx
    ret
    mov (%rsp), %rax
    ret
END
CASE 0, "behind a forward branch the depth is the branch's"
    sub $8, %rsp
    test %edi, %edi
    je 0f
    add $8, %rsp
    ret
0:  mov (%rsp), %rax
    add $8, %rsp
    ret
END
CASE 0, "an ordinary function"
    push %rbp
    mov %rsp, %rbp
    push %rbx
    sub $40, %rsp
    mov %rdi, -24(%rbp)
    call *%rsi
    mov -24(%rbp), %rbx
    add $40, %rsp
    pop %rbx
    pop %rbp
    ret
END
