/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_x64.S: what all of the shared code uses. Names of the two forms, flags, the thread's block, calls of
 * slow paths, event slots and their times. */
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
