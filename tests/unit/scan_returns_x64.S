/* SPDX-License-Identifier: Apache-2.0 */
/* Part of scan_forms_x64.S: functions that use their return address. */

/* ---- the return address: read, changed, popped ---- */

CASE USES_RETURN, "mov from it at the entry"
    mov (%rsp), %rax
    ret
END
CASE USES_RETURN, "behind a landing pad"
    endbr64
    mov (%rsp), %rax
    ret
END
CASE USES_RETURN, "after pushes"
    push %rbx
    push %r12
    mov 16(%rsp), %rdi
    pop %r12
    pop %rbx
    ret
END
CASE USES_RETURN, "after push of rax, the first register"
    push %rax
    mov 8(%rsp), %rdi
    pop %rax
    ret
END
CASE USES_RETURN, "after push of rdi, the last of the old ones"
    push %rdi
    mov 8(%rsp), %rax
    pop %rdi
    ret
END
CASE USES_RETURN, "after instructions that look a little like stack operations"
    incq (%rdi)
    xchg %rbx, %rcx
    cmp %rax, %rsp
    add %rax, %rcx
    mov (%rsp), %rax
    ret
END
CASE USES_RETURN, "after push of a constant, of flags, of memory"
    push $1
    push $0x12345
    pushfq
    push (%rdi)
    mov 32(%rsp), %rax
    add $32, %rsp
    ret
END
CASE USES_RETURN, "after sub with a small constant"
    sub $24, %rsp
    mov 24(%rsp), %rax
    add $24, %rsp
    ret
END
CASE USES_RETURN, "after sub with a large constant"
    sub $0x1000, %rsp
    mov 0x1000(%rsp), %rax
    add $0x1000, %rsp
    ret
END
CASE USES_RETURN, "after add of a negative constant"
    add $-128, %rsp
    mov 128(%rsp), %rax
    sub $-128, %rsp
    ret
END
CASE USES_RETURN, "after lea of rsp"
    lea -24(%rsp), %rsp
    mov 24(%rsp), %rax
    lea 24(%rsp), %rsp
    ret
END
CASE USES_RETURN, "through a frame pointer"
    push %rbp
    mov %rsp, %rbp
    sub $32, %rsp
    mov 8(%rbp), %rax
    leave
    ret
END
CASE USES_RETURN, "through a frame pointer, the stack realigned"
    push %rbp
    mov %rsp, %rbp
    and $-32, %rsp
    mov 8(%rbp), %rax
    leave
    ret
END
CASE USES_RETURN, "through a frame pointer, after alloca"
    push %rbp
    mov %rsp, %rbp
    sub %rax, %rsp
    mov 8(%rbp), %rax
    leave
    ret
END
CASE USES_RETURN, "through a frame pointer, after pops of other registers"
    push %rbp
    mov %rsp, %rbp
    push %rbx
    push %r13
    pop %r13
    pop %rbx
    mov 8(%rbp), %rax
    pop %rbp
    ret
END
CASE USES_RETURN, "after leave"
    push %rbp
    mov %rsp, %rbp
    sub $32, %rsp
    leave
    mov (%rsp), %rax
    ret
END
CASE USES_RETURN, "after mov to rsp from the frame pointer"
    push %rbp
    mov %rsp, %rbp
    sub %rax, %rsp
    mov %rbp, %rsp
    mov 8(%rsp), %rax
    pop %rbp
    ret
END
CASE USES_RETURN, "after lea to rsp from the frame pointer"
    push %rbp
    mov %rsp, %rbp
    push %rbx
    sub %rax, %rsp
    lea -8(%rbp), %rsp
    mov 16(%rsp), %rax
    pop %rbx
    pop %rbp
    ret
END
CASE USES_RETURN | INDIRECT, "pop"
    pop %rax
    jmp *%rax
END
CASE USES_RETURN | INDIRECT, "pop to memory"
    pop (%rdi)
    jmp *(%rdi)
END
CASE USES_RETURN | INDIRECT, "pop after what was pushed is gone"
    push %rbx
    pop %rbx
    pop %rcx
    jmp *%rcx
END
CASE USES_RETURN, "behind a forward branch over a return"
    sub $8, %rsp
    test %edi, %edi
    je 0f
    add $8, %rsp
    ret
0:  mov 8(%rsp), %rax
    add $8, %rsp
    ret
END
CASE USES_RETURN, "behind a forward branch over a jump"
    push %rbp
    mov %rsp, %rbp
    test %edi, %edi
    je 0f
    pop %rbp
    jmp 1f
0:  mov 8(%rbp), %rax
    pop %rbp
1:  ret
END
CASE USES_RETURN, "lea of its place"
    lea (%rsp), %rax
    ret
END
CASE USES_RETURN, "lea of its place after a push"
    push %rbx
    lea 8(%rsp), %rdi
    pop %rbx
    ret
END
CASE USES_RETURN, "add to it"
    addq $4, (%rsp)
    ret
END
CASE USES_RETURN, "store over it"
    mov %rdi, (%rsp)
    ret
END
CASE USES_RETURN, "exchange with it"
    xchg %rdi, (%rsp)
    ret
END
CASE USES_RETURN, "compare with it"
    cmp %rdi, (%rsp)
    ret
END
CASE USES_RETURN, "push it"
    push (%rsp)
    call *%rax
    pop %rcx
    ret
END
CASE USES_RETURN, "call through it"
    call *(%rsp)
    ret
END
CASE USES_RETURN | INDIRECT, "jump through it"
    jmp *(%rsp)
END
CASE USES_RETURN, "to a vector register"
    movq (%rsp), %xmm0
    ret
END
CASE USES_RETURN, "16 bytes to a vector register"
    movups (%rsp), %xmm0
    ret
END
