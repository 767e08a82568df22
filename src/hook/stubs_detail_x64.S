/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_x64.S: macros that capture detail. */

/* ---- detail: registers and stack of a call, registers of a return (abi/shm_abi.h) ----
 *
 * rax, rcx and rdx are free here: the program's values are on the stack, above the note (struct ct_detail_note), which
 * has the event's time and tag. A record counts once its first word, stored last, is right. The red zone below rsp is
 * ours, and signal handlers do not touch it. Nothing is ever read back from a record: it may belong to somebody else by
 * then. */

#define CT_DETAIL_AHEAD 640

#define SAVED_RCX (CT_NOTE_SIZE + HELD)
#define SAVED_RDX (SAVED_RCX + 8)
#define SAVED_RAX (SAVED_RCX + 24)

/* Makes the marks of this call or return, if a trigger waits for one; `value` is the function's return value, `slot`
 * the offset of S. Jumps when there is nothing to capture: this thread is not recorded, or the event has no number. */
.macro CHECK_RULES none
    mov BLOCK(CT_BLOCK_RULES), %rcx
    mov CT_NOTE_HOOK(%rsp), %edx
    test %rcx, %rcx
    jz \none
    cmpl $0, (%rcx, %rdx, 4)
    jne 61f
62: cmpl $CT_TAG_STEP, CT_NOTE_TAG(%rsp)
    jb \none
.endm
.macro CHECK_RULES_REST value, slot
61: PUSH_REST
    lea 56(%rbp), %rdi
    mov 56+\value(%rbp), %rsi
    lea 56+\slot(%rbp), %rdx
    lea 8(%rbp), %rcx
    CALL_SLOW CT_BLOCK_FN_MARK
    POP_REST
    jmp 62b
.endm

/* rax: a record of the size that is in the block at `size`; both its ends are in one chunk. */
.macro RESERVE_DETAIL size
    mov BLOCK(\size), %rax
    mov %rax, %rdx
    xadd %rax, BLOCK(CT_BLOCK_DETAIL_CURSOR)
    lea -1(%rax, %rdx), %rdx
    and %rax, %rdx
    test %rdx, BLOCK(CT_BLOCK_DETAIL_BIT)
    jz 63f
64:
.endm
.macro RESERVE_DETAIL_REST size, none
63: PUSH_REST
    mov BLOCK(\size), %rdi
    CALL_SLOW CT_BLOCK_FN_DETAIL
    POP_REST
    test %rax, %rax
    jnz 64b
    jmp \none
.endm
/* Fetches what records will be written to a few calls later: about as much as a call and its return take with the
 * default 128 bytes of stack. 10 ns less for a pair with the fast clock; also when all of the window is in the second
 * level of cache. */
.macro PREFETCH_DETAIL
    prefetchw CT_DETAIL_AHEAD(%rax)
    prefetchw CT_DETAIL_AHEAD+64(%rax)
    prefetchw CT_DETAIL_AHEAD+128(%rax)
    prefetchw CT_DETAIL_AHEAD+192(%rax)
    prefetchw CT_DETAIL_AHEAD+256(%rax)
.endm
.macro PUBLISH_DETAIL
    mov CT_NOTE_STAMP(%rsp), %rcx
    mov CT_NOTE_TAG(%rsp), %rdx
    mov %rcx, CT_DETAIL_STAMP(%rax)
    mov %rdx, CT_DETAIL_TAG(%rax)
    imul $CT_DETAIL_MIX, %rcx, %rcx
    xor %rdx, %rcx
    xor BLOCK(CT_BLOCK_DETAIL_KEY), %rcx
    mov %rcx, (%rax)
.endm

/* `slot`: offset of S from rsp. `own`: the innermost entry is this call's: the word at S is what it says. Mostly 128
 * bytes of stack are captured, and are there. */
.macro CAPTURE_CALL slot, own
    CHECK_RULES 39f
    RESERVE_DETAIL CT_BLOCK_CALL_SIZE
    PREFETCH_DETAIL
    mov %rdi, CT_DETAIL_REGISTERS+0(%rax)
    mov %rsi, CT_DETAIL_REGISTERS+8(%rax)
    mov SAVED_RDX(%rsp), %rcx
    mov %rcx, CT_DETAIL_REGISTERS+16(%rax)
    mov SAVED_RCX(%rsp), %rcx
    mov %rcx, CT_DETAIL_REGISTERS+24(%rax)
    mov %r8, CT_DETAIL_REGISTERS+32(%rax)
    mov %r9, CT_DETAIL_REGISTERS+40(%rax)
    mov SAVED_RAX(%rsp), %rcx
    mov %rcx, CT_DETAIL_REGISTERS+48(%rax)
    mov %r10, CT_DETAIL_REGISTERS+56(%rax)
    mov %rbp, CT_DETAIL_FP(%rax)
    lea \slot(%rsp), %rcx
    mov %rcx, CT_DETAIL_SP(%rax)
    cmp BLOCK(CT_BLOCK_STACK_LOW), %rcx
    jb 30f
    cmp BLOCK(CT_BLOCK_STACK_PLAIN), %rcx
    ja 30f
    movups %xmm0, -16(%rsp)
    movq $CT_STACK_PLAIN, CT_DETAIL_STACK_SIZE(%rax)
    mov (%rcx), %rdx                        /* on its own: it was just stored, and a wider load would wait for that */
    mov %rdx, CT_DETAIL_STACK(%rax)
  .irp at, 8, 24, 40, 56, 72, 88, 104
    movups \at(%rcx), %xmm0
    movups %xmm0, CT_DETAIL_STACK+\at(%rax)
  .endr
    mov CT_STACK_PLAIN-8(%rcx), %rdx
    mov %rdx, CT_DETAIL_STACK+CT_STACK_PLAIN-8(%rax)
    mov BLOCK(CT_BLOCK_TOP), %rcx
  .if !\own
    lea CT_SHADOW_SIZE(%rcx), %rcx
  .endif
    /* the nearest three; of a chain of tail calls, which all have one slot, the oldest one counts, and comes last */
  .irp back, 1, 2, 3
    mov INNERMOST(SLOT)-\back*CT_SHADOW_SIZE(%rcx), %rdx
    sub %rsp, %rdx
    cmp $\slot+CT_STACK_PLAIN, %rdx
    jae 38f
    test $7, %dl
    jnz 36f
    movq INNERMOST(RETURN)-\back*CT_SHADOW_SIZE(%rcx), %xmm0
    movq %xmm0, CT_DETAIL_STACK-(\slot)(%rax, %rdx)
  .endr
    lea -3*CT_SHADOW_SIZE(%rcx), %rcx
    jmp 36f
38: movups -16(%rsp), %xmm0
    PUBLISH_DETAIL
39:
.endm

/* The rest of CAPTURE_CALL. 30: another size than CT_STACK_PLAIN, or vector registers too, or perhaps the stack ends.
 * 34: the entry below the one at rcx belongs to a chain of tail calls. */
.macro CAPTURE_CALL_REST slot
    CHECK_RULES_REST SAVED_RAX, \slot
    RESERVE_DETAIL_REST CT_BLOCK_CALL_SIZE, 39b
30: cmpq $0, BLOCK(CT_BLOCK_VECTOR_BYTES)
    je 1f
    mov BLOCK(CT_BLOCK_STACK_BYTES), %rdx
    lea CT_DETAIL_STACK(%rax, %rdx), %rdx
    movups %xmm0, 0(%rdx)
    movups %xmm1, 16(%rdx)
    movups %xmm2, 32(%rdx)
    movups %xmm3, 48(%rdx)
    movups %xmm4, 64(%rdx)
    movups %xmm5, 80(%rdx)
    movups %xmm6, 96(%rdx)
    movups %xmm7, 112(%rdx)
1:  mov BLOCK(CT_BLOCK_STACK_BYTES), %rdx      /* how much of the stack: all of it must be mapped */
    add %rcx, %rdx
    cmp BLOCK(CT_BLOCK_STACK_LOW), %rcx
    jb 2f
    cmp BLOCK(CT_BLOCK_STACK_HIGH), %rdx
    ja 2f
    mov BLOCK(CT_BLOCK_STACK_BYTES), %rdx
    jmp 3f
2:  mov %rcx, %rdx                          /* not the thread's stack, or its end: the page of S is there */
    or $4095, %rdx
    lea 1(%rdx), %rdx
    sub %rcx, %rdx
    and $-8, %rdx                           /* stacks may be misaligned */
    cmp BLOCK(CT_BLOCK_STACK_BYTES), %rdx
    jae 7f
    mov %rdx, -24(%rsp)
6:  movq $0, CT_DETAIL_STACK(%rax, %rdx)    /* no byte of an older record stays */
    add $8, %rdx
    cmp BLOCK(CT_BLOCK_STACK_BYTES), %rdx
    jb 6b
    mov -24(%rsp), %rdx
    jmp 3f
7:  mov BLOCK(CT_BLOCK_STACK_BYTES), %rdx
3:  mov %rdx, CT_DETAIL_STACK_SIZE(%rax)
    movups %xmm0, -16(%rsp)
    mov %rdx, -24(%rsp)
    test %rdx, %rdx
    jz 38b
    test $8, %dl
    jz 4f
    movq -8(%rcx, %rdx), %xmm0
    movq %xmm0, CT_DETAIL_STACK-8(%rax, %rdx)
    sub $8, %rdx
    jz 5f
4:  test $48, %dl                           /* 16 bytes at a time up to a multiple of 64, then 64 */
    jz 46f
    movups -16(%rcx, %rdx), %xmm0
    movups %xmm0, CT_DETAIL_STACK-16(%rax, %rdx)
    sub $16, %rdx
    jnz 4b
    jmp 5f
46: movups -16(%rcx, %rdx), %xmm0
    movups %xmm0, CT_DETAIL_STACK-16(%rax, %rdx)
    movups -32(%rcx, %rdx), %xmm0
    movups %xmm0, CT_DETAIL_STACK-32(%rax, %rdx)
    movups -48(%rcx, %rdx), %xmm0
    movups %xmm0, CT_DETAIL_STACK-48(%rax, %rdx)
    movups -64(%rcx, %rdx), %xmm0
    movups %xmm0, CT_DETAIL_STACK-64(%rax, %rdx)
    sub $64, %rdx
    jnz 46b
5:  /* The copy gets the real return addresses of the frames in it, as the program would have them there. */
    mov BLOCK(CT_BLOCK_TOP), %rcx
6:  lea -CT_SHADOW_SIZE(%rcx), %rcx
    mov CT_SHADOW_SLOT(%rcx), %rdx
    cmp %rdx, INNERMOST(SLOT)(%rcx)
    je 41f
45: sub %rsp, %rdx
    sub $\slot, %rdx
    cmp -24(%rsp), %rdx
    jae 38b
    test $7, %dl
    jnz 6b
    movq CT_SHADOW_RETURN(%rcx), %xmm0
    movq %xmm0, CT_DETAIL_STACK(%rax, %rdx)
    jmp 6b
    /* A chain of tail calls, all with one slot, may be long; only its oldest has the return address. It is found by
     * steps that double, and halve when they go too far. */
41: mov %rsi, -32(%rsp)
    mov %rdi, -40(%rsp)
    mov $CT_SHADOW_SIZE, %esi
42: mov %rcx, %rdi
    sub %rsi, %rdi
    cmp BLOCK(CT_BLOCK_BASE), %rdi
    jbe 43f
    cmp %rdx, CT_SHADOW_SLOT(%rdi)
    jne 43f
    mov %rdi, %rcx
    add %rsi, %rsi
    jmp 42b
43: shr $1, %rsi
    cmp $CT_SHADOW_SIZE, %rsi
    jae 42b
    mov -32(%rsp), %rsi
    mov -40(%rsp), %rdi
    jmp 45b
36: lea -CT_SHADOW_SIZE(%rcx), %rcx         /* like 6 of CAPTURE_CALL_REST, for the entry below the one at rcx */
    mov INNERMOST(SLOT)(%rcx), %rdx
    cmp %rdx, INNERMOST(SLOT)-CT_SHADOW_SIZE(%rcx)
    je 34f
    sub %rsp, %rdx
    cmp $\slot+CT_STACK_PLAIN, %rdx
    jae 38b
    test $7, %dl
    jnz 36b
    movq INNERMOST(RETURN)(%rcx), %xmm0
    movq %xmm0, CT_DETAIL_STACK-(\slot)(%rax, %rdx)
    jmp 36b
34: lea -CT_SHADOW_SIZE(%rcx), %rcx
    movq $CT_STACK_PLAIN, -24(%rsp)
    jmp 41b
.endm

.macro CAPTURE_RETURN slot
    CHECK_RULES 9f
    RESERVE_DETAIL CT_BLOCK_RETURN_SIZE
    mov SAVED_RAX(%rsp), %rcx
    mov %rcx, CT_DETAIL_REGISTERS+0(%rax)
    mov SAVED_RDX(%rsp), %rcx
    mov %rcx, CT_DETAIL_REGISTERS+8(%rax)
    mov \slot(%rsp), %rcx
    mov %rcx, CT_DETAIL_REGISTERS+16(%rax)
    mov %rbp, CT_DETAIL_REGISTERS+24(%rax)
    lea \slot(%rsp), %rcx
    mov %rcx, CT_DETAIL_REGISTERS+32(%rax)
    mov BLOCK(CT_BLOCK_ERRNO), %rcx
    mov CT_NOTE_ENTERED(%rsp), %rdx
    mov (%rcx), %ecx
    test %rdx, %rdx
    jz 2f
    shr $CT_ENTERED_BITS, %rdx
3:  mov %ecx, CT_DETAIL_ERRNO+4(%rax)
    mov %edx, CT_DETAIL_ERRNO(%rax)
    cmpq $0, BLOCK(CT_BLOCK_VECTOR_BYTES)
    je 1f
    movups %xmm0, CT_DETAIL_RETURN_SIZE+0(%rax)
    movups %xmm1, CT_DETAIL_RETURN_SIZE+16(%rax)
1:  PUBLISH_DETAIL
9:
.endm
.macro CAPTURE_RETURN_REST slot
    CHECK_RULES_REST SAVED_RAX, \slot
    RESERVE_DETAIL_REST CT_BLOCK_RETURN_SIZE, 9b
2:  mov $CT_ERRNO_UNKNOWN, %edx
    jmp 3b
.endm

/* Fills the slot at rax like FILL, and the note; the event's tag has its number in the thread, if it is to be
 * captured. */
.macro FILL_NOTE kind, n, fast
    LOAD_NUMBER \kind, \n
    mov BLOCK(CT_BLOCK_BUDGETS), %rcx
    test %rcx, %rcx
    jnz 23f
21: mov $CT_TAG_STEP, %ecx
    xadd %ecx, BLOCK(CT_BLOCK_ORDINAL)
    or $\kind, %ecx
22: shl $32, %rdx                           /* one store: PUBLISH_DETAIL loads both halves at once */
    or %rdx, %rcx
    mov %rcx, CT_NOTE_TAG(%rsp)
    rol $32, %rcx
    mov %rcx, 8(%rax)
  .if \fast
    FAST_STAMP
    mov %rdx, CT_NOTE_STAMP(%rsp)
  .else
    mov %rax, %rcx
    rdtsc
    shl $32, %rdx
    or %rdx, %rax
    mov %rax, (%rcx)
    mov %rax, CT_NOTE_STAMP(%rsp)
  .endif
.endm

/* The rest of FILL_NOTE: there is a limit for how many of this function's calls are captured in a second. A return is
 * captured if its call was. */
.macro CHECK_BUDGET kind
23:
  .if \kind == 2
    testb $1, CT_NOTE_ENTERED(%rsp)
    jnz 21b
    cmpq $0, CT_NOTE_ENTERED(%rsp)
    je 21b
  .else
    cmpl $0, (%rcx, %rdx, 4)
    jle 24f
    lock decl (%rcx, %rdx, 4)
    jns 21b
24:
  .endif
    mov BLOCK(CT_BLOCK_COUNTERS), %rcx
    incq CT_COUNTERS_LIMITED(%rcx)
    mov $\kind, %ecx
    jmp 22b
.endm
