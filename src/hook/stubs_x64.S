/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all stubs share, x86_64. It is position-independent and is copied next to each region of stubs.
 *
 * A stub calls an `enter`, then its body, and jumps to a `leave`:
 *
 *     entry of the function:  jmp stub
 *     stub:   call enter      return address (the "stub word") shows enter which hook this is
 *             nop
 *             call body       leaves `resume` in the slot where the caller's return address was
 *     resume: jmp leave       pushes the caller's return address again and returns: calls and returns stay balanced
 *
 * Signal-safe at every instruction. Scratch registers are saved on the stack. While a stub works on a shadow entry, the
 * entry's slot shows this and how far the stub is: a handler that interrupts us pushes above it, and a handler that
 * jumps away leaves a state that shows what was recorded. An event slot is reserved by one xadd and valid once its
 * timestamp, stored last, is not zero. In comments, S is the address of the slot that holds the return address.
 *
 * The code exists twice. In a process that hooks itself GS points to the thread's block. In a recorded process GS is
 * the program's (stubs_table_x64.S): the block is found in a table by the thread pointer, and r11 points to it while a
 * stub works. */
#include "hook/layout.h"
#include "hook/stub_x64.h"

#ifdef CT_BLOCKS_IN_TABLE
#define NAME(name)   ct_table_##name
#define BLOCK(field) field(%r11)
#define HELD         8 /* bytes on the stack, between rcx and the note: the program's r11 */
#else
#define NAME(name)   ct_hook_##name
#define BLOCK(field) %gs:field
#define HELD         0
#endif

    .text
    .balign 64
    .globl NAME(code)
    .hidden NAME(code)
NAME(code):

.macro FUNCTION name
    .globl \name
    .hidden \name
    .balign 32
\name:
.endm

/* Saves the arithmetic flags in rax and on the stack. No instruction changes them before they are read. */
.macro SAVE_FLAGS
    lahf
    seto %al
    push %rax
.endm
.macro RESTORE_FLAGS
    pop %rax
    add $0x7f, %al
    sahf
.endm

#ifdef CT_BLOCKS_IN_TABLE
/* r11: the block of the thread that has this thread pointer, or of another one; always a block. Like agent/table.c. */
.macro LOAD_BLOCK
    mov %fs:0, %r11
    imul .Lmix(%rip), %r11
    shr $CT_TABLE_SHIFT, %r11
    and $-8, %r11
    add .Ltable(%rip), %r11
    mov (%r11), %r11
    add .Lstray(%rip), %r11
.endm
.macro HOLD_BLOCK
    push %r11
    LOAD_BLOCK
.endm
/* A new thread may have the thread pointer of one that has ended, and find its block. Its outermost call, at the
 * latest, checks which thread it is. */
.macro IF_OUTERMOST label
    cmp BLOCK(CT_BLOCK_FIRST), %rcx
    je \label
.endm
.macro DROP_BLOCK
    pop %r11
.endm
/* A slow path may have given the thread another block. A block that is not the thread's own must not be written to; the
 * stray block means that there is nothing to do. */
.macro LOAD_BLOCK_AGAIN
    LOAD_BLOCK
    mov %fs:0, %rdi
    cmp BLOCK(CT_BLOCK_POINTER), %rdi
    je 99f
    mov .Lstray(%rip), %r11
99: mov %r11, 8(%rbp)
.endm
#else
.macro LOAD_BLOCK
.endm
.macro HOLD_BLOCK
.endm
.macro IF_OUTERMOST label
.endm
.macro DROP_BLOCK
.endm
.macro LOAD_BLOCK_AGAIN
.endm
#endif

/* Calls a C slow path. rax, rdx and rcx are on the stack already; rdi, rsi and rdx are its arguments, set by `setup`
 * from the present rdx/rcx. The result is in rax. `cld`: the ABI requires it, and the interrupted code may have set the
 * flag. */
.macro PUSH_REST
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    push %rbp
    mov %rsp, %rbp
.endm
.macro CALL_SLOW function
    pushfq
    and $-16, %rsp
    cld
    testb %al, -CT_SLOW_RED(%rsp) /* if the stack ends, it ends here: C code that blocks signals must not fault */
    call *BLOCK(\function)
    mov -8(%rbp), %rsi
    and $0x400, %esi
    jz 8f
    std
8:
.endm
.macro POP_REST
    LOAD_BLOCK_AGAIN
    mov %rbp, %rsp
    pop %rbp
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
.endm

/* Reserves an event slot: rax. Its address must show whether it is valid, because a handler may have put another buffer
 * in place by now. */
.macro RESERVE full
    mov $CT_EVENT_SIZE, %eax
    xadd %rax, BLOCK(CT_BLOCK_CURSOR)
    test %rax, BLOCK(CT_BLOCK_EVENT_BIT)
    jz \full
.endm

/* Fills the slot at rax; edx holds the hook's number. Uses rcx. */
.macro FILL kind
    mov %edx, 8(%rax)
    movl $\kind, 12(%rax)
    mov %rax, %rcx
    rdtsc
    shl $32, %rdx
    or %rdx, %rax
    mov %rax, (%rcx)
.endm

/* The fast clock (abi/shm_abi.h). rdx: the time of the event at rax, which is valid once the time is stored. It is the
 * thread's last reading of the counter, if that is newer than the last tick; every 16th slot has a reading of its own.
 * To that is added a little for each slot since the reading, less than an event takes: times increase, and are never
 * ahead. Stub and handler share one word: a reading that is stored late is an old one, and the next tick replaces it.
 * Uses rcx. */
.macro FAST_STAMP
    mov $CT_CLOCK_TURN, %edx
    mov BLOCK(CT_BLOCK_TICK_AT), %rcx
    and %eax, %edx
    jz 26f
    mov (%rcx), %rcx
    shr $CT_CLOCK_SHIFT, %edx
    cmp %rcx, BLOCK(CT_BLOCK_READING)
    jb 26f
    add BLOCK(CT_BLOCK_READING), %rdx
    mov %rdx, (%rax)
25:
.endm
.macro FAST_STAMP_READ
26: mov %rax, %rcx
    prefetchw 512(%rax)                     /* what the 16 events after the next 16 go to */
    prefetchw 576(%rax)
    prefetchw 640(%rax)
    prefetchw 704(%rax)
    rdtsc
    shl $32, %rdx
    or %rax, %rdx
    mov %ecx, %eax
    and $CT_CLOCK_TURN, %eax
    shr $CT_CLOCK_SHIFT, %eax
    neg %rax
    add %rdx, %rax
    mov %rax, BLOCK(CT_BLOCK_READING)
    mov %rdx, (%rcx)
    jmp 25b
.endm
.macro FILL_FAST kind
    mov %edx, 8(%rax)
    movl $\kind, 12(%rax)
    FAST_STAMP
.endm

#define INNERMOST(field) (CT_SHADOW_##field - CT_SHADOW_SIZE)

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
.macro CHECK_RULES value, slot, none
    mov BLOCK(CT_BLOCK_RULES), %rcx
    mov CT_NOTE_HOOK(%rsp), %edx
    test %rcx, %rcx
    jz \none
    cmpl $0, (%rcx, %rdx, 4)
    je 6f
    PUSH_REST
    lea 56(%rbp), %rdi
    mov 56+\value(%rbp), %rsi
    lea 56+\slot(%rbp), %rdx
    lea 8(%rbp), %rcx
    CALL_SLOW CT_BLOCK_FN_MARK
    POP_REST
6:  cmpl $CT_TAG_STEP, CT_NOTE_TAG(%rsp)
    jb \none
.endm

/* rax: a record of the size that is in the block at `size`; both its ends are in one chunk. */
.macro RESERVE_DETAIL size, none
    mov BLOCK(\size), %rax
    mov %rax, %rdx
    xadd %rax, BLOCK(CT_BLOCK_DETAIL_CURSOR)
    lea -1(%rax, %rdx), %rdx
    and %rax, %rdx
    test %rdx, BLOCK(CT_BLOCK_DETAIL_BIT)
    jnz 6f
    PUSH_REST
    mov BLOCK(\size), %rdi
    CALL_SLOW CT_BLOCK_FN_DETAIL
    POP_REST
    test %rax, %rax
    jz \none
6:
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

/* `slot`: offset of S from rsp. */
.macro CAPTURE_CALL slot
    CHECK_RULES SAVED_RAX, \slot, 9f
    RESERVE_DETAIL CT_BLOCK_CALL_SIZE, 9f
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
    cmpq $0, BLOCK(CT_BLOCK_VECTOR_BYTES)
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
    jz 8f
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
    jae 8f
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
8:  movups -16(%rsp), %xmm0
    PUBLISH_DETAIL
9:
.endm

.macro CAPTURE_RETURN slot
    CHECK_RULES SAVED_RAX, \slot, 9f
    RESERVE_DETAIL CT_BLOCK_RETURN_SIZE, 9f
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
    jmp 9f
2:  mov $CT_ERRNO_UNKNOWN, %edx
    jmp 3b
9:
.endm

/* Fills the slot at rax like FILL, and the note; the event's tag has its number in the thread, if it is to be
 * captured. */
.macro FILL_NOTE kind, fast
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

/* The block needs attention, rax is the thread pointer, rdx S. While an unwinder walks, its own calls, and those of
 * handlers on its stack, are ordinary calls: S is so little below the slot of its outermost function that it is on the
 * same stack. */
.macro IF_WALKING label
    cmp BLOCK(CT_BLOCK_WALKER), %rax
    jne 15f
    mov BLOCK(CT_BLOCK_EXPOSED_SLOT), %rcx
    sub %rdx, %rcx
    lea -1(%rcx), %rcx
    cmp BLOCK(CT_BLOCK_WALK_REACH), %rcx
    jb \label
.endm

/* ecx: errno, at most CT_ENTERED_ERRNO; rcx points to it. Uses rdx. */
.macro LOAD_ERRNO
    mov (%rcx), %ecx
    mov $CT_ENTERED_ERRNO, %edx
    cmp %edx, %ecx
    cmova %edx, %ecx
.endm

/* ---- enter: record the call, move the return address to the shadow stack ---- */

/* Each of these exists twice, without and with detail. N: bytes on the stack below rcx: HELD, and the note's;
 * CALL_SLOW's last argument is the note's address, or zero. */
#define PLAIN    HELD
#define DETAILED HELD+CT_NOTE_SIZE
#define NOTED(n) (n) > HELD
.macro NOTE_ARGUMENT n, register
  .if NOTED(\n)
    lea 56(%rbp), \register
  .else
    mov $0, \register
  .endif
.endm

/* Fills the slot at rax: with or without detail, with or without the fast clock. */
.macro FILL_EVENT kind, n, fast
  .if NOTED(\n)
    FILL_NOTE \kind, \fast
  .elseif \fast
    FILL_FAST \kind
  .else
    FILL \kind
  .endif
.endm

.macro PROLOGUE n
    push %rax
    SAVE_FLAGS
    push %rdx
    push %rcx
    HOLD_BLOCK
  .if NOTED(\n)
    lea -CT_NOTE_SIZE(%rsp), %rsp
    mov %rcx, -CT_DETAIL_RED(%rsp) /* all the stack that is needed: if it ends, it ends here (fault_place_x64.c) */
  .endif
.endm
.macro EPILOGUE n
  .if NOTED(\n)
    lea CT_NOTE_SIZE(%rsp), %rsp
  .endif
    DROP_BLOCK
    pop %rcx
    pop %rdx
    RESTORE_FLAGS
    pop %rax
.endm

/* Stack: note, r11 perhaps, rcx, rdx, flags, rax, stub word, return address = S. Flags are kept, although the ABI does
 * not require it: the cost cannot be measured beside two timestamps, and hand-written callers may pass them. */
.macro ENTER n, fast=0
    PROLOGUE \n
    mov %fs:0, %rax
    lea 40+\n(%rsp), %rdx
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 17f
10: mov BLOCK(CT_BLOCK_TOP), %rcx
    IF_OUTERMOST 15f
    cmp %rdx, INNERMOST(SLOT)(%rcx)
    jbe 13f
    cmp BLOCK(CT_BLOCK_FLOOR), %rdx
    jb 15f
11: cmp BLOCK(CT_BLOCK_LIMIT), %rcx
    jae 15f
    addq $CT_SHADOW_SIZE, BLOCK(CT_BLOCK_TOP)  /* claim: its slot is 0 already */
    lea CT_SHADOW_SIZE(%rcx), %rax
    cmp BLOCK(CT_BLOCK_TOP), %rax
    jne 18f
    movq $0, CT_SHADOW_DATA(%rcx)
    lea CT_SHADOW_ENTERING(%rdx), %rax
    mov %rax, CT_SHADOW_SLOT(%rcx)
    mov (%rdx), %rax
    mov %rax, CT_SHADOW_RETURN(%rcx)
    mov 32+\n(%rsp), %rdx
    mov %rdx, CT_SHADOW_STUB(%rcx)
    mov CT_AFTER_TO_NUMBER(%rdx), %edx
    RESERVE 14f
    mov %rax, CT_SHADOW_DATA(%rcx)
    FILL_EVENT 1, \n, \fast
    mov BLOCK(CT_BLOCK_TOP), %rcx
    lea 40+\n(%rsp), %rdx
    mov %rdx, INNERMOST(SLOT)(%rcx)         /* the frame is there */
12:
  .if NOTED(\n)
    mov BLOCK(CT_BLOCK_ERRNO), %rcx
    mov CT_NOTE_STAMP(%rsp), %rax
    cmpl $CT_TAG_STEP, CT_NOTE_TAG(%rsp)
    sbb %edx, %edx
    inc %edx
    and $-2, %rax
    or %rdx, %rax
    LOAD_ERRNO
    shl $64-CT_ENTERED_BITS, %rax
    shrd $64-CT_ENTERED_BITS, %rcx, %rax
    mov BLOCK(CT_BLOCK_TOP), %rcx
    mov %rax, INNERMOST(DATA)(%rcx)         /* when it was entered, and errno (CT_ENTERED_BITS) */
    CAPTURE_CALL 40+\n
  .endif
    EPILOGUE \n
    ret $8                                  /* drops the return address: the body's call takes its slot */
  .if NOTED(\n)
    CHECK_BUDGET 1
  .endif
  .if \fast
    FAST_STAMP_READ
  .endif

    /* A handler came, and entries of its frames are left: its stack walk let them return unseen. */
18: subq $CT_SHADOW_SIZE, BLOCK(CT_BLOCK_TOP)
    jmp 15f

    /* Same slot as the innermost frame, and that frame's resume address in it: a tail call. */
13: jne 15f
    mov INNERMOST(STUB)(%rcx), %rax
    add $CT_AFTER_TO_RESUME, %rax
    cmp %rax, (%rdx)
    je 11b
    jmp 15f

14: PUSH_REST                               /* buffer full; the entry is claimed */
    mov %edx, %edi
    mov $1, %esi
    lea 40+56+\n(%rbp), %rdx
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_EVENT
    POP_REST
    jmp 12b

17: IF_WALKING 10b
15: PUSH_REST
    lea 96+\n(%rsp), %rdi
    mov 88+\n(%rsp), %rsi
    NOTE_ARGUMENT \n, %rdx
    CALL_SLOW CT_BLOCK_FN_ENTER
    POP_REST
    test %eax, %eax
    jnz 12b
    /* Not observed: goes to the body, with the return address where it is. */
    mov 32+\n(%rsp), %rcx
    movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rcx
    mov %rcx, 32+\n(%rsp)
    EPILOGUE \n
    ret
.endm

/* Entry-only: one event, the return address stays. */
.macro ENTER_ENTRY n, fast=0
    PROLOGUE \n
    mov %fs:0, %rax
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 17f
10: mov BLOCK(CT_BLOCK_TOP), %rcx
    lea 40+\n(%rsp), %rdx
    cmp %rdx, INNERMOST(SLOT)(%rcx)
    jbe 13f
    cmp BLOCK(CT_BLOCK_FLOOR), %rdx
    jb 15f
19: mov 32+\n(%rsp), %rdx
    mov CT_AFTER_TO_NUMBER(%rdx), %edx
    RESERVE 14f
    FILL_EVENT 4, \n, \fast
11:
  .if NOTED(\n)
    CAPTURE_CALL 40+\n
  .endif
12: EPILOGUE \n
    ret
  .if NOTED(\n)
    CHECK_BUDGET 4
  .endif
  .if \fast
    FAST_STAMP_READ
  .endif
13: jne 15f                                 /* as in ENTER */
    mov INNERMOST(STUB)(%rcx), %rax
    add $CT_AFTER_TO_RESUME, %rax
    cmp %rax, (%rdx)
    je 19b
    jmp 15f
14: PUSH_REST
    mov %edx, %edi
    mov $4, %esi
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_EVENT
    jmp 16f
17: lea 40+\n(%rsp), %rdx
    IF_WALKING 10b
15: PUSH_REST
    lea 56+40+\n(%rsp), %rdi
    mov 56+32+\n(%rsp), %rsi
    NOTE_ARGUMENT \n, %rdx
    CALL_SLOW CT_BLOCK_FN_ENTRY
16: POP_REST
  .if NOTED(\n)
    cmpq $0, CT_NOTE_STAMP(%rsp)
    jne 11b
  .endif
    jmp 12b
.endm

FUNCTION NAME(enter_record)
    ENTER PLAIN
FUNCTION NAME(enter_detail)
    ENTER DETAILED
FUNCTION NAME(enter_entry)
    ENTER_ENTRY PLAIN
FUNCTION NAME(enter_entry_detail)
    ENTER_ENTRY DETAILED
FUNCTION NAME(enter_record_fast)
    ENTER PLAIN, 1
FUNCTION NAME(enter_detail_fast)
    ENTER DETAILED, 1
FUNCTION NAME(enter_entry_fast)
    ENTER_ENTRY PLAIN, 1
FUNCTION NAME(enter_entry_detail_fast)
    ENTER_ENTRY DETAILED, 1

/* ---- sampling: every Nth call of a function is recorded, with all that it calls ---- */

/* Counts the call. Goes on to `next` when a recorded call is open on this stack, or when it is the function's turn;
 * otherwise to the body, with the return address where it is. Stack as in ENTER. A counter (struct ct_shm_count) has
 * the calls, and how many there were when the last one was chosen. Frames that were left unseen count as open: the next
 * call is recorded, and finds out. */
.macro SAMPLE next, entry_only
    PROLOGUE PLAIN
    mov %fs:0, %rax
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 15f
    mov BLOCK(CT_BLOCK_COUNTS), %rcx
    test %rcx, %rcx
    jz 14f
    mov 32+PLAIN(%rsp), %rdx
    mov CT_AFTER_TO_NUMBER(%rdx), %edx
    shl $CT_COUNT_SHIFT, %rdx
    add %rdx, %rcx
    mov $1, %eax
    cmpq $0, BLOCK(CT_BLOCK_COUNTS_ALONE)
    je 12f
    xadd %rax, (%rcx)                       /* one instruction: a handler comes before or after it */
11: mov BLOCK(CT_BLOCK_TOP), %rdx
    mov INNERMOST(SLOT)(%rdx), %rdx
    sub $8, %rdx                            /* neither the sentinel nor a hole */
    jns 14f
    inc %rax
    sub 8(%rcx), %rax
    cmp BLOCK(CT_BLOCK_SAMPLE), %rax
    jb 13f
    add %rax, 8(%rcx)
14: EPILOGUE PLAIN
    jmp \next
12: lock xadd %rax, (%rcx)
    jmp 11b
15: PUSH_REST
    mov 88+PLAIN(%rsp), %rdi
    CALL_SLOW CT_BLOCK_FN_SAMPLE
    POP_REST
    test %eax, %eax
    jnz 14b
13:
  .if !\entry_only
    mov 32+PLAIN(%rsp), %rcx
    movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rcx
    mov %rcx, 32+PLAIN(%rsp)
  .endif
    EPILOGUE PLAIN
    ret
.endm

FUNCTION NAME(sample_record)
    SAMPLE NAME(enter_record), 0
FUNCTION NAME(sample_detail)
    SAMPLE NAME(enter_detail), 0
FUNCTION NAME(sample_entry)
    SAMPLE NAME(enter_entry), 1
FUNCTION NAME(sample_entry_detail)
    SAMPLE NAME(enter_entry_detail), 1

/* ---- leave: record the return, bring the return address back ---- */

/* Entered with rsp = S + 8. Stack: note, r11 perhaps, rcx, rdx, flags, rax, return address = S. Flags are kept:
 * hand-written callers may look at them, and the caller is not known. */
.macro LEAVE n, fast=0
    lea -8(%rsp), %rsp
    PROLOGUE \n
    lea 32+\n(%rsp), %rdx
    mov %fs:0, %rax                         /* a coroutine may return on a thread that has no block of its own yet */
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 17f
10: mov BLOCK(CT_BLOCK_TOP), %rcx
    cmp %rdx, INNERMOST(SLOT)(%rcx)
    jne 15f
    mov (%rdx), %rax                        /* our resume address, which the body's return has just read */
    sub $CT_AFTER_TO_RESUME, %rax
    cmp %rax, INNERMOST(STUB)(%rcx)
    jne 15f
  .if NOTED(\n)
    mov INNERMOST(DATA)(%rcx), %rax
    mov %rax, CT_NOTE_ENTERED(%rsp)
  .endif
    movq $0, INNERMOST(DATA)(%rcx)
    /* can be undone, in case a handler came and the entry is another frame's */
    addq $CT_SHADOW_RETURNING, INNERMOST(SLOT)(%rcx)
    cmp BLOCK(CT_BLOCK_TOP), %rcx
    jne 18f
    mov INNERMOST(RETURN)(%rcx), %rax       /* in flight first: otherwise a handler's walk would hook the slot again */
    mov %rax, (%rdx)
    mov INNERMOST(STUB)(%rcx), %rdx
    mov CT_AFTER_TO_NUMBER(%rdx), %edx
    RESERVE 14f
    mov %rax, INNERMOST(DATA)(%rcx)
    FILL_EVENT 2, \n, \fast
    mov BLOCK(CT_BLOCK_TOP), %rcx
    lea -CT_SHADOW_SIZE(%rcx), %rcx
    movq $0, CT_SHADOW_SLOT(%rcx)
    mov %rcx, BLOCK(CT_BLOCK_TOP)              /* release */
    cmp BLOCK(CT_BLOCK_BARE), %rcx
    jbe 19f
11:
  .if NOTED(\n)
    CAPTURE_RETURN 32+\n
  .endif
12: EPILOGUE \n
    ret
  .if NOTED(\n)
    CHECK_BUDGET 2
  .endif
  .if \fast
    FAST_STAMP_READ
  .endif
14: PUSH_REST                               /* buffer full; the slow path releases the entry */
    mov %edx, %edi
    mov $2, %esi
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_EVENT
    POP_REST
    jmp 11b
19: PUSH_REST                               /* the next frame would return unseen */
    CALL_SLOW CT_BLOCK_FN_COVER
    POP_REST
    jmp 11b
18:                                         /* as in ENTER */
  .if NOTED(\n)
    mov CT_NOTE_ENTERED(%rsp), %rax
    mov %rax, INNERMOST(DATA)(%rcx)
  .endif
    subq $CT_SHADOW_RETURNING, INNERMOST(SLOT)(%rcx)
    jmp 15f
17: IF_WALKING 10b
15: PUSH_REST
    mov %rdx, %rdi
    NOTE_ARGUMENT \n, %rsi
    CALL_SLOW CT_BLOCK_FN_LEAVE
    POP_REST
    mov %rax, 32+\n(%rsp)
  .if NOTED(\n)
    cmpq $0, CT_NOTE_STAMP(%rsp)
    jne 11b
  .endif
    jmp 12b
.endm

FUNCTION NAME(leave_record)
    LEAVE PLAIN
FUNCTION NAME(leave_detail)
    LEAVE DETAILED
FUNCTION NAME(leave_record_fast)
    LEAVE PLAIN, 1
FUNCTION NAME(leave_detail_fast)
    LEAVE DETAILED, 1

/* ---- functions that the engine must know about: always through C ---- */

/* Stack and ways on as in ENTER. r11..rsi at 8(%rbp): struct ct_special_frame. */
.macro ENTER_SPECIAL n
    PROLOGUE \n
    PUSH_REST
    lea 56+40+\n(%rbp), %rdi                /* S */
    mov 56+32+\n(%rbp), %rsi
    lea 8(%rbp), %rdx
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_SPECIAL
    POP_REST
  .if NOTED(\n)
    mov %rax, CT_NOTE_ENTERED(%rsp)         /* a call does not need it */
    cmpq $0, CT_NOTE_STAMP(%rsp)
    je 31f
    CAPTURE_CALL 40+\n
31: mov CT_NOTE_ENTERED(%rsp), %rax
  .endif
    test %eax, %eax
    jz 32f
    EPILOGUE \n
    ret $8
32: mov 32+\n(%rsp), %rcx                   /* to the body, with the return address where it is */
    movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rcx
    mov %rcx, 32+\n(%rsp)
    EPILOGUE \n
    ret
.endm

FUNCTION NAME(enter_special)
    ENTER_SPECIAL PLAIN
FUNCTION NAME(enter_special_detail)
    ENTER_SPECIAL DETAILED

/* ---- listeners: the full context ---- */

/* Builds struct ct_cpu_x64 on the stack at rbx and saves the vector state below it. `gap`: bytes between the structure
 * and what was on the stack. After this the C code may use every register. */
.macro SAVE_CONTEXT gap
    lea -(152+\gap)(%rsp), %rsp
    mov %rax, 0(%rsp)
    mov %rcx, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rbx, 24(%rsp)
    mov %rbp, 40(%rsp)
    mov %rsi, 48(%rsp)
    mov %rdi, 56(%rsp)
    mov %r8, 64(%rsp)
    mov %r9, 72(%rsp)
    mov %r10, 80(%rsp)
    mov %r11, 88(%rsp)
    mov %r12, 96(%rsp)
    mov %r13, 104(%rsp)
    mov %r14, 112(%rsp)
    mov %r15, 120(%rsp)
    mov %rsp, %rbx
    pushfq
    pop 136(%rbx)
    cld
    LOAD_BLOCK
    sub BLOCK(CT_BLOCK_VECTORS_SIZE), %rsp
    and $-64, %rsp
    mov %rsp, 144(%rbx)
    xor %eax, %eax
    mov %rax, 512(%rsp)
    mov %rax, 520(%rsp)
    mov %rax, 528(%rsp)
    mov %rax, 536(%rsp)
    mov %rax, 544(%rsp)
    mov %rax, 552(%rsp)
    mov %rax, 560(%rsp)
    mov %rax, 568(%rsp)
    mov BLOCK(CT_BLOCK_VECTORS_PARTS), %eax
    xor %edx, %edx
    xsave64 (%rsp)
    fninit
    push $0x1f80
    ldmxcsr (%rsp)
    lea 8(%rsp), %rsp
.endm
.macro RESTORE_CONTEXT gap
    LOAD_BLOCK
    mov BLOCK(CT_BLOCK_VECTORS_PARTS), %eax
    xor %edx, %edx
    mov 144(%rbx), %rsp
    xrstor64 (%rsp)
    mov %rbx, %rsp
    push 136(%rsp)
    popfq
    mov 0(%rsp), %rax
    mov 8(%rsp), %rcx
    mov 16(%rsp), %rdx
    mov 24(%rsp), %rbx
    mov 40(%rsp), %rbp
    mov 48(%rsp), %rsi
    mov 56(%rsp), %rdi
    mov 64(%rsp), %r8
    mov 72(%rsp), %r9
    mov 80(%rsp), %r10
    mov 88(%rsp), %r11
    mov 96(%rsp), %r12
    mov 104(%rsp), %r13
    mov 112(%rsp), %r14
    mov 120(%rsp), %r15
    lea 152+\gap(%rsp), %rsp
.endm

FUNCTION NAME(enter_listen)               /* stack: stub word, return address = S */
    SAVE_CONTEXT 0
    mov %rbx, %rdi
    lea 160(%rbx), %rsi
    mov 152(%rbx), %rdx
    mov %rsi, 32(%rbx)
    call *BLOCK(CT_BLOCK_FN_ON_CALL)
    mov 152(%rbx), %rcx
    test %eax, %eax
    jz 1f
    mov %rcx, 160(%rbx)                     /* observed: return to the stub from S, so that rsp becomes S + 8 */
    RESTORE_CONTEXT 8
    ret
1:  movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rcx
    mov %rcx, 152(%rbx)
    RESTORE_CONTEXT 0
    ret

FUNCTION NAME(leave_listen)               /* rsp = S + 8 */
    lea -8(%rsp), %rsp
    SAVE_CONTEXT 0
    mov %rbx, %rdi
    lea 152(%rbx), %rsi
    lea 160(%rbx), %rax
    mov %rax, 32(%rbx)
    call *BLOCK(CT_BLOCK_FN_ON_RETURN)
    mov %rax, 152(%rbx)
    RESTORE_CONTEXT 0
    ret

#ifdef CT_BLOCKS_IN_TABLE
    .balign 8
.Lmix:
    .quad CT_TABLE_MIX
/* CT_TABLE_LITERALS: filled when the code is put into a process: the address of the table, and the block of threads
 * that have none. */
.Ltable:
    .quad 0
.Lstray:
    .quad 0
#endif

    .globl NAME(code_end)
    .hidden NAME(code_end)
NAME(code_end):

#ifndef CT_BLOCKS_IN_TABLE

/* ---- not copied: helpers of the C slow paths ---- */

FUNCTION ct_hook_on_stack                   /* stack, fn, a, b */
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    mov %rdi, %rsp
    mov %rsi, %rax
    mov %rdx, %rdi
    mov %rcx, %rsi
    call *%rax
    mov %rbp, %rsp
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc

FUNCTION ct_hook_call_saved                 /* vectors (size, parts), fn, arg */
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    push %rbx
    push %r12
    .cfi_offset %rbx, -24
    .cfi_offset %r12, -32
    mov %rsi, %rbx
    mov %rdx, %r8
    mov %rcx, %r9
    sub %rdi, %rsp
    and $-64, %rsp
    mov %rsp, %r12
    xor %eax, %eax
    lea 512(%rsp), %rdi
    mov $8, %ecx
    rep stosq
    mov %ebx, %eax
    xor %edx, %edx
    xsave64 (%r12)
    fninit
    push $0x1f80
    ldmxcsr (%rsp)
    lea 8(%rsp), %rsp
    mov %r9, %rdi
    mov %r12, %rsi
    call *%r8
    mov %ebx, %eax
    xor %edx, %edx
    xrstor64 (%r12)
    lea -16(%rbp), %rsp
    pop %r12
    pop %rbx
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc

#endif

    .section .note.GNU-stack,"",@progbits
